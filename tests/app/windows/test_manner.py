"""Tests for app.windows.manner_dialog and manner_choice: what a chat has of its own instead of the settings."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QMenu, QMessageBox, QPushButton, QWidget

from app import theme
from app.chats.errors import ChatsUnusable
from app.models.turn_records import filters_of, manner_of
from app.windows.commands import commands_of
from app.windows.manner_dialog import MannerDialog
from app.windows.preset_name_dialog import PresetNameDialog
from engine import protocol
from engine.protocol import MAX_INSTRUCTIONS, Manner
from tests.app.windows.test_main_window import unnamed
from tests.helpers.answers import finished
from tests.helpers.cut_fields import cut_fields

GENERATION = {
    "instructions": "Be brief.", "max_answer_tokens": 512, "thinks": False, "temperature": 0.2, "top_p": 0.95,
    "min_p": 0.05, "beam_width": 1,
}  # fmt: skip
VERSE = Manner(instructions="In verse.", temperature=0.9)
TERSE = Manner(max_tokens=64)
NOTE = "The next question takes longer once: the model has to read the conversation with the new instructions."


def open_dialog(window, client, generation=GENERATION) -> MannerDialog:
    """As somebody opens it by its button, with the engine's settings told."""
    QTest.mouseClick(window.chat.manner_button, Qt.MouseButton.LeftButton)
    told = protocol.SettingsReply(settings={"generation": generation})
    for request in list(client.open):
        if request.method is protocol.SETTINGS_GET:
            client.answer(protocol.SETTINGS_GET, told)
    return opened(window, MannerDialog)


def opened(window, kind):
    return next(dialog for dialog in window.findChildren(kind) if dialog.isVisible())


def own(dialog: MannerDialog, name: str) -> QWidget:
    """Ticks that a value is the chat's own; its control."""
    dialog.own_box(name).click()
    return dialog.control(name)


def entries(menu: QMenu) -> dict[str, QAction]:
    menu.aboutToShow.emit()
    return {action.text(): action for action in menu.actions() if not action.isSeparator()}


def name_preset(window, name: str) -> PresetNameDialog:
    dialog = opened(window, PresetNameDialog)
    dialog.field.setText(name)
    return dialog


def save(window, dialog: MannerDialog, name: str) -> None:
    entries(dialog.picker.menu())["Save as a preset…"].trigger()
    name_preset(window, name).use.click()


def ask(window, client, text: str = "Who are you?") -> protocol.Ask:
    QTest.keyClicks(window.chat.prompt.field, text)
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    return client.asked(protocol.ASK)[-1]


# --- values ---


def test_instructions_of_a_chat_are_told_with_its_questions_and_not_with_those_of_others(window, client, models):
    dialog = open_dialog(window, client)
    field = own(dialog, "instructions")
    assert field.toPlainText() == "Be brief."
    field.selectAll()
    QTest.keyClicks(field, "In verse.")
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    asked = ask(window, client)
    assert (asked.manner, asked.sampling, asked.instructions) == (Manner(instructions="In verse."), None, None)
    chat = models.conversation.conversation_id
    client.tell(finished(asked.question_id))
    window.chat_actions.new_chat()
    assert ask(window, client).manner == Manner()
    window.chat_actions.open_chat(chat)
    assert ask(window, client).manner == Manner(instructions="In verse.")


def test_all_that_is_ticked_is_the_chats_own_and_all_else_as_in_the_settings(window, client, models):
    dialog = open_dialog(window, client)
    assert not dialog.control("temperature").isEnabled()
    assert dialog.control("temperature").value() == 0.2
    own(dialog, "temperature").setValue(0.7)
    own(dialog, "max_tokens").setValue(64)
    thinks = own(dialog, "thinks")
    thinks.setCurrentIndex(0)
    thinks.activated.emit(0)
    own(dialog, "top_p").setValue(0.5)
    dialog.own_box("top_p").click()
    assert dialog.control("top_p").value() == 0.95
    dialog.close_button.click()
    assert models.conversation.manner == Manner(temperature=0.7, max_tokens=64, thinks=True)


def test_instructions_that_are_left_out_for_once_are_there_again_when_they_are_ticked_again(window, client, models):
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    dialog.own_box("instructions").click()
    assert dialog.control("instructions").toPlainText() == "Be brief."
    assert models.conversation.manner == Manner(temperature=0.9)
    dialog.own_box("instructions").click()
    assert models.conversation.manner == VERSE


