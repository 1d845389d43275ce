"""Tests for what is done with turns and chats in the window: branched off, deleted, selected, exported, imported."""

from __future__ import annotations

import json

from PySide6.QtCore import QItemSelectionModel, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

from app.widgets.chat_list_panel import ChatListPanel
from app.windows.command_palette import matching
from app.windows.commands import commands_of
from engine import protocol
from tests.helpers.answers import finished, tokens

CTRL, SHIFT, LEFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier, Qt.MouseButton.LeftButton


def ask(models, client, question: str) -> str:
    """Asks in the open chat, and has it answered; the turn's id."""
    models.conversation.ask(question)
    turn_id = models.conversation.turns[-1].turn_id
    client.tell(finished(turn_id, f"Answer to {question}", segments=({"question": question},)))
    return turn_id


def make_chats(models, client, *questions: str) -> list[str]:
    """A chat of one question for each; their ids."""
    ids = []
    for question in questions:
        models.conversation.new_chat()
        ask(models, client, question)
        ids.append(models.conversation.conversation_id)
    return ids


def view_of(window, turn_id: str):
    return window.chat.conversation.widget_of(turn_id)


def shown(window) -> list[str]:
    return [view.turn.question for view in window.chat.conversation.turn_views()]


def listed(window) -> list[str]:
    model = window.chats.list.model()
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def click(window, row: int, modifiers=Qt.KeyboardModifier.NoModifier) -> None:
    chats = window.chats.list
    where = chats.visualRect(chats.model().index(row, 0)).center()
    QTest.mouseClick(chats.viewport(), LEFT, modifiers, where)


def choose(parent, *paths) -> None:
    (dialog,) = parent.findChildren(QFileDialog)
    dialog.filesSelected.emit([str(path) for path in paths])
    dialog.close()
    dialog.deleteLater()
    QApplication.sendPostedEvents(None, 52)


def entry(menu, text: str):
    return next(action for action in menu.actions() if action.text() == text)


def test_the_menu_of_a_turn_continues_in_a_new_chat(window, models, client):
    first, _ = ask(models, client, "one"), ask(models, client, "two")
    original = models.conversation.conversation_id
    view_of(window, first).ways.menu().new_chat.trigger()
    assert models.conversation.conversation_id != original
    assert shown(window) == ["one"]
    assert listed(window) == ["one (2)", "one"]
    assert window.chats.list.currentIndex().row() == 0


def test_a_turn_that_is_being_answered_has_no_menu(window, models, client):
    models.conversation.ask("one")
    turn_id = models.conversation.turns[0].turn_id
    assert not view_of(window, turn_id).ways.isVisible()
    client.tell(tokens(turn_id, "Half"), protocol.AnswerCancelled(question_id=turn_id))
    assert view_of(window, turn_id).ways.isVisible()


def test_a_question_is_deleted_from_its_menu_and_comes_back(window, models, client):
    ids = [ask(models, client, question) for question in ("one", "two", "three")]
    view_of(window, ids[1]).ways.menu().delete.trigger()
    assert shown(window) == ["one", "three"]
    undo = window.chat.turn_actions.undo
    assert undo.isVisible()
    assert undo.words.text() == "Question and answer deleted"
    undo.button.click()
    assert shown(window) == ["one", "two", "three"]
    assert not undo.isVisible()
    assert window.focusWidget() is window.chat.prompt.field


def test_the_menu_may_be_open_when_its_turn_goes(window, models, client, qtbot):
    turn_id, _ = ask(models, client, "one"), ask(models, client, "two")
    button = view_of(window, turn_id).ways
    menu = button.menu()

    def choose_delete() -> None:
        menu.setActiveAction(menu.delete)
        QTest.keyClick(menu, Qt.Key.Key_Return)

    QTimer.singleShot(0, choose_delete)
    button.click()
    qtbot.wait_until(lambda: shown(window) == ["two"])


def test_the_only_question_of_a_chat_can_be_deleted_and_restored(window, models, client):
    turn_id = ask(models, client, "one")
    models.chat_model.use("/models/m.gguf")
    view_of(window, turn_id).ways.menu().delete.trigger()
    assert models.conversation.turns == []
    assert listed(window) == ["one"]
    window.chat.turn_actions.undo.button.click()
    assert shown(window) == ["one"]


