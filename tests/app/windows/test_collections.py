"""Tests for collections in the window: listed alone, renamed, deleted; and files that are opened and asked about."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMessageBox

from app.outside import Outside
from app.widgets.library_table import HELP, NAME
from app.windows.collection_name_dialog import CollectionNameDialog
from engine import protocol
from engine.protocol import Collection
from tests.helpers.answers import finished, passage
from tests.helpers.shown_values import document
from tests.helpers.told_library import answer_library, tell_library

WORK = Collection("Work", ("/docs",), {"indexed": 3, "failed": 1}, 6)
FIRM = replace(WORK, name="Firm", former_names=("Work",))
HOME = Collection("Home", ("/home",), {"indexed": 1}, 3)


@pytest.fixture
def page(window):
    return window.go_to("library")


@pytest.fixture
def outside(monkeypatch) -> list[tuple[str, str, str]]:
    """What was asked of the desktop: the verb, the path, and why it may be out of reach."""
    asked: list[tuple[str, str, str]] = []
    for name, verb in (("open_file", "open"), ("show_in_folder", "show")):
        monkeypatch.setattr(
            Outside, name, lambda _, path, reason="", verb=verb: asked.append((verb, path, reason))
        )  # fmt: skip
    return asked


def actions_of(menu) -> dict:
    return {action.text(): action for action in menu.actions() if not action.isSeparator()}


def button_of(box: QMessageBox, text: str):
    return next(button for button in box.buttons() if button.text() == text)


def listed(client) -> list[str | None]:
    """Of which collection documents were asked for, but for those of the list of problems."""
    return [
        one.collection for one in client.asked(protocol.DOCUMENTS) if one.limit == 500 and one.document_ids is None
    ]  # fmt: skip


def double_click(table, row: int, column: int = NAME) -> None:
    where = table.visualRect(table.model().index(row, column)).center()
    # As a mouse does it, of which the first click is one.
    for click in (QTest.mouseClick, QTest.mouseDClick):
        click(table.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, where)


# --- one collection is listed ---


def test_where_there_is_one_collection_none_is_to_be_chosen(page, client) -> None:
    tell_library(client, WORK)
    assert not page.documents.collections.isVisible()
    tell_library(client, WORK, HOME)
    assert page.documents.collections.isVisible()
    assert page.documents.collections.text().strip() == "All collections"
    assert "Collection whose files are listed" in page.documents.collections.accessibleName()


def test_the_files_of_one_collection_are_listed(page, client) -> None:
    tell_library(client, WORK, HOME)
    choices = actions_of(page.documents.collections.menu())
    assert [*choices] == ["All collections", "Work", "Home"]
    choices["Home"].trigger()
    assert listed(client)[-1] == "Home"
    page.documents.filter_buttons["problems"].click()
    assert (listed(client)[-1], client.asked(protocol.DOCUMENTS)[-1].states) == ("Home", ("skipped", "failed"))
    QTest.keyClicks(page.documents.search, "lease")
    page.documents._typing.timeout.emit()
    assert (listed(client)[-1], client.asked(protocol.DOCUMENTS)[-1].name) == ("Home", "lease")
    actions_of(page.documents.collections.menu())["All collections"].trigger()
    assert listed(client)[-1] is None


def test_the_menu_of_a_collection_lists_its_files(page, client) -> None:
    tell_library(client, WORK, HOME)
    actions_of(page.cards()[0].menu())["Show its files"].trigger()
    assert listed(client)[-1] == "Work"
    assert page.documents.collections.current == ("Work",)


def test_the_listed_collection_is_followed_to_its_new_name_and_left_when_it_goes(page, client) -> None:
    tell_library(client, WORK, HOME)
    page.documents.show_collection("Work")
    tell_library(client, FIRM, HOME)
    assert (listed(client)[-1], page.documents.collections.current) == ("Firm", ("Firm",))
    tell_library(client, HOME)
    assert (listed(client)[-1], page.documents.collections.current) == (None, ())
    assert not page.documents.collections.isVisible()


def test_a_collection_with_any_name_is_shown_as_it_is(page, client) -> None:
    tell_library(client, replace(WORK, name="R&D %1 <b>"), HOME)
    assert "R&&D %1 <b>" in actions_of(page.documents.collections.menu())
    actions_of(page.cards()[0].menu())["Delete the collection…"].trigger()
    client.answer(protocol.ONLY_IN_COLLECTION, protocol.OnlyThere(documents=1234))
    (box,) = page.findChildren(QMessageBox)
    assert box.text() == "Delete the collection “R&D %1 <b>”?"
    assert box.informativeText().startswith("1,234 files are removed")
    box.reject()


# --- renaming ---


def test_a_collection_is_renamed(page, client, window) -> None:
    tell_library(client, WORK, HOME)
    actions_of(page.cards()[0].menu())["Rename…"].trigger()
    (dialog,) = page.findChildren(CollectionNameDialog)
    assert (dialog.field.text(), dialog.use.isEnabled()) == ("Work", False)
    for name, is_enabled in (("home", False), ("  ", False), ("WORK", True), (" The  firm ", True)):
        dialog.field.setText(name)
        assert dialog.use.isEnabled() is is_enabled, name
    dialog.field.setText("HOME")
    assert dialog.words.text() == "A collection with this name already exists."
    dialog.accept()
    assert client.asked(protocol.RENAME_COLLECTION) == []
    dialog.field.setText(" The  firm ")
    dialog.use.click()
    assert client.asked(protocol.RENAME_COLLECTION) == [protocol.RenameCollection(name="Work", new_name="The firm")]


def test_no_name_is_cut_by_being_looked_at(page, client) -> None:
    name = "\U0001f4c1" * 60
    tell_library(client, replace(WORK, name=name), HOME)
    actions_of(page.cards()[0].menu())["Rename…"].trigger()
    (dialog,) = page.findChildren(CollectionNameDialog)
    assert (dialog.field.text(), dialog.use.isEnabled()) == (name, False)
    dialog.reject()


def test_cards_show_the_new_name_and_chats_the_collection_they_ask(page, client, window, models) -> None:
    tell_library(client, WORK, HOME)
    models.conversation.set_collection("Work")
    tell_library(client, FIRM, HOME)
    assert [card.collection.name for card in page.cards()] == ["Firm", "Home"]
    assert window.chat.collection_picker.text().strip() == "Firm"


def test_the_page_of_every_file_follows(window, client) -> None:
    page = window.go_to("every-file")
    tell_library(client, WORK, HOME)
    actions_of(page.collection.menu())["Work"].trigger()
    tell_library(client, FIRM, HOME)
    assert (page.collection.current, page.collection.is_gone) == (("Firm",), False)


# --- deleting ---


@pytest.mark.parametrize(
    ("leaving", "said"),
    [
        (4, "4 files are removed from the index and can no longer be found or cited."),
        (1, "1 file is removed from the index and can no longer be found or cited. The others are also in other"),
        (0, "All its files stay in the index, because they are also in other collections."),
    ],
)
def test_a_collection_is_deleted_only_after_it_was_asked(page, client, leaving: int, said: str) -> None:
    tell_library(client, WORK, HOME)
    actions_of(page.cards()[0].menu())["Delete the collection…"].trigger()
    assert client.asked(protocol.ONLY_IN_COLLECTION) == [protocol.CollectionNamed(name="Work")]
    client.answer(protocol.ONLY_IN_COLLECTION, protocol.OnlyThere(documents=leaving))
    (box,) = page.findChildren(QMessageBox)
    assert box.text() == "Delete the collection “Work”?"
    assert box.informativeText().startswith(said)
    assert box.informativeText().endswith("The files themselves stay where they are.")
    assert box.defaultButton() is box.button(QMessageBox.StandardButton.Cancel)
    assert client.asked(protocol.DELETE_COLLECTION) == []
    button_of(box, "Delete").click()
    assert client.asked(protocol.DELETE_COLLECTION) == [protocol.CollectionNamed(name="Work")]


def test_of_a_collection_that_goes_while_its_files_are_counted_nothing_is_asked(page, client) -> None:
    tell_library(client, WORK, HOME)
    actions_of(page.cards()[0].menu())["Delete the collection…"].trigger()
    tell_library(client, HOME)
    client.answer(protocol.ONLY_IN_COLLECTION, protocol.OnlyThere(documents=4))
    assert page.findChildren(QMessageBox) == []


def test_the_menu_of_a_collection_opens_by_its_button_and_by_the_other_mouse_button(page, client) -> None:
    tell_library(client, WORK, HOME)
    card = page.cards()[0]
    card._more.click()
    menu = QApplication.activePopupWidget()
    assert [*actions_of(menu)] == ["Show its files", "Add a folder…", "Rename…", "Delete the collection…"]
    menu.close()
    where = QPoint(5, 5)
    asked = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, where, card.mapToGlobal(where))
    QApplication.sendEvent(card, asked)
    assert QApplication.activePopupWidget() is not None
    QApplication.activePopupWidget().close()


# --- files are opened ---


def test_a_file_is_opened_by_a_double_click_and_by_enter(page, client, outside) -> None:
    tell_library(client, WORK, documents=[document(1), document(2)])
    table = page.documents.table
    double_click(table, 1)
    assert outside == [("open", "/docs/file-2.pdf", "")]
    table.selectRow(0)
    QTest.keyClick(table, Qt.Key.Key_Return)
    QTest.keyClick(table, Qt.Key.Key_Enter, Qt.KeyboardModifier.ControlModifier)
    assert outside[1:] == [("open", "/docs/file-1.pdf", ""), ("show", "/docs/file-1.pdf", "")]
    # Of several, none is meant.
    table.selectAll()
    QTest.keyClick(table, Qt.Key.Key_Return)
    assert len(outside) == 3


def test_enter_helps_a_file_with_a_problem_and_a_double_click_opens_it(page, client, outside) -> None:
    broken = document(5, "failed", "It is cut short.")
    tell_library(client, WORK, documents=[broken])
    table = page.documents.table
    table.selectRow(0)
    QTest.keyClick(table, Qt.Key.Key_Return)
    assert (client.asked(protocol.REINDEX)[-1].paths, outside) == ((broken.path,), [])
    double_click(table, 0)
    assert outside == [("open", broken.path, "")]
    QTest.keyClick(table, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert outside[1:] == [("show", broken.path, "")]
    # What would help is a link of its own.
    double_click(table, 0, HELP)
    assert len(outside) == 2


def test_why_a_file_is_out_of_reach_is_known_to_who_opens_it(page, client, outside) -> None:
    away = document(6, "offline", "The drive is not connected.")
    tell_library(client, WORK, documents=[away])
    double_click(page.documents.table, 0)
    actions_of(page.documents.table.menu_for([away]))["Show in folder"].trigger()
    assert outside == [("open", away.path, away.reason), ("show", away.path, away.reason)]


def test_the_menu_of_files_says_which_keys_do_the_same(page) -> None:
    def keys(*documents) -> dict[str, str]:
        actions = actions_of(page.documents.table.menu_for([*documents]))
        assert all(action.isShortcutVisibleInContextMenu() for action in actions.values() if action.shortcut())
        return {text: action.shortcut().toString() for text, action in actions.items()}

    remove = {"Index again": "", "Remove from the library…": "Del"}
    assert keys(document(1)) == {
        "Open": "Return", "Show in folder": "Ctrl+Return", "Ask about this file": "", **remove
    }  # fmt: skip
    assert keys(document(5, "failed", "It is cut short.")) == {
        "Open": "", "Show in folder": "Ctrl+Return", "Try again": "Return", **remove
    }  # fmt: skip
    assert keys(document(1), document(5, "failed")) == {
        "Ask about these files": "", "Try again": "Return", **remove
    }  # fmt: skip


def test_what_a_file_that_is_gone_is_said_in_the_window(window, page, client, qtbot) -> None:
    tell_library(client, WORK, documents=[replace(document(1), path="/nowhere/lease.pdf")])
    double_click(page.documents.table, 0)
    qtbot.wait_until(lambda: "“lease.pdf” was not found" in window.message_bar.sentence)


# --- files are asked about ---


def test_a_file_of_the_library_is_asked_about_in_a_new_chat(window, page, client, models) -> None:
    models.conversation.ask("What is in my files?")
    tell_library(client, WORK, documents=[document(1), document(2, "failed")])
    actions_of(page.documents.table.menu_for([document(1), document(2, "failed")]))["Ask about these files"].trigger()
    assert window.place == "chats"
    assert models.conversation.conversation_id is None
    # What could not be read has nothing to say.
    assert models.conversation.filters.paths == ("/docs/file-1.pdf",)


def sources_of(models, client, pane):
    models.conversation.ask("When does it end?")
    turn_id = models.conversation.turns[-1].turn_id
    client.tell(finished(turn_id, passages=(passage(1),)))
    return pane.panel.cards()


def test_the_menu_of_a_source_opens_its_file_and_asks_about_it_in_this_chat(window, client, models, outside) -> None:
    tell_library(client, WORK, documents=[document(2)])
    (card,) = sources_of(models, client, window.chat.sources)
    answer_library(client, WORK, documents=[document(2)])
    chat = models.conversation.conversation_id
    actions = actions_of(card.menu())
    actions["Open in default app"].trigger()
    actions["Show in folder"].trigger()
    assert outside == [("open", "/docs/lease-1.pdf", ""), ("show", "/docs/lease-1.pdf", "")]
    actions["Ask about this file"].trigger()
    assert (models.conversation.conversation_id, models.conversation.filters.paths) == (chat, ("/docs/lease-1.pdf",))


def test_what_is_no_longer_in_the_library_cannot_be_asked_about(window, client, models) -> None:
    tell_library(client, WORK)
    (card,) = sources_of(models, client, window.chat.sources)
    assert actions_of(card.menu())["Ask about this file"].isEnabled()
    answer_library(client, WORK)
    assert not actions_of(card.menu())["Ask about this file"].isEnabled()


def test_the_page_of_a_source_can_be_shown_in_its_folder(window, client, models, outside) -> None:
    sources_of(models, client, window.chat.sources)
    viewer = window.chat.sources.viewer
    viewer.show_page(protocol.PageReply(document="/docs/lease-1.pdf", page=None, num_pages=0, text="It ends."))
    viewer.show_outside.click()
    viewer.open_outside.click()
    assert outside == [("show", "/docs/lease-1.pdf", ""), ("open", "/docs/lease-1.pdf", "")]
    viewer.show_kept("/docs/lease-1.pdf", "p. 2", "It ends.", "The drive is away.", is_offline=True)
    assert not viewer.show_outside.isEnabled()
