"""Tests for app.windows.attaching: files come to the open chat by a drop, a paste or a dialog, and it is about them."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QMessageBox

from app import theme
from app.models import reading_first
from app.widgets.prompt_edit import MAX_CHARACTERS
from app.windows.commands import commands_of
from engine import protocol
from engine.protocol import Collection, Filters, PathState
from tests.helpers.drops import drag_over, drop_on, mime_of
from tests.helpers.told_library import tell_library

COLLECTION = Collection("Documents", ("/docs",), {"indexed": 2}, 6)


@pytest.fixture
def chat(window, client):
    tell_library(client, COLLECTION)
    return window.chat


def chips(chat) -> list[str]:
    return [chip.text().strip() for chip in chat.filters.chips()]


def ask(chat, text: str = "What does it say?") -> None:
    QTest.keyClicks(chat.prompt.field, text)
    QTest.keyClick(chat.prompt.field, Qt.Key.Key_Return)


def tell_states(client, *states: tuple[str, str]) -> None:
    reply = protocol.PathStatesReply(states=tuple(PathState(path=path, state=state) for path, state in states))
    client.answer(protocol.PATH_STATES, reply)


def shown_state(chat) -> str:
    return chat.conversation.turn_views()[-1].state_sentence


def test_a_file_dropped_on_the_chat_is_added_read_first_and_asked_about_alone(window, chat, client, models, tmp_path):
    report = tmp_path / "report.pdf"
    drop_on(window, chat.hero, mime_of(report))
    assert client.asked(protocol.ADD) == [protocol.AddPaths(paths=(str(report),), collection="Documents")]
    client.answer(protocol.ADD, protocol.Nothing())
    assert client.asked(protocol.PRIORITISE) == [protocol.Paths(paths=(str(report),))]
    assert chips(chat) == ["in report.pdf"]
    assert chat.hero.sentence == "Answers come from what is named below the question."
    ask(chat)
    tell_states(client, (str(report), "read"))
    assert client.asked(protocol.ASK)[0].filters.paths == (str(report),)
    # What is taken off stays in the library.
    QTest.mouseClick(chat.filters.chips()[0], Qt.MouseButton.LeftButton)
    assert models.conversation.filters == Filters()
    assert client.asked(protocol.REMOVE) == []


def test_a_question_asked_at_once_says_what_it_waits_for_and_can_be_stopped(
    window, chat, client, models, tmp_path, qtbot, monkeypatch
):
    monkeypatch.setattr(reading_first, "LOOK_AGAIN_MS", 1)
    report = str(tmp_path / "report.pdf")
    drop_on(window, chat.hero, mime_of(tmp_path / "report.pdf"))
    client.answer(protocol.ADD, protocol.Nothing())
    ask(chat)
    tell_states(client, (report, "waiting"))
    assert shown_state(chat) == "Reading report.pdf first…"
    assert client.asked(protocol.ASK) == []
    client.tell(protocol.IndexProgress(documents_done=0, documents_total=1, chunks_done=0, is_paused=True))
    # Wished for when it was attached, and by the question.
    for _ in range(2):
        client.answer(protocol.PRIORITISE, protocol.Nothing())
    qtbot.waitUntil(lambda: any(request.method is protocol.PATH_STATES for request in client.open))
    tell_states(client, (report, "waiting"))
    assert shown_state(chat) == "Indexing is paused in the Library; report.pdf comes first…"
    QTest.mouseClick(chat.prompt.button, Qt.MouseButton.LeftButton)
    assert models.conversation.turns[-1].state == "cancelled"
    assert not models.conversation.is_answering


def test_of_several_files_the_first_is_named(window, chat, client, tmp_path):
    paths = [tmp_path / name for name in ("a.pdf", "b.pdf", "c.pdf")]
    drop_on(window, chat.hero, mime_of(*paths))
    client.answer(protocol.ADD, protocol.Nothing())
    ask(chat)
    tell_states(client, *((str(path), "waiting") for path in paths))
    assert shown_state(chat) == "Reading a.pdf and 2 others first…"


def test_what_was_confined_to_a_kind_or_a_time_finds_what_is_attached(window, chat, models, tmp_path):
    models.conversation.set_filters(Filters(paths=("/docs/a",), formats=("pdf",), changed_since="2025-01-01"))
    drop_on(window, chat.hero, mime_of(tmp_path))
    assert models.conversation.filters == Filters(paths=("/docs/a", str(tmp_path)))


def test_hundreds_of_files_are_a_dozen_chips(window, chat, models, tmp_path):
    drop_on(window, chat.hero, mime_of(*(tmp_path / f"{number}.txt" for number in range(300))))
    assert len(models.conversation.filters.paths) == 300
    assert chips(chat)[-2:] == ["in 10.txt", "in 289 others"]
    QTest.mouseClick(chat.filters.chips()[-1], Qt.MouseButton.LeftButton)
    assert len(models.conversation.filters.paths) == 11


def test_a_drop_elsewhere_is_added_and_confines_nothing(window, chat, client, models, tmp_path):
    for widget in (window.rail, window.go_to("library")):
        drop_on(window, widget, mime_of(tmp_path))
    assert len(client.asked(protocol.ADD)) == 2
    assert models.conversation.filters == Filters()
    assert client.asked(protocol.PRIORITISE) == []


def test_the_first_folder_of_all_is_added_for_every_chat(window, client, models, tmp_path):
    tell_library(client)
    drag_over(window, window.chat.first_run, mime_of(tmp_path))
    assert window.dropping.overlay.sentence == "Drop to add to Documents"
    drop_on(window, window.chat.first_run, mime_of(tmp_path))
    assert models.conversation.filters == Filters()


def test_the_paper_clip_asks_for_files_and_a_model_among_them_is_opened(window, chat, client):
    chat.prompt.attach.click()
    (dialog,) = window.findChildren(QFileDialog)
    dialog.filesSelected.emit(["/files/report.pdf", "/files/tiny.gguf"])
    dialog.reject()
    assert chips(chat) == ["in report.pdf"]
    assert [added.path for added in client.asked(protocol.MODELS_ADD)] == ["/files/tiny.gguf"]


def test_files_can_be_attached_by_a_command_from_any_page(window, chat, models):
    window.go_to("library")
    (command,) = [one for one in commands_of(window, models) if one.title == "Attach files to this chat…"]
    command.run()
    assert window.place == "chats"
    (dialog,) = window.findChildren(QFileDialog)
    dialog.reject()


def test_copied_files_are_attached_by_pasting_them(window, chat, client, tmp_path):
    chat.prompt.field.insertFromMimeData(mime_of(tmp_path / "report.pdf"))
    assert chips(chat) == ["in report.pdf"]
    assert client.asked(protocol.ADD)[0].paths == (str(tmp_path / "report.pdf"),)
    assert chat.prompt.text == ""


def test_a_file_that_the_engine_does_not_take_is_not_asked_about(window, chat, client, tmp_path):
    drop_on(window, chat.hero, mime_of(tmp_path / "gone.pdf"))
    client.refuse(protocol.ADD, "There is nothing at gone.pdf.", "NothingThere", "Look again.")
    assert chips(chat) == []
    assert window.message_bar.sentence == "There is nothing at gone.pdf."


def test_chips_of_an_attachment_belong_to_its_chat(window, chat, client, models, tmp_path):
    drop_on(window, chat.hero, mime_of(tmp_path / "report.pdf"))
    ask(chat)
    first = models.conversation.conversation_id
    window.chat_actions.new_chat()
    assert chips(chat) == []
    window.chat_actions.open_chat(first)
    assert chips(chat) == ["in report.pdf"]


def paste(chat, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    chat.prompt.field.insertFromMimeData(data)


def test_a_text_that_is_too_long_becomes_a_file_of_the_chat(window, chat, client, models, tmp_path):
    text = "Minutes of the meeting\n" + "x" * MAX_CHARACTERS
    paste(chat, text)
    chat.prompt.paste_offer.keep.click()
    file = tmp_path / "pasted" / f"Minutes of the meeting {date.today().isoformat()}.txt"
    assert file.read_text() == text
    assert client.asked(protocol.ADD)[0].paths == (str(file),)
    assert chips(chat) == [f"in {file.name}"]
    assert not chat.prompt.paste_offer.isVisible()
    assert chat.prompt.field.hasFocus()


def test_a_picture_that_is_pasted_becomes_a_file_of_the_chat(window, chat, tmp_path):
    picture = QImage(8, 6, QImage.Format.Format_RGB32)
    picture.fill(Qt.GlobalColor.white)
    data = QMimeData()
    data.setImageData(picture)
    chat.prompt.field.insertFromMimeData(data)
    (file,) = (tmp_path / "pasted").iterdir()
    assert QImage(str(file)).size() == picture.size()
    assert chips(chat) == [f"in {file.name}"]


def test_what_cannot_be_kept_is_told_and_stays_where_it_was(window, chat, client, tmp_path):
    (tmp_path / "pasted").write_text("a file where the folder should be")
    paste(chat, "x" * (MAX_CHARACTERS - 1))
    chat.prompt.paste_offer.keep.click()
    assert window.message_bar.sentence.startswith("The pasted content could not be saved as a file: ")
    assert len(chat.prompt.text) == MAX_CHARACTERS - 1
    assert chat.prompt.paste_offer.isVisible()
    assert client.asked(protocol.ADD) == []


# --- chosen below the question, and in no library ---


def choose(chat, *paths: str) -> None:
    chat.filter_choices._add_paths(paths)


@pytest.mark.parametrize("is_added", [True, False])
def test_a_chosen_file_that_is_in_no_library_is_offered_to_be_added(window, chat, client, models, is_added):
    models.conversation.set_filters(Filters(formats=("pdf",)))
    choose(chat, "/docs/known.pdf", "/files/new.pdf")
    tell_states(client, ("/docs/known.pdf", "read"), ("/files/new.pdf", "absent"))
    (box,) = window.findChildren(QMessageBox)
    assert box.text() == "“new.pdf” is not in your library yet."
    buttons = {button.text().replace("&", ""): button for button in box.buttons()}
    buttons["Add" if is_added else "Cancel"].click()
    assert [added.paths for added in client.asked(protocol.ADD)] == ([("/files/new.pdf",)] if is_added else [])
    paths = ("/docs/known.pdf", "/files/new.pdf") if is_added else ("/docs/known.pdf",)
    assert models.conversation.filters == Filters(paths=paths, formats=("pdf",))


def test_nothing_is_offered_where_all_is_in_the_library(window, chat, client, models):
    choose(chat, "/docs/known.pdf")
    tell_states(client, ("/docs/known.pdf", "waiting"))
    assert window.findChildren(QMessageBox) == []
    assert models.conversation.filters.paths == ("/docs/known.pdf",)


def test_in_a_small_window_with_large_text_nothing_covers_what_is_written(window, chat, models, qtbot):
    theme.appearance().choose("light", 1.6)
    window.resize(760, 520)
    models.conversation.set_filters(Filters(paths=tuple(f"/docs/report number {n}.pdf" for n in range(40))))
    pasted = QMimeData()
    pasted.setText("Some pasted words.\n" * 300)
    chat.prompt.field.insertFromMimeData(pasted)
    offer, field = chat.prompt.paste_offer, chat.prompt.field
    qtbot.waitUntil(lambda: offer.height() >= offer.heightForWidth(offer.width()) > 0)
    parts = [part.geometry() for part in (field, offer, chat.filters)]
    assert all(above.bottom() < below.top() for above, below in pairwise(parts))
    assert all(chat.prompt.rect().contains(part) for part in parts)
    assert field.viewport().rect().contains(field.cursorRect().center())