def test_the_offer_to_undo_leaves_with_its_chat_and_the_palette_still_makes_it(window, models, client):
    ids = make_chats(models, client, "First?", "Second?")
    turn_id = ask(models, client, "two")
    view_of(window, turn_id).ways.menu().delete.trigger()
    window.chat_actions.open_chat(ids[0])
    assert not window.chat.turn_actions.undo.isVisible()

    def offered() -> list[str]:
        return [command.title for command in matching(commands_of(window, models), "restore")]

    assert offered() == []
    window.chat_actions.open_chat(ids[1])
    assert offered() == ["Restore the deleted question of this chat"]
    matching(commands_of(window, models), "restore")[0].run()
    assert shown(window) == ["Second?", "two"]
    assert offered() == []


def test_a_restored_question_is_brought_into_sight(window, models, client, qtbot):
    ids = [ask(models, client, f"Question {number}?") for number in range(30)]
    conversation = window.chat.conversation
    conversation._bring(ids[0])
    qtbot.wait_until(lambda: view_of(window, ids[0]) is not None)
    view_of(window, ids[0]).ways.menu().delete.trigger()
    assert not conversation.is_following
    conversation.scroll_to_end()
    models.turn_deleting.undo()
    qtbot.wait_until(lambda: conversation.first_in_sight() == 0)


def test_chats_are_selected_with_ctrl_and_shift_and_none_of_them_is_opened(window, models, client):
    ids = make_chats(models, client, "One?", "Two?", "Three?", "Four?")
    click(window, 1)
    assert models.conversation.conversation_id == ids[2]
    click(window, 3, CTRL)
    assert window.chats.selected_ids() == (ids[2], ids[0])
    assert models.conversation.conversation_id == ids[2]
    click(window, 1)
    click(window, 3, SHIFT)
    assert window.chats.selected_ids() == (ids[2], ids[1], ids[0])
    assert models.conversation.conversation_id == ids[2]
    click(window, 0)
    assert window.chats.selected_ids() == (ids[3],)
    assert models.conversation.conversation_id == ids[3]


def test_selected_chats_are_deleted_by_key_and_come_back_with_one_undo(window, models, client):
    make_chats(models, client, "One?", "Two?", "Three?", "Four?")
    click(window, 0)
    click(window, 2, CTRL)
    window.chats.list.setFocus()
    QTest.keyClick(window.chats.list, Qt.Key.Key_Delete)
    assert listed(window) == ["Three?", "One?"]
    # The open one was among them.
    assert models.conversation.turns == []
    assert window.chats.undo.words.text() == "2 chats deleted"
    assert window.chats.list.currentIndex().data() == "Three?"
    assert len(window.chats.selected_ids()) == 1
    assert "Restore 2 deleted chats" in [command.title for command in commands_of(window, models)]
    QTest.keyClick(window.chats.list, Qt.Key.Key_Z, CTRL)
    assert listed(window) == ["Four?", "Three?", "Two?", "One?"]
    assert models.conversation.title == "Four?"
    assert not window.chats.undo.isVisible()


def test_selected_chats_are_deleted_and_exported_from_the_menu(window, models, client, tmp_path, qtbot):
    make_chats(models, client, "One?", "Two?", "Three?")
    window.chats.list.setFocus()
    click(window, 0)
    click(window, 1, CTRL)
    chats = window.chats
    menu = chats.menu_for(chats.list.model().index(1, 0))
    entry(menu, "Export as JSON…").trigger()
    choose(window, tmp_path)
    folder = tmp_path / "Ragdoll chats"
    qtbot.wait_until(lambda: window.message_bar.isVisible())
    assert window.message_bar.sentence == f"2 chats were written to {folder}."
    assert sorted(file.name for file in folder.iterdir()) == ["Three.json", "Two.json"]
    entry(menu, "Delete 2 chats").trigger()
    assert listed(window) == ["One?"]
    # A chat that is not selected has a menu of its own.
    assert [action.text() for action in chats.menu_for(chats.list.model().index(0, 0)).actions() if action.text()] == [
        "Rename",
        "Pin",
        "Duplicate",
        "Export…",
        "Delete",
    ]


def test_an_export_of_chosen_chats_that_fails_is_told(window, models, client, tmp_path, qtbot):
    ids = make_chats(models, client, "One?", "Two?")
    window.chat_actions.export_chats(tuple(ids), "md")
    choose(window, tmp_path / "no such folder")
    qtbot.wait_until(lambda: window.message_bar.isVisible())
    assert window.message_bar.sentence == "The chats could not be written: No such file or directory."


def test_a_question_that_is_asked_meanwhile_does_not_end_a_selection(window, models, client):
    ids = make_chats(models, client, "One?", "Two?", "Three?")
    click(window, 0)
    click(window, 2, CTRL)
    window.chats.list.setFocus()
    models.conversation.ask("More?")
    assert set(window.chats.selected_ids()) == {ids[2], ids[0]}