def test_what_is_typed_counts_soon_without_being_saved(window, client, models, qtbot):
    dialog = open_dialog(window, client)
    own(dialog, "instructions").setPlainText("In verse.")
    qtbot.waitUntil(lambda: models.conversation.manner == Manner(instructions="In verse."))
    assert dialog.isVisible()


def test_a_figure_that_is_being_typed_stays_when_what_was_typed_before_is_told(window, client, models, qtbot):
    dialog = open_dialog(window, client)
    figure = own(dialog, "max_tokens")
    own(dialog, "instructions").setPlainText("In verse.")
    figure.selectAll()
    QTest.keyClicks(figure, "64")
    qtbot.waitUntil(lambda: models.conversation.manner.instructions == "In verse.")
    assert figure.text() == "64"
    QTest.keyClick(figure, Qt.Key.Key_Return)
    dialog.close_button.click()
    assert models.conversation.manner == Manner(instructions="In verse.", max_tokens=64)


def test_the_button_says_by_its_picture_and_in_words_what_the_chat_has_of_its_own(window, models):
    button = window.chat.manner_button
    before = button.icon().pixmap(18).toImage()
    assert button.accessibleName() == "Instructions and settings of this chat: as in the settings"
    models.conversation.set_manner(Manner(instructions="<b>In</b>\nverse. " * 20, thinks=False, temperature=0.7))
    words = button.accessibleName().split("\n")
    assert words[0].startswith("Instructions and settings of this chat: Instructions: “<b>In</b> verse.")
    assert words[0].endswith("…”")
    assert words[1:] == ["Temperature: 0.7", "Think first: no"]
    assert "&lt;b&gt;" in button.toolTip()
    theme.dress(button, "manner-own", "muted")
    assert button.icon().pixmap(18).toImage() != before
    models.conversation.new_chat()
    assert button.accessibleName().endswith("as in the settings")


def test_until_the_engine_tells_its_settings_instructions_alone_can_be_the_chats_own(window, client, models):
    client.state = "starting"
    QTest.mouseClick(window.chat.manner_button, Qt.MouseButton.LeftButton)
    dialog = opened(window, MannerDialog)
    assert not dialog.own_box("temperature").isEnabled()
    own(dialog, "instructions").setPlainText("In verse.")
    dialog.close_button.click()
    assert models.conversation.manner == Manner(instructions="In verse.")


def test_what_is_left_out_can_be_ticked_again_before_the_engine_tells_its_settings(window, client, models):
    models.conversation.set_manner(VERSE)
    client.state = "starting"
    QTest.mouseClick(window.chat.manner_button, Qt.MouseButton.LeftButton)
    dialog = opened(window, MannerDialog)
    dialog.own_box("temperature").click()
    assert models.conversation.manner == Manner(instructions="In verse.")
    dialog.own_box("temperature").click()
    assert models.conversation.manner == VERSE


def test_settings_that_the_engine_does_not_know_are_not_offered(window, client):
    dialog = open_dialog(window, client, {"instructions": "", "temperature": 0.2})
    assert dialog.own_box("temperature").isVisibleTo(dialog)
    assert not dialog.own_box("min_p").isVisibleTo(dialog)


def test_instructions_that_are_too_long_are_told_and_not_taken(window, client, models):
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    dialog.control("instructions").setPlainText("x" * (MAX_INSTRUCTIONS + 7))
    dialog.control("temperature").setValue(0.5)
    dialog.own_box("min_p").click()
    assert dialog.problem.text().startswith("7 characters too long.")
    assert models.conversation.manner == Manner(instructions="In verse.", temperature=0.5, min_p=0.05)
    assert len(dialog.control("instructions").toPlainText()) == MAX_INSTRUCTIONS + 7
    dialog.control("instructions").setPlainText("In prose.")
    dialog.close_button.click()
    assert models.conversation.manner.instructions == "In prose."


