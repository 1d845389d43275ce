"""Tests for app.widgets.prompt_edit."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtTest import QTest

from app.widgets.prompt_edit import MAX_CHARACTERS, MAX_LINES, PromptEdit


@pytest.fixture
def prompt(qtbot):
    made = PromptEdit()
    qtbot.addWidget(made)
    made.resize(600, 80)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_enter_sends_and_empties_the_field(prompt, qtbot):
    QTest.keyClicks(prompt.field, "Why?")
    with qtbot.waitSignal(prompt.submitted) as submitted:
        QTest.keyClick(prompt.field, Qt.Key.Key_Return)
    assert submitted.args == ["Why?"]
    assert prompt.text == ""


def test_shift_enter_breaks_the_line(prompt, qtbot):
    with qtbot.assertNotEmitted(prompt.submitted):
        QTest.keyClicks(prompt.field, "one")
        QTest.keyClick(prompt.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        QTest.keyClicks(prompt.field, "two")
    assert prompt.text == "one\ntwo"


def test_white_space_alone_is_not_sent(prompt, qtbot):
    prompt.set_text("  \n ")
    assert not prompt.button.isEnabled()
    with qtbot.assertNotEmitted(prompt.submitted):
        QTest.keyClick(prompt.field, Qt.Key.Key_Return)


def test_the_field_grows_to_eight_lines_and_no_further(prompt):
    prompt.set_text("one")
    one = prompt.field.height()
    prompt.set_text("\n".join("abc"))
    assert prompt.field.height() > one
    prompt.set_text("\n".join("x" * MAX_LINES))
    eight = prompt.field.height()
    prompt.set_text("\n".join("x" * 40))
    assert prompt.field.height() == eight


def test_while_busy_the_button_stops_and_enter_keeps_the_text(prompt, qtbot):
    prompt.set_text("Next question")
    prompt.set_busy(True)
    with qtbot.assertNotEmitted(prompt.submitted):
        QTest.keyClick(prompt.field, Qt.Key.Key_Return)
    assert prompt.text == "Next question"
    with qtbot.waitSignal(prompt.stop_requested):
        prompt.button.click()
    assert "Stop" in prompt.button.accessibleName()


def pasted(prompt, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    prompt.field.insertFromMimeData(data)


def test_a_text_too_long_for_a_question_is_not_pasted_and_says_what_to_do(prompt):
    prompt.set_text("Why?")
    pasted(prompt, "x" * MAX_CHARACTERS)
    assert prompt.text == "Why?"
    assert prompt.refusal.isVisible()
    assert prompt.refusal.text().startswith("This text has 50,000 characters, and a question 50,000 at most. Add it to")
    QTest.keyClicks(prompt.field, "!")
    assert not prompt.refusal.isVisible()


def test_what_takes_the_place_of_what_is_selected_counts_alone(prompt):
    prompt.set_text("y" * MAX_CHARACTERS)
    prompt.field.selectAll()
    pasted(prompt, "x" * MAX_CHARACTERS)
    assert prompt.text == "x" * MAX_CHARACTERS


def test_drops_and_tabs_are_left_to_the_window(prompt):
    assert not prompt.field.acceptDrops()
    assert prompt.field.tabChangesFocus()
