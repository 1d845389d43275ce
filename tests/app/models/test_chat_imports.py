"""Tests for app.models.chat_imports: chats come back from their files, all of them or none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.chats import ChatStore, WholeChat, exchange
from app.chats.records import Conversation, Outcome
from app.models import AppModels, chat_imports
from app.models.chat_imports import ChatImports
from app.settings import SettingsStore
from engine.protocol import Filters, Manner
from tests.helpers.answers import finished


@pytest.fixture
def models(client, store, tmp_path):
    made = AppModels(client, store, SettingsStore(tmp_path / "window.toml"))
    yield made
    made.close()


@pytest.fixture
def elsewhere(qapp, tmp_path):
    """The chats of another computer."""
    made = ChatStore(tmp_path / "elsewhere.sqlite")
    yield made
    made.close()


@pytest.fixture
def imports(elsewhere):
    made = ChatImports(elsewhere, has_model=lambda path: path != "/somebody/else.gguf")
    yield made
    made.stop()


def add_chat(store, title: str, *answers: str) -> str:
    chat = store.create_conversation(title)
    for answer in answers:
        turn = store.add_turn(chat.conversation_id, None, f"What of {title}?")
        store.record(turn.turn_id, Outcome(state="finished", text=answer))
    return chat.conversation_id


def exported(models, qtbot, tmp_path, among=None):
    """The folder with JSON files of chats."""
    with qtbot.wait_signal(models.exports.finished) as written:
        models.exports.write_all(tmp_path, "json", among)
    return written.args[1]


def imported(imports, qtbot, *paths) -> tuple[str, ...]:
    with qtbot.wait_signal(imports.finished) as done:
        imports.begin([str(path) for path in paths])
    return done.args[0]


def refusal(imports, qtbot, *paths) -> str:
    with qtbot.wait_signal(imports.failed) as failed:
        imports.begin([str(path) for path in paths])
    return failed.args[0]


def told(store) -> list[tuple]:
    """All that is stored of all chats but their ids."""
    result = []
    for chat in store.conversations():
        turns = store.turns(chat.conversation_id)
        places = {turn.turn_id: place for place, turn in enumerate(turns)}
        result.append(
            (
                (chat.title, chat.created, chat.updated, chat.is_pinned, chat.collections, chat.filters, chat.model),
                (chat.searches, chat.manner, places.get(chat.leaf_id)),
                [
                    (places.get(one.parent_id), one.question, one.created, one.filters, one.searches, one.outcome)
                    for one in turns
                ],
            )
        )
    return result


def test_all_of_a_chat_comes_back_on_another_computer(models, client, imports, elsewhere, store, qtbot, tmp_path):
    chat = models.conversation
    chat.set_collections(("Flat",))
    for number in (1, 2):
        chat.ask(f"{number}?")
        client.tell(finished(chat.turns[-1].turn_id, f"Answer {number}.", thoughts="Let me see."))
    chat.edit(chat.turns[0].turn_id, "uno?")
    client.tell(finished(chat.turns[-1].turn_id, "Answer."))
    chat.set_filters(Filters(paths=("/docs/na\udcefve.pdf",)))
    chat.set_manner(Manner(instructions="Be brief."))
    models.chat_list.set_pinned(chat.conversation_id, True)
    add_chat(store, "Other", "Yes.")
    ids = imported(imports, qtbot, exported(models, qtbot, tmp_path))
    assert len(ids) == 2
    assert told(elsewhere) == told(store)
    assert set(ids).isdisjoint(one.conversation_id for one in store.conversations())


def test_chats_are_imported_beside_those_that_are_there(models, store, qtbot, tmp_path):
    chat = add_chat(store, "Flat", "Three months.")
    folder = exported(models, qtbot, tmp_path)
    with qtbot.wait_signal(models.imports.finished):
        models.imports.begin([folder])
    assert [one.title for one in store.conversations()] == ["Flat", "Flat"]
    # A single one is opened.
    assert models.conversation.conversation_id not in (None, chat)
    assert models.conversation.turns[0].text == "Three months."
    assert models.chat_list.rowCount() == 2


def test_only_chosen_chats_are_exported(models, store, qtbot, tmp_path):
    wanted = add_chat(store, "Flat", "Yes.")
    add_chat(store, "Other", "No.")
    folder = tmp_path / "Ragdoll chats"
    assert exported(models, qtbot, tmp_path, (wanted,)) == str(folder)
    assert [file.name for file in folder.iterdir()] == ["Flat.json"]


def test_of_a_folder_json_files_are_read_and_nothing_else(models, store, imports, elsewhere, qtbot, tmp_path):
    add_chat(store, "Flat", "Yes.")
    folder = tmp_path / "Ragdoll chats"
    exported(models, qtbot, tmp_path)
    (folder / "notes.txt").write_text("no chats")
    (folder / "._Flat.json").write_bytes(b"\0")
    (folder / "inner.json").mkdir()
    imported(imports, qtbot, folder)
    assert [one.title for one in elsewhere.conversations()] == ["Flat"]


def test_of_several_files_one_that_is_foreign_keeps_all_out(models, store, imports, elsewhere, qtbot, tmp_path):
    add_chat(store, "Flat", "Yes.")
    folder = tmp_path / "Ragdoll chats"
    exported(models, qtbot, tmp_path)
    (folder / "package.json").write_text('{"name": "something"}')
    assert refusal(imports, qtbot, folder) == "“package.json” holds no chats of Ragdoll, so nothing was imported."
    assert elsewhere.conversations() == ()
    assert not imports.is_busy
    # It can be tried again with the others.
    imported(imports, qtbot, folder / "Flat.json")
    assert len(elsewhere.conversations()) == 1


def test_files_that_cannot_be_read_are_told(imports, qtbot, tmp_path):
    assert refusal(imports, qtbot, tmp_path / "gone.json") == (
        "“gone.json” cannot be read, so nothing was imported: No such file or directory."
    )
    (tmp_path / "empty").mkdir()
    assert refusal(imports, qtbot, tmp_path / "empty") == "“empty” holds no chats."


def test_a_file_that_is_too_large_is_not_read(imports, qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("app.models.chat_imports._MOST_BYTES", 10)
    (tmp_path / "large.json").write_text("[1, 2, 3, 4, 5, 6]")
    assert refusal(imports, qtbot, tmp_path / "large.json") == "“large.json” is too large, so nothing was imported."


def test_files_that_are_too_large_together_are_not_read(imports, qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("app.models.chat_imports._MOST_BYTES", 10)
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    for path in paths:
        path.write_text("[1, 2]")
    assert refusal(imports, qtbot, *paths) == "These files are too large together, so nothing was imported."


@pytest.mark.parametrize(
    ("short_bytes", "is_kept", "is_refused"), [(1, True, True), (0, True, False), (1, False, False)]
)
def test_without_room_on_the_disk_nothing_is_begun(
    models, store, imports, elsewhere, qtbot, tmp_path, monkeypatch, short_bytes: int, is_kept: bool, is_refused: bool
):
    add_chat(store, "One", "Yes.")
    folder = exported(models, qtbot, tmp_path)
    num_bytes = sum(file.stat().st_size for file in Path(folder).glob("*.json"))
    free_bytes = chat_imports._TIMES_ON_DISK * num_bytes + chat_imports._LEFT_BYTES - short_bytes
    monkeypatch.setattr("app.chats.store.shutil.disk_usage", lambda path: SimpleNamespace(free=free_bytes))
    elsewhere.is_kept = is_kept
    if is_refused:
        sentence = "The disk has no room for these chats, so nothing was imported."
        assert refusal(imports, qtbot, folder) == sentence
    else:
        imported(imports, qtbot, folder)
    assert len(elsewhere.conversations()) == (not is_refused)


def test_where_one_chat_cannot_be_stored_none_appears(models, store, imports, elsewhere, qtbot, tmp_path, monkeypatch):
    for title in ("One", "Two", "Three"):
        add_chat(store, title, "Yes.")
    folder = exported(models, qtbot, tmp_path)
    elsewhere._connection.execute(
        "CREATE TEMP TRIGGER fills BEFORE INSERT ON conversations WHEN (SELECT count(*) FROM conversations) = 2 "
        "BEGIN SELECT raise(FAIL, 'database or disk is full'); END"
    )
    assert refusal(imports, qtbot, folder)
    assert elsewhere.conversations() == ()
    # The first two were stored hidden, and their room is free for what is written next.
    assert elsewhere._connection.execute("SELECT count(*) FROM conversations").fetchone() == (0,)
    assert elsewhere._connection.execute("SELECT count(*) FROM turns").fetchone() == (0,)


def test_what_cannot_be_erased_is_erased_by_the_next_start(
    models, store, imports, elsewhere, qtbot, tmp_path, monkeypatch
):
    for title in ("One", "Two", "Three"):
        add_chat(store, title, "Yes.")
    folder = exported(models, qtbot, tmp_path)
    elsewhere._connection.executescript(
        "CREATE TEMP TRIGGER fills BEFORE INSERT ON conversations WHEN (SELECT count(*) FROM conversations) = 2 "
        "BEGIN SELECT raise(FAIL, 'database or disk is full'); END; "
        "CREATE TEMP TRIGGER stays BEFORE DELETE ON conversations "
        "BEGIN SELECT raise(FAIL, 'database or disk is full'); END"
    )
    assert refusal(imports, qtbot, folder)
    assert elsewhere._connection.execute("SELECT count(*) FROM conversations").fetchone() == (2,)
    elsewhere.close()
    again = ChatStore(tmp_path / "elsewhere.sqlite")
    assert again._connection.execute("SELECT count(*) FROM conversations").fetchone() == (0,)
    again.close()


def test_many_chats_appear_at_once_at_the_end(models, store, imports, elsewhere, qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("app.models.chat_imports._STEP_S", 0)
    for number in range(5):
        add_chat(store, f"Chat {number}", "Yes.")
    folder = exported(models, qtbot, tmp_path)
    seen = set()
    add = elsewhere.add
    monkeypatch.setattr(
        elsewhere,
        "add",
        lambda *args, **kwargs: (add(*args, **kwargs), seen.add(len(elsewhere.conversations()))),
    )
    assert len(imported(imports, qtbot, folder)) == 5
    assert seen == {0}
    assert len(elsewhere.conversations()) == 5


def test_whoever_closes_meanwhile_imports_nothing(models, store, imports, elsewhere, qtbot, tmp_path):
    add_chat(store, "Flat", "Yes.")
    folder = exported(models, qtbot, tmp_path)
    imports.begin([folder])
    thread = imports._thread
    imports.stop()
    qtbot.wait_until(lambda: not imports.is_busy)
    assert not thread.is_alive()
    assert elsewhere.conversations() == ()


def test_a_chat_of_the_future_is_not_before_all_others_for_ever(models, store, imports, elsewhere, qtbot, tmp_path):
    add_chat(store, "Flat", "Yes.")
    file = next(iter((tmp_path / "Ragdoll chats").glob("*") if exported(models, qtbot, tmp_path) else ()))
    root = json.loads(file.read_bytes())
    root["chats"][0]["updated"] = 9e11
    file.write_text(json.dumps(root))
    imported(imports, qtbot, file)
    add_chat(elsewhere, "Newer", "No.")
    assert [one.title for one in elsewhere.conversations()] == ["Newer", "Flat"]


@pytest.mark.parametrize(
    ("named", "model"), [("/somebody/else.gguf", ""), ("none", "none"), ("/known.gguf", "/known.gguf")]
)
def test_no_model_is_opened_because_a_chat_of_somebody_else_names_it(
    models, imports, elsewhere, qtbot, tmp_path, named: str, model: str
):
    content = exchange.json_of(
        [WholeChat(Conversation("c", "Notice", 1.0, 1.0, model=named), ())],
    )
    (tmp_path / "chats.json").write_bytes(content)
    (chat_id,) = imported(imports, qtbot, tmp_path / "chats.json")
    assert elsewhere.conversation(chat_id).model == model


def test_a_second_import_beside_the_first_is_told(imports, qtbot, tmp_path):
    (tmp_path / "chats.json").write_bytes(exchange.json_of([WholeChat(Conversation("c", "Notice", 1.0, 1.0), ())]))
    with qtbot.wait_signal(imports.finished):
        imports.begin([str(tmp_path / "chats.json")])
        assert refusal(imports, qtbot, tmp_path / "chats.json").startswith("Other chats")