def test_instructions_that_are_too_long_are_not_kept_under_a_name_as_those_from_before(window, client, models):
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    dialog.control("instructions").setPlainText("x" * (MAX_INSTRUCTIONS + 7))
    entries(dialog.picker.menu())["Save as a preset…"].trigger()
    assert not any(naming.isVisible() for naming in window.findChildren(PresetNameDialog))
    assert dialog.focusWidget() is dialog.control("instructions")
    assert dialog.problem.text().startswith("7 characters too long.")
    dialog.control("instructions").setPlainText("In prose.")
    save(window, dialog, "Prose")
    assert models.presets.named("Prose").manner["instructions"] == "In prose."


def test_instructions_that_are_too_long_are_lost_only_after_it_was_asked(window, client, models):
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    too_long = "x" * (MAX_INSTRUCTIONS + 7)
    dialog.control("instructions").setPlainText(too_long)
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    box = opened(window, QMessageBox)
    QTest.keyClick(box, Qt.Key.Key_Escape)
    assert dialog.isVisible()
    assert dialog.control("instructions").toPlainText() == too_long
    dialog.close_button.click()
    box = opened(window, QMessageBox)
    next(button for button in box.findChildren(QPushButton) if button.text() == "Close").click()
    assert not dialog.isVisible()
    assert models.conversation.manner == VERSE


def test_that_the_conversation_is_read_again_is_said_only_where_it_is(window, client, models):
    dialog = open_dialog(window, client)
    own(dialog, "instructions").setPlainText("In verse.")
    dialog.close_button.click()
    client.tell(finished(ask(window, client).question_id))
    dialog = open_dialog(window, client)
    assert (dialog.note.text(), dialog.note.isVisible()) == (NOTE, False)
    own(dialog, "temperature")
    assert not dialog.note.isVisible()
    dialog.own_box("instructions").click()
    assert dialog.note.isVisible()
    dialog.own_box("instructions").click()
    dialog.control("instructions").setPlainText(" In verse.\n")
    dialog.close_button.click()
    # Still not read by a question.
    models.conversation.set_manner(Manner(instructions="In prose."))
    assert open_dialog(window, client).note.isVisible()


def test_what_another_chat_has_does_not_become_this_ones(window, client, models):
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    dialog.control("instructions").setPlainText("In prose.")
    models.conversation.new_chat()
    assert not dialog.isVisible()
    assert models.conversation.manner == Manner()


# --- presets ---


def test_values_are_kept_under_a_name_and_chosen_in_another_chat(window, client, models):
    dialog = open_dialog(window, client)
    assert dialog.picker.text() == " As in the settings"
    assert not entries(dialog.picker.menu())["Save as a preset…"].isEnabled()
    own(dialog, "max_tokens").setValue(64)
    dialog._tell()
    assert dialog.picker.text() == " Custom values"
    save(window, dialog, "Terse & curt")
    assert dialog.picker.text() == " Terse && curt"
    dialog.close_button.click()
    assert window.chat.manner_button.accessibleName().split("\n")[0].endswith(": Terse & curt")
    window.chat_actions.new_chat()
    dialog = open_dialog(window, client)
    entries(dialog.picker.menu())["Terse && curt"].trigger()
    assert entries(dialog.picker.menu())["Terse && curt"].isChecked()
    assert (dialog.control("max_tokens").value(), dialog.own_box("max_tokens").isChecked()) == (64, True)
    assert ask(window, client).manner == TERSE
    entries(dialog.picker.menu())["As in the settings"].trigger()
    assert models.conversation.manner == Manner()


def test_values_that_a_preset_took_the_place_of_can_be_had_back(window, client, models):
    models.presets.save("Terse", TERSE)
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    dialog.control("instructions").setPlainText("In long verse.")
    entries(dialog.picker.menu())["Terse"].trigger()
    assert models.conversation.manner == TERSE
    dialog.undo.click()
    assert models.conversation.manner == Manner(instructions="In long verse.", temperature=0.9)
    assert dialog.control("instructions").toPlainText() == "In long verse."
    assert not dialog.undo.isVisible()
    # Those of a preset can be chosen again.
    models.conversation.set_manner(TERSE)
    entries(dialog.picker.menu())["As in the settings"].trigger()
    assert not dialog.undo.isVisible()


