"""Tests for app.models.chat_exports."""

from __future__ import annotations

import pytest

from app.chats.records import Outcome
from app.models import AppModels
from app.models.chat_exports import ChatExports
from app.settings import SettingsStore
from engine import protocol


@pytest.fixture
def models(client, store, tmp_path):
    made = AppModels(client, store, SettingsStore(tmp_path / "window.toml"))
    yield made
    made.close()


@pytest.fixture
def exports(models) -> ChatExports:
    return models.exports


def add_chat(store, title: str, *answers: str) -> str:
    """A chat of one question, asked again for each of its answers; the last one is shown."""
    chat = store.create_conversation(title)
    for answer in answers:
        turn = store.add_turn(chat.conversation_id, None, f"What of {title}?")
        store.record(turn.turn_id, Outcome(state="finished", text=answer, thoughts="A secret."))
    return chat.conversation_id


def test_of_a_chat_the_branch_that_is_shown_is_exported(exports, store):
    chat = add_chat(store, "Flat", "Two months.", "Three months.")
    text = exports.markdown(chat)
    assert text.startswith("# Flat\n\n## What of Flat?\n\nThree months.")
    assert "Two months." not in text
    assert "secret" not in text


def test_the_open_chat_is_exported_as_it_is_shown(exports, models, store):
    chat = add_chat(store, "Flat", "Two months.", "Three months.")
    models.conversation.open(chat)
    models.conversation.switch_branch(models.conversation.turns[0].turn_id, -1)
    assert "Two months." in exports.markdown(chat)


def test_a_chat_that_is_gone_cannot_be_exported(exports, store):
    chat = add_chat(store, "Flat", "Two months.")
    store.delete(chat)
    assert exports.markdown(chat) is None


def test_a_chat_that_cannot_be_read_is_told_of(exports, store, qtbot):
    chat = add_chat(store, "Flat", "Two months.")
    store._connection.execute("DROP TABLE turns")
    with qtbot.wait_signal(exports.store_failed):
        assert exports.markdown(chat) is None


def test_all_chats_are_written_into_a_new_folder_and_nothing_else_is_touched(exports, store, tmp_path, qtbot):
    for title in ("Same", "same", "A/B?"):
        add_chat(store, title, f"About {title}.")
    store.delete(add_chat(store, "Deleted", "No."))
    taken = tmp_path / "out" / "Ragdoll chats"
    taken.mkdir(parents=True)
    with qtbot.wait_signal(exports.finished) as finished:
        exports.write_all(tmp_path / "out")
    folder = tmp_path / "out" / "Ragdoll chats (2)"
    assert finished.args == [3, str(folder)]
    assert sorted(file.name for file in folder.iterdir()) == ["A-B.md", "Same (2).md", "same.md"]
    assert "About Same." in (folder / "Same (2).md").read_text()
    assert list(taken.iterdir()) == []
    assert not exports.is_writing


def test_many_chats_are_written_a_few_at_a_time(exports, store, tmp_path, qtbot, monkeypatch):
    monkeypatch.setattr("app.models.chat_exports._STEP_S", 0)
    for title in ("one", "two", "three"):
        add_chat(store, title, "Yes.")
    told: list[tuple[int, int]] = []
    exports.progressed.connect(lambda *progress: told.append(progress))
    with qtbot.wait_signal(exports.finished):
        exports.write_all(tmp_path)
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_without_chats_no_folder_is_made(exports, tmp_path, qtbot):
    (tmp_path / "out").mkdir()
    with qtbot.wait_signal(exports.finished) as finished:
        exports.write_all(tmp_path / "out")
    assert finished.args[0] == 0
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_that_takes_no_more_ends_it_with_what_is_written(exports, store, tmp_path, qtbot, monkeypatch):
    from app import exports as files

    for title in ("one", "two", "three"):
        add_chat(store, title, "Yes.")

    def write_or_fail(file, content: bytes) -> None:
        if file.stem == "two":
            raise OSError(28, "No space left on device")
        files.write_export(file, content)

    monkeypatch.setattr("app.models.chat_exports.write_export", write_or_fail)
    with qtbot.wait_signal(exports.failed) as failed:
        exports.write_all(tmp_path)
    assert failed.args == [1, 3, "No space left on device"]
    assert [file.name for file in (tmp_path / "Ragdoll chats").iterdir()] == ["three.md"]
    assert not exports.is_writing


def test_a_file_name_that_is_no_text_costs_no_chat_its_export(exports, models, client, store, tmp_path, qtbot):
    for title in ("one", "two"):
        add_chat(store, title, "Yes.")
    models.conversation.ask("What notice?")
    asked = models.conversation.turns[-1].turn_id
    sentence = "“lease\udcff.pdf” cannot be read."
    client.tell(protocol.AnswerFailed(question_id=asked, kind="DocumentUnreadable", sentence=sentence))
    chat = models.conversation.conversation_id
    assert "“lease\N{REPLACEMENT CHARACTER}.pdf” cannot be read." in exports.markdown(chat)
    with qtbot.wait_signal(exports.finished) as finished:
        exports.write_all(tmp_path)
    assert finished.args[0] == 3
    assert "cannot be read." in (tmp_path / "Ragdoll chats" / "What notice.md").read_text()


@pytest.mark.expects_warnings
def test_whatever_goes_wrong_is_told_and_not_called_done(exports, store, tmp_path, qtbot, monkeypatch):
    for title in ("one", "two"):
        add_chat(store, title, "Yes.")

    def fail(*_: object) -> str:
        raise ValueError("no such thing")

    monkeypatch.setattr("app.models.chat_exports.markdown_of", fail)
    with qtbot.wait_signal(exports.failed) as failed, qtbot.assert_not_emitted(exports.finished):
        exports.write_all(tmp_path)
    assert failed.args == [0, 2, "ValueError: no such thing"]
    assert not exports.is_writing


def test_chats_are_not_written_any_more_once_the_window_is_closed(exports, store, models, tmp_path):
    add_chat(store, "one", "Yes.")
    exports.write_all(tmp_path)
    models.close()
    assert not exports.is_writing
