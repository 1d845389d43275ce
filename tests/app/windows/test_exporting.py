"""Tests for getting answers out of the window: copied, and exported from the list and from the settings."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from engine import protocol
from engine.protocol import Answer, Scope
from tests.helpers.shown_values import passage


def ask(models, client, question: str, text: str) -> str:
    """Asks in the open chat, and has it answered; the chat's id."""
    models.conversation.ask(question)
    found = {"passages": (passage(1), passage(2)), "quotes": (), "scope": Scope(2, 2, 2)}
    timings = protocol.Timings(
        queued_s=0, retrieval_s=0, prefill_s=0, ttft_s=0, total_s=0, prompt_tokens=0, generated_tokens=0
    )
    answer = Answer(text=text, citations=(), model="tiny", finish_reason="stop", **found)
    turn_id = models.conversation.turns[-1].turn_id
    client.tell(protocol.AnswerFinished(question_id=turn_id, answer=answer, timings=timings))
    return models.conversation.conversation_id


def choose(parent, path) -> None:
    (dialog,) = parent.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(path)])
    dialog.close()


def test_an_answer_is_copied_as_a_whole_and_with_its_sources(window, models, client):
    ask(models, client, "What notice?", "**Three** months [2].\n\n- or more")
    view = window.chat.conversation.turn_views()[-1]
    last = view.markdown.texts()[-1]
    last.setFocus()
    QTest.keyClick(last, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(last, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "Three months [2].\n\nor more"
    view.copy_ways.menu().with_sources.trigger()
    assert QGuiApplication.clipboard().text().endswith("- or more\n\nSources:\n[2] file-2.pdf, p. 7")


def test_a_chat_of_the_list_is_exported_without_being_opened(window, models, client, tmp_path):
    ask(models, client, "What notice?", "Three months.")
    window.chat_actions.new_chat()
    opened = ask(models, client, "Something else?", "No.")
    panel = window.chats
    row = models.chat_list.row_of(opened)
    menu = panel.menu_for(panel.list.model().index(1 - row, 0))
    next(action for action in menu.actions() if action.text() == "Export…").trigger()
    (dialog,) = window.findChildren(QFileDialog)
    assert dialog.selectedFiles()[0].endswith("What notice.md")
    choose(window, tmp_path / "flat.md")
    assert "Three months." in (tmp_path / "flat.md").read_text()
    assert models.conversation.conversation_id == opened


def test_a_new_chat_has_nothing_to_export(window):
    window.chat_actions.export_chat()
    assert window.findChildren(QFileDialog) == []


def test_all_chats_are_exported_from_the_settings(window, models, client, tmp_path, qtbot):
    ask(models, client, "What notice?", "Three months.")
    page = window.go_to("settings")
    page.export.button.click()
    choose(page.export, tmp_path)
    qtbot.wait_until(lambda: bool(page.export.state.text()))
    assert page.export.state.text() == f"1 chat was written to {tmp_path / 'Ragdoll chats'}."
    assert "Three months." in (tmp_path / "Ragdoll chats" / "What notice.md").read_text()


def test_an_export_of_all_chats_that_fails_is_told(window, models, client, tmp_path, qtbot):
    ask(models, client, "What notice?", "Three months.")
    page = window.go_to("settings")
    page.export.button.click()
    choose(page.export, tmp_path / "no such folder")
    qtbot.wait_until(lambda: window.message_bar.isVisible())
    assert window.message_bar.sentence == "The chats could not be written: No such file or directory."
    page.export._on_failed(7, 9, "No space left on device")
    assert window.message_bar.sentence == (
        "7 of 9 chats were written, the next one could not be: No space left on device."
    )