def test_undo_takes_back_what_was_just_typed_over_the_preset_as_well(window, client, models):
    models.presets.save("Poet", VERSE)
    models.conversation.set_manner(TERSE)
    dialog = open_dialog(window, client)
    entries(dialog.picker.menu())["Poet"].trigger()
    # As when a figure that was typed is taken because the keyboard goes to the button.
    dialog.control("temperature").setValue(0.5)
    dialog.control("instructions").setPlainText("x" * (MAX_INSTRUCTIONS + 7))
    dialog.undo.setFocus()
    QTest.keyClick(dialog.undo, Qt.Key.Key_Space)
    assert dialog.control("instructions").toPlainText() == "Be brief."
    assert not dialog.problem.isVisible()
    assert dialog.focusWidget() is dialog.picker
    dialog.close_button.click()
    assert models.conversation.manner == TERSE


def test_values_that_were_had_back_are_not_proposed_to_replace_the_preset_that_was_not_wanted(window, client, models):
    models.presets.save("Terse", TERSE)
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    entries(dialog.picker.menu())["Terse"].trigger()
    dialog.undo.click()
    entries(dialog.picker.menu())["Save as a preset…"].trigger()
    assert not opened(window, PresetNameDialog).field.text()


def test_a_preset_gets_new_values_and_chats_with_the_old_ones_keep_them(window, client, models):
    models.presets.save("Terse", TERSE)
    dialog = open_dialog(window, client)
    entries(dialog.picker.menu())["Terse"].trigger()
    dialog.close_button.click()
    first = ask(window, client).conversation_id
    window.chat_actions.new_chat()
    dialog = open_dialog(window, client)
    entries(dialog.picker.menu())["Terse"].trigger()
    dialog.control("max_tokens").setValue(32)
    entries(dialog.picker.menu())["Save as a preset…"].trigger()
    naming = opened(window, PresetNameDialog)
    assert (naming.field.text(), naming.use.text()) == ("Terse", "Replace")
    naming.use.click()
    assert models.presets.manner_of(models.presets.named("Terse")) == Manner(max_tokens=32)
    assert dialog.picker.text() == " Terse"
    dialog.close_button.click()
    window.chat_actions.open_chat(first)
    assert models.conversation.manner == TERSE
    assert open_dialog(window, client).picker.text() == " Custom values"


def test_a_preset_is_renamed_to_a_name_that_is_free(window, client, models):
    models.presets.save("Terse", TERSE)
    models.presets.save("Poet", VERSE)
    dialog = open_dialog(window, client)
    entries(entries(dialog.picker.menu())["Rename"].menu())["Terse…"].trigger()
    naming = name_preset(window, "poet")
    assert not naming.use.isEnabled()
    assert naming.words.text() == "A preset with this name already exists."
    naming.field.setText("Curt")
    naming.use.click()
    assert [preset.name for preset in models.presets.presets] == ["Curt", "Poet"]


def test_a_preset_is_deleted_after_it_was_asked(window, client, models):
    models.presets.save("Poet", VERSE)
    models.presets.begin_new_chats_with(models.presets.named("Poet").preset_id)
    models.conversation.set_manner(VERSE)
    dialog = open_dialog(window, client)
    entries(entries(dialog.picker.menu())["Delete"].menu())["Poet…"].trigger()
    box = opened(window, QMessageBox)
    assert (
        box.informativeText()
        == "Chats that have its values keep them. New chats then start with the values of the settings."
    )
    next(button for button in box.findChildren(QPushButton) if button.text() == "Delete").click()
    assert models.presets.presets == ()
    assert dialog.picker.text() == " Custom values"
    assert models.conversation.manner == VERSE


def test_new_chats_begin_with_the_preset_that_is_chosen_for_them(window, client, models):
    models.presets.save("Poet", VERSE)
    dialog = open_dialog(window, client)
    entries(entries(dialog.picker.menu())["Start new chats with"].menu())["Poet"].trigger()
    assert models.conversation.manner == Manner()
    choices = entries(entries(dialog.picker.menu())["Start new chats with"].menu())
    assert [text for text, action in choices.items() if action.isChecked()] == ["Poet"]
    dialog.close_button.click()
    window.chat_actions.new_chat()
    assert ask(window, client).manner == VERSE


