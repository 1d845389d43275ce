"""Tests for app.widgets.prompt_edit."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QImage, QInputMethodEvent, QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from app.widgets.prompt_edit import LONG_CHARACTERS, MAX_CHARACTERS, MAX_LINES, PromptEdit
from tests.helpers.drops import mime_of


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


def field_height(prompt, text: str) -> int:
    prompt.set_text(text)
    QApplication.processEvents()
    return prompt.field.height()


def test_the_field_grows_to_eight_lines_and_no_further(prompt):
    prompt.resize(600, 400)
    one = field_height(prompt, "one")
    assert field_height(prompt, "\n".join("abc")) > one
    eight = field_height(prompt, "\n".join("x" * MAX_LINES))
    assert field_height(prompt, "\n".join("x" * 40)) == eight
    assert field_height(prompt, "one") == one


def test_where_there_is_little_room_the_field_is_lower_and_what_is_being_written_in_sight(prompt):
    prompt.resize(600, 400)
    eight = field_height(prompt, "\n".join("x" * MAX_LINES))
    prompt.resize(600, prompt.minimumSizeHint().height())
    QApplication.processEvents()
    assert 2 * prompt.field.fontMetrics().lineSpacing() <= prompt.field.height() < eight / 2
    assert prompt.field.viewport().rect().contains(prompt.field.cursorRect().center())


def test_while_busy_the_button_stops_and_enter_still_sends(prompt, qtbot):
    prompt.set_text("Next question")
    prompt.set_busy(True)
    with qtbot.waitSignal(prompt.submitted) as submitted:
        QTest.keyClick(prompt.field, Qt.Key.Key_Return)
    assert submitted.args == ["Next question"]
    assert prompt.text == ""
    with qtbot.waitSignal(prompt.stop_requested):
        prompt.button.click()
    assert "Stop" in prompt.button.accessibleName()


def pasted(prompt, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    prompt.field.insertFromMimeData(data)


def test_a_text_too_long_for_a_question_is_not_pasted_and_can_become_a_file(prompt, qtbot):
    prompt.set_text("Why?")
    text = "x" * MAX_CHARACTERS
    pasted(prompt, text)
    assert prompt.text == "Why?"
    words = "This text has 50,000 characters; a question can have 50,000 at most. As a file, you can ask about it."
    assert prompt.paste_offer.words.text() == words
    with qtbot.waitSignal(prompt.keep_wanted) as wanted:
        prompt.paste_offer.keep.click()
    assert wanted.args == [text]
    # Until somebody says that it is kept.
    assert prompt.paste_offer.isVisible()
    prompt.paste_is_kept()
    assert prompt.text == "Why?"
    assert not prompt.paste_offer.isVisible()


def test_a_long_text_is_pasted_and_taken_out_of_the_question_when_it_becomes_a_file(prompt, qtbot):
    prompt.set_text("What of ?")
    cursor = prompt.field.textCursor()
    cursor.setPosition(len("What of "))
    prompt.field.setTextCursor(cursor)
    # Some letters are two for Qt, and lines end otherwise elsewhere.
    text = "𝔘 line\r\n" * (LONG_CHARACTERS // 8)
    pasted(prompt, text)
    assert prompt.text.startswith("What of 𝔘 line\n")
    assert prompt.paste_offer.words.text().startswith("This text has 4,000 characters. As a file,")
    with qtbot.waitSignal(prompt.keep_wanted) as wanted:
        prompt.paste_offer.keep.click()
    assert wanted.args == [text]
    prompt.paste_is_kept()
    assert prompt.text == "What of ?"


def test_what_is_offered_of_a_long_text_goes_when_the_question_is_changed(prompt):
    pasted(prompt, "x" * LONG_CHARACTERS)
    assert prompt.paste_offer.isVisible()
    QTest.keyClicks(prompt.field, "!")
    assert not prompt.paste_offer.isVisible()
    prompt.set_text("")
    pasted(prompt, "x" * (LONG_CHARACTERS - 1))
    assert not prompt.paste_offer.isVisible()


def test_files_that_were_copied_are_attached_and_not_typed_in_by_their_paths(prompt, qtbot, tmp_path):
    data = mime_of(tmp_path / "report.pdf", tmp_path / "folder")
    data.setText(f"{tmp_path / 'report.pdf'}\n{tmp_path / 'folder'}")
    QApplication.clipboard().setMimeData(data)
    assert prompt.field.canPaste()
    with qtbot.waitSignal(prompt.files_pasted) as given:
        QTest.keyClick(prompt.field, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert given.args == [(str(tmp_path / "report.pdf"), str(tmp_path / "folder"))]
    assert prompt.text == ""


def test_a_web_address_that_was_copied_is_pasted_as_text(prompt):
    data = QMimeData()
    data.setUrls([QUrl("https://example.org/report.pdf")])
    data.setText("https://example.org/report.pdf")
    prompt.field.insertFromMimeData(data)
    assert prompt.text == "https://example.org/report.pdf"


def test_a_picture_is_handed_over_and_what_comes_with_words_is_pasted_as_words(prompt, qtbot):
    picture = QImage(8, 6, QImage.Format.Format_RGB32)
    picture.fill(Qt.GlobalColor.white)
    data = QMimeData()
    data.setImageData(picture)
    with qtbot.waitSignal(prompt.picture_pasted) as given:
        prompt.field.insertFromMimeData(data)
    assert (given.args[0].width(), given.args[0].height()) == (8, 6)
    # As a table of numbers is copied.
    data.setText("1\t2")
    with qtbot.assertNotEmitted(prompt.picture_pasted):
        prompt.field.insertFromMimeData(data)
    assert prompt.text == "1\t2"


def test_the_paper_clip_is_reached_by_tab_before_the_button_that_sends(prompt, qtbot):
    assert prompt.attach.accessibleName() == "Attach files"
    with qtbot.waitSignal(prompt.attach_wanted):
        prompt.attach.click()
    assert prompt.attach.focusPolicy() == Qt.FocusPolicy.TabFocus
    prompt.set_text("Why?")
    prompt.field.setFocus()
    for expected in (prompt.attach, prompt.button):
        QTest.keyClick(prompt.focusWidget(), Qt.Key.Key_Tab)
        assert prompt.focusWidget() is expected


def test_what_takes_the_place_of_what_is_selected_counts_alone(prompt):
    prompt.set_text("y" * MAX_CHARACTERS)
    prompt.field.selectAll()
    pasted(prompt, "x" * MAX_CHARACTERS)
    assert prompt.text == "x" * MAX_CHARACTERS


def test_drops_and_tabs_are_left_to_the_window(prompt):
    assert not prompt.field.acceptDrops()
    assert prompt.field.tabChangesFocus()


PAGES = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
CTRL = Qt.KeyboardModifier.ControlModifier


class Around(QWidget):
    """Hears the keys that what is in it has no use for."""

    def __init__(self, inside: QWidget) -> None:
        super().__init__()
        self.heard: list[int] = []
        QVBoxLayout(self).addWidget(inside)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() != Qt.Key.Key_Control:
            self.heard.append(event.key())


@pytest.fixture
def around(prompt, qtbot) -> Around:
    made = Around(prompt)
    qtbot.addWidget(made)
    made.resize(600, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_a_question_that_is_in_sight_as_a_whole_leaves_paging_to_what_is_around_it(prompt, around):
    prompt.set_text("one\ntwo\nthree")
    QApplication.processEvents()
    for key in PAGES:
        QTest.keyClick(prompt.field, key)
    assert around.heard == [*PAGES]
    assert prompt.field.textCursor().atEnd()


def test_in_a_long_question_one_pages_and_anywhere_one_goes_to_its_ends(prompt, around):
    prompt.set_text("\n".join("line" for _ in range(40)))
    QApplication.processEvents()
    for key in PAGES:
        QTest.keyClick(prompt.field, key)
    QTest.keyClick(prompt.field, Qt.Key.Key_Home, CTRL)
    assert around.heard == []
    assert prompt.field.textCursor().atStart()


def test_an_empty_question_has_no_ends(prompt, around):
    for key in (Qt.Key.Key_Home, Qt.Key.Key_End):
        QTest.keyClick(prompt.field, key, CTRL)
    assert around.heard == [Qt.Key.Key_Home, Qt.Key.Key_End]


def test_keys_are_left_to_whoever_offers_letters_to_choose_from(prompt, around):
    QApplication.sendEvent(prompt.field, QInputMethodEvent("nihao", []))
    QTest.keyClick(prompt.field, Qt.Key.Key_PageDown)
    QTest.keyClick(prompt.field, Qt.Key.Key_End, CTRL)
    assert around.heard == []


def press(prompt, *keys: Qt.Key) -> str:
    for key in keys:
        QTest.keyClick(prompt.field, key)
    return prompt.text


UP, DOWN = Qt.Key.Key_Up, Qt.Key.Key_Down


def test_earlier_questions_are_recalled_in_an_empty_field(prompt):
    prompt.recall_from(lambda: ["First?", "Second\nline?", "First?", "Third?"])
    assert press(prompt, DOWN) == ""
    assert press(prompt, UP) == "Third?"
    # Each question once, however often it was asked.
    assert press(prompt, UP) == "First?"
    assert press(prompt, UP) == "Second\nline?"
    assert press(prompt, DOWN, DOWN) == "Third?"
    assert press(prompt, DOWN) == ""
    assert press(prompt, UP, UP, UP) == "Second\nline?"
    # There is no earlier one; the key moves the cursor, and then it stays in the text.
    assert press(prompt, UP, DOWN, Qt.Key.Key_Home, UP) == "Second\nline?"


def test_what_was_written_by_hand_is_not_replaced_by_an_earlier_question(prompt):
    prompt.recall_from(lambda: ["First?", "Second?"])
    QTest.keyClicks(prompt.field, "First?")
    assert press(prompt, UP) == "First?"
    prompt.set_text("")
    press(prompt, UP)
    QTest.keyClicks(prompt.field, " Or not")
    assert press(prompt, UP, DOWN) == "Second? Or not"


def test_where_nothing_was_asked_the_arrow_keys_do_nothing(prompt):
    assert press(prompt, UP, DOWN) == ""