def test_keys_still_move_from_chat_to_chat_and_open_one(window, models, client):
    ids = make_chats(models, client, "One?", "Two?", "Three?")
    chats = window.chats.list
    chats.setFocus()
    QTest.keyClick(chats, Qt.Key.Key_Down)
    assert window.chats.selected_ids() == (ids[1],)
    QTest.keyClick(chats, Qt.Key.Key_Return)
    assert models.conversation.conversation_id == ids[1]


def test_a_chat_is_duplicated_from_the_list(window, models, client):
    make_chats(models, client, "One?", "Two?")
    chats = window.chats
    entry(chats.menu_for(chats.list.model().index(1, 0)), "Duplicate").trigger()
    assert models.conversation.title == "One? (2)"
    assert listed(window) == ["One? (2)", "Two?", "One?"]
    # And the open one from the palette.
    matching(commands_of(window, models), "duplicate")[0].run()
    assert models.conversation.title == "One? (3)"


def test_a_new_chat_has_no_copy(window, models):
    window.chat_actions.duplicate()
    assert matching(commands_of(window, models), "duplicate") == []
    assert listed(window) == []


def test_a_chat_is_exported_as_json_and_imported_again(window, models, client, tmp_path, qtbot):
    (original,) = make_chats(models, client, "What notice?")
    window.chat_actions.export_chat()
    (dialog,) = window.findChildren(QFileDialog)
    assert dialog.nameFilters() == ["Markdown, to read (*.md)", "JSON, to import again (*.json)"]
    dialog.filterSelected.emit("JSON, to import again (*.json)")
    assert dialog.defaultSuffix() == "json"
    # A dialog of the desktop may keep the suffix that was offered first.
    dialog.selectNameFilter("JSON, to import again (*.json)")
    choose(window, tmp_path / "notice.md")
    file = tmp_path / "notice.json"
    assert json.loads(file.read_bytes())["chats"][0]["turns"][0]["question"] == "What notice?"
    window.go_to("library")
    matching(commands_of(window, models), "import chats")[0].run()
    choose(window, file)
    qtbot.wait_until(lambda: window.message_bar.isVisible())
    assert window.message_bar.sentence == "1 chat was imported."
    assert listed(window) == ["What notice?", "What notice?"]
    assert models.conversation.conversation_id != original
    assert shown(window) == ["What notice?"]
    assert window.place == "chats"


def test_what_is_no_export_of_chats_is_told_and_changes_nothing(window, models, client, tmp_path, qtbot):
    make_chats(models, client, "What notice?")
    (tmp_path / "a.json").write_text("[1, 2]")
    window.chat_actions.import_chats()
    choose(window, tmp_path / "a.json")
    qtbot.wait_until(lambda: window.message_bar.isVisible())
    assert window.message_bar.sentence == "“a.json” holds no chats of Ragdoll, so nothing was imported."
    assert listed(window) == ["What notice?"]


def test_chats_go_through_json_from_the_settings(window, models, client, tmp_path, qtbot):
    make_chats(models, client, "One?", "Two?")
    page = window.go_to("settings")
    page.export.json_button.click()
    choose(page.export, tmp_path)
    qtbot.wait_until(lambda: bool(page.export.state.text()))
    page.export.folder_button.click()
    choose(window, tmp_path / "Ragdoll chats")
    qtbot.wait_until(lambda: window.message_bar.isVisible())
    assert window.message_bar.sentence == "2 chats were imported."
    assert sorted(listed(window)) == ["One?", "One?", "Two?", "Two?"]
    page.export.import_button.click()
    assert len(window.findChildren(QFileDialog)) == 1


def test_a_selection_may_be_extended_by_keyboard(window, models, client):
    ids = make_chats(models, client, "One?", "Two?", "Three?")
    chats = window.chats.list
    chats.setFocus()
    QTest.keyClick(chats, Qt.Key.Key_Down, SHIFT)
    assert window.chats.selected_ids() == (ids[2], ids[1])
    chats.selectionModel().clear()
    chats.setCurrentIndex(chats.model().index(2, 0))
    chats.selectionModel().select(chats.model().index(0, 0), QItemSelectionModel.SelectionFlag.Select)
    assert window.chats.selected_ids() == (ids[2], ids[0])


def test_the_list_of_chats_may_lose_the_focus_before_there_are_any(qtbot):
    panel = ChatListPanel()
    qtbot.addWidget(panel)
    panel.show()
    panel.list.setFocus()
    panel.search.setFocus(Qt.FocusReason.TabFocusReason)
    panel.show_current("")
    assert panel.selected_ids() == ()