def test_what_cannot_be_saved_is_told_where_it_was_wanted(window, client, models, monkeypatch):
    client.tell(finished(ask(window, client).question_id))
    dialog = open_dialog(window, client)
    full = ChatsUnusable("The disk is full.", "Free some space.")

    def refuse(*_: object) -> None:
        raise full

    with monkeypatch.context() as on_full_disk:
        on_full_disk.setattr(models.conversation._store, "set_manner", refuse)
        on_full_disk.setattr(models.presets._store, "create", refuse)
        own(dialog, "max_tokens")
        assert dialog.failure.isVisible()
        dialog.own_box("max_tokens").click()
        dialog.own_box("max_tokens").click()
        save(window, dialog, "Usual")
        assert dialog.failure.text() == "The disk is full. Free some space."
        assert dialog.failure.isVisible()
        assert models.presets.presets == ()
    save(window, dialog, "Usual")
    assert not dialog.failure.isVisible()
    assert dialog.picker.text() == " Usual"


def test_what_the_disk_refuses_of_a_chat_counts_and_is_saved_when_there_is_room(window, client, models):
    client.tell(finished(ask(window, client).question_id))
    chat_id, connection = models.conversation.conversation_id, models.conversation._store._connection
    connection.execute("PRAGMA query_only = ON")
    models.conversation.set_manner(VERSE)
    models.conversation.set_model("/m.gguf")
    models.conversation.leave_files_out()
    window.chat_actions.new_chat()
    window.chat_actions.open_chat(chat_id)
    assert (models.conversation.manner, models.conversation.model) == (VERSE, "/m.gguf")
    assert not models.conversation.searches
    assert models.save() is not None
    connection.execute("PRAGMA query_only = OFF")
    assert models.save() is None
    stored = models.conversation._store.conversation(chat_id)
    assert (manner_of(stored.manner), stored.model, stored.searches) == (VERSE, "/m.gguf", False)


def test_what_was_refused_while_the_disk_was_full_is_not_searched_when_there_is_room(window, client, models):
    client.tell(finished(ask(window, client).question_id))
    chat_id, connection = models.conversation.conversation_id, models.conversation._store._connection
    models.conversation.leave_files_out()
    detach = models.conversation.detaching()
    connection.execute("PRAGMA query_only = ON")
    models.conversation.attach(["/a.md"])
    window.chat_actions.new_chat()
    detach(["/a.md"])
    connection.execute("PRAGMA query_only = OFF")
    assert models.save() is None
    window.chat_actions.open_chat(chat_id)
    assert (models.conversation.filters.paths, models.conversation.searches) == ((), False)
    stored = models.conversation._store.conversation(chat_id)
    assert (filters_of(stored.filters).paths, stored.searches) == ((), False)


# --- reaching it ---


def test_it_is_opened_from_the_palette_and_closed_by_escape(window, client):
    window.go_to("library")
    command = next(one for one in commands_of(window, None) if one.title == "Instructions and settings of this chat…")
    command.run()
    dialog = opened(window, MannerDialog)
    assert window.place == "chats"
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    assert not dialog.isVisible()


def test_everything_in_it_has_a_name_and_can_be_reached_by_the_keyboard(window, client, models):
    models.conversation.set_manner(VERSE)
    models.presets.save("Poet", VERSE)
    dialog = open_dialog(window, client)
    assert unnamed(dialog) == []
    dialog.activateWindow()
    reached = set()
    for _ in range(30):
        reached.add(dialog.focusWidget())
        QTest.keyClick(dialog.focusWidget(), Qt.Key.Key_Tab)
    wanted = {dialog.picker, dialog.close_button, dialog.control("instructions"), dialog.own_box("min_p")}
    assert wanted <= reached
    entries(dialog.picker.menu())["Save as a preset…"].trigger()
    assert unnamed(opened(window, PresetNameDialog)) == []


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_no_choice_and_no_figure_is_cut(window, client, scale):
    dialog = open_dialog(window, client)
    theme.appearance().choose("light", scale)
    QApplication.processEvents()
    assert dialog.findChildren(QComboBox)
    assert dialog.findChildren(QAbstractSpinBox)
    assert cut_fields(dialog) == []


@pytest.mark.parametrize("scale", [1.0, 1.6])
def test_it_fits_a_small_window(window, client, scale):
    window.resize(760, 520)
    theme.appearance().choose("light", scale)
    dialog = open_dialog(window, client)
    assert dialog.width() <= 760
    assert dialog.height() <= 520
