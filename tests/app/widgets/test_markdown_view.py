"""Tests for app.widgets.markdown_view."""

from __future__ import annotations

import gc

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QMouseEvent, QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea

from app import theme
from app.widgets.code_block import CodeBlock
from app.widgets.markdown_view import MarkdownView
from app.widgets.prose import Prose


@pytest.fixture
def view(qtbot):
    # In a scroll area, as in the conversation: a window would grow with its content.
    host, made = QScrollArea(), MarkdownView()
    host.setWidgetResizable(True)
    host.setWidget(made)
    host.resize(640, 400)
    qtbot.addWidget(host)
    host.show()
    qtbot.waitExposed(host)
    made.host = host
    return made


def test_streaming_renders_only_the_tail(view):
    view.show_text("A paragraph.\n\n" * 100 + "The tail")
    first_views, before = view.block_views()[:100], view.num_renders
    for word in ("grows", "word", "by", "word"):
        view.append(f" {word}")
        view.finish()
    assert view.num_renders - before == 4
    assert view.block_views()[:100] == first_views


def test_tokens_are_gathered_before_they_are_shown(view, qtbot):
    for _ in range(200):
        view.append("word ")
    assert view.num_renders == 0
    assert view.text == "word " * 200
    qtbot.waitUntil(lambda: view.num_renders == 1)
    assert "word word" in view.block_views()[0].toPlainText()


def test_the_numbers_of_another_text_are_its_own(view):
    view.set_num_passages(3)
    view.show_text("First [3].\n\nThen")
    assert "cite:3" in view.block_views()[0].toHtml()
    view.set_num_passages(1)
    view.show_text("First [3].\n\nThen more")
    assert "cite:3" not in view.block_views()[0].toHtml()


def test_a_paragraph_that_becomes_a_table_becomes_another_look(view):
    view.append("| a | b |\n")
    view.finish()
    view.append("|---|---|\n| 1 | 2 |\n")
    view.finish()
    assert "<table" in view.block_views()[0].toHtml()


def test_an_unclosed_fence_is_shown_as_code_and_stays_when_closed(view):
    view.append("Look:\n\n```python\nx = 1")
    view.finish()
    block = view.block_views()[1]
    assert isinstance(block, CodeBlock)
    assert block.code == "x = 1"
    view.append("\n```\n\nDone.")
    view.finish()
    assert view.block_views()[1] is block
    assert isinstance(view.block_views()[2], Prose)


def test_a_click_on_a_citation_says_its_number(view, qtbot):
    view.show_text("三十天书面通知 [1] and then [2].")
    QApplication.processEvents()
    prose = view.block_views()[0]
    chips = list(prose.citation_rects())
    assert len(chips) == 2
    with qtbot.waitSignal(view.citation_clicked) as clicked:
        QTest.mouseClick(prose.viewport(), Qt.MouseButton.LeftButton, pos=chips[1].center().toPoint())
    assert clicked.args == [2]


@pytest.mark.parametrize("path", ["abc", "", "-1", "1.5", "²", "9" * 5000])
def test_a_link_that_only_looks_like_a_citation_does_nothing(view, qtbot, path):
    view.show_text("Some text.")
    prose = view.block_views()[0]
    with qtbot.assert_not_emitted(view.citation_clicked):
        prose._on_anchor_clicked(QUrl(f"cite:{path}"))
    prose._on_link_hovered(QUrl(f"cite:{path}"))


def test_citations_inside_tables_have_their_place(view):
    view.show_text("| a | b |\n|---|---|\n| x [1] | y [2] |\n")
    QApplication.processEvents()
    first, second = view.block_views()[0].citation_rects()
    assert second.left() > first.right()
    assert first.top() > 20


def test_nothing_is_ever_loaded(view):
    view.show_text("text")
    prose = view.block_views()[0]
    for kind in (QTextDocument.ResourceType.ImageResource, QTextDocument.ResourceType.HtmlResource):
        assert prose.loadResource(kind.value, QUrl("file:///etc/hostname")) is None


@pytest.mark.parametrize(
    ("target", "opens"), [("https://example.org/a", True), ("mailto:a@example.org", True), ("ftp://example.org", False)]
)
def test_only_web_and_mail_links_open_outside(view, monkeypatch, target, opens):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    view.show_text(f"[link]({target})")
    view.block_views()[0].anchorClicked.emit(QUrl(target))
    assert opened == ([QUrl(target)] if opens else [])


def test_a_block_is_as_high_as_its_text_at_any_width(view):
    view.show_text("word " * 300)
    QApplication.processEvents()
    prose = view.block_views()[0]
    wide = prose.height()
    assert wide > 100
    view.host.resize(320, 400)
    QApplication.processEvents()
    assert prose.height() > 1.5 * wide
    assert prose.verticalScrollBar().maximum() == 0


def test_another_theme_renders_the_blocks_in_its_colours(view):
    look = theme.appearance()
    try:
        look.choose("light")
        view.show_text("see [1]\n\n```python\nreturn 1\n```")
        light = view.block_views()[0].toHtml()
        look.choose("dark")
        QApplication.processEvents()
        assert view.block_views()[0].toHtml() != light
        assert theme.DARK.accent in view.block_views()[0].toHtml()
    finally:
        look.choose("light")


# --- what is selected ---

NONE = Qt.KeyboardModifier.NoModifier
ANSWER = "Three months apply [1].\n\n```python\nx = 1\n```\n\n- first\n- second\n\nThe end."


def point(text, position: int) -> QPoint:
    """Where a position of a text is, in its viewport."""
    cursor = text.textCursor()
    cursor.setPosition(position)
    return text.cursorRect(cursor).center()


def mouse(kind: QEvent.Type, text, there: QPoint, modifiers: Qt.KeyboardModifier = NONE) -> None:
    """A mouse event with the left button down, or just let go; QTest warns of those that Qt's text edits ignore."""
    left = Qt.MouseButton.LeftButton
    where = QPointF(text.viewport().mapToGlobal(there))
    down = Qt.MouseButton.NoButton if kind == QEvent.Type.MouseButtonRelease else left
    QApplication.sendEvent(text.viewport(), QMouseEvent(kind, QPointF(there), where, left, down, modifiers))


def press(text, there: QPoint, modifiers: Qt.KeyboardModifier = NONE) -> None:
    text.setFocus(Qt.FocusReason.MouseFocusReason)
    mouse(QEvent.Type.MouseButtonPress, text, there, modifiers)


def move(text, there: QPoint) -> None:
    mouse(QEvent.Type.MouseMove, text, there)


def release(text, there: QPoint) -> None:
    mouse(QEvent.Type.MouseButtonRelease, text, there)


def click(text, position: int, modifiers: Qt.KeyboardModifier = NONE) -> None:
    press(text, point(text, position), modifiers)
    release(text, point(text, position))


def over(text, to, end: int) -> QPoint:
    """Where a position of another block is, as `text` is told of it while it has the mouse."""
    return text.viewport().mapFromGlobal(to.viewport().mapToGlobal(point(to, end)))


def drag(text, start: int, to, end: int) -> None:
    """Presses at a position of one block, moves to one of another, and lets go."""
    press(text, point(text, start))
    move(text, over(text, to, end))
    release(text, over(text, to, end))


def selected(view) -> list[str]:
    return [text.textCursor().selectedText() for text in view.texts()]


@pytest.fixture
def answer(view):
    view.show_text(ANSWER)
    QApplication.processEvents()
    QGuiApplication.clipboard().setText("something else")
    return view


def test_a_drag_goes_on_from_block_to_block_also_through_code(answer):
    first, _, points, _ = answer.texts()
    drag(first, 6, points, 5)
    assert selected(answer) == ["months apply \u202f1\u202f.", "x = 1", "first", ""]
    QTest.keyClick(first, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    copied = QGuiApplication.clipboard().mimeData()
    assert copied.text() == "months apply [1].\n\nx = 1\n\nfirst"
    assert "cite:" not in copied.html()
    assert copied.html().index("months") < copied.html().index("x = ") < copied.html().index("first")


def test_a_drag_may_go_upwards_and_come_back(answer):
    first, code, _, last = answer.texts()
    drag(last, 3, first, 6)
    assert selected(answer) == ["months apply \u202f1\u202f.", "x = 1", "first\u2029second", "The"]
    click(last, 6)
    press(last, point(last, 3))
    move(last, over(last, code, 4))
    assert selected(answer) == ["", "1", "first\u2029second", "The"]
    move(last, point(last, 7))
    assert selected(answer) == ["", "", "", " end"]
    release(last, point(last, 7))


def test_a_drag_that_ends_below_the_answer_selects_to_its_end(answer):
    first, *_, last = answer.texts()
    press(first, point(first, 0))
    move(first, QPoint(0, 2000))
    release(first, QPoint(0, 2000))
    assert selected(answer)[0].startswith("Three")
    assert last.textCursor().selectedText() == "The end."


def test_shift_and_a_click_extend_what_is_selected(answer):
    first, code, _, last = answer.texts()
    click(first, 6)
    click(last, 3, Qt.KeyboardModifier.ShiftModifier)
    assert selected(answer) == ["months apply \u202f1\u202f.", "x = 1", "first\u2029second", "The"]
    click(code, 1, Qt.KeyboardModifier.ShiftModifier)
    assert selected(answer) == ["months apply \u202f1\u202f.", "x", "", ""]


def test_everything_of_an_answer_is_selected_and_copied(answer):
    code = answer.texts()[1]
    click(code, 1)
    QTest.keyClick(code, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(code, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "Three months apply [1].\n\nx = 1\n\nfirst\nsecond\n\nThe end."


def test_the_menu_of_a_block_is_about_the_whole_answer(answer):
    first = answer.texts()[0]
    actions = {action.objectName(): action for action in first.menu_at(QPoint(1, 1)).actions()}
    actions["select-all"].trigger()
    actions = {action.objectName(): action for action in first.menu_at(QPoint(1, 1)).actions()}
    actions["edit-copy"].trigger()
    gc.collect()
    assert QGuiApplication.clipboard().text().endswith("second\n\nThe end.")


def test_a_click_elsewhere_in_the_answer_ends_a_selection(answer):
    first, _, points, last = answer.texts()
    drag(first, 6, points, 5)
    click(last, 1)
    assert selected(answer) == ["", "", "", ""]


def test_a_click_on_what_is_selected_ends_it_when_the_button_is_let_go(answer):
    first, code, points, _ = answer.texts()
    drag(first, 6, points, 5)
    press(code, point(code, 2))
    assert selected(answer)[0]
    release(code, point(code, 2))
    assert selected(answer) == ["", "", "", ""]


def test_what_is_selected_stays_while_more_is_written(answer):
    first, *_, last = answer.texts()
    drag(first, 6, last, 3)
    before = selected(answer)
    for piece in (" Or", " not.", "\n\nAnd ", "more."):
        answer.append(piece)
        answer.finish()
    assert selected(answer) == [*before, ""]


def test_what_is_selected_stays_in_another_theme(answer):
    look = theme.appearance()
    answer.selection.select_all()
    before = selected(answer)
    try:
        look.choose("dark")
        QApplication.processEvents()
        assert selected(answer) == before
    finally:
        look.choose("light")


def test_a_block_that_gave_way_to_another_kind_is_no_part_of_a_selection(view):
    view.append("| a | b |\n")
    view.finish()
    view.selection.select_all()
    view.show_text("```\ncode\n```\n\nText.")
    QApplication.processEvents()
    code, text = view.texts()
    click(text, 2, Qt.KeyboardModifier.ShiftModifier)
    assert selected(view) == ["", "Te"]
    drag(code, 1, text, 2)
    assert selected(view) == ["ode", "Te"]


def test_the_tab_key_marks_a_link_and_ends_what_was_selected(answer):
    first = answer.texts()[0]
    first.setFocus()
    answer.selection.select_all()
    QTest.keyClick(first, Qt.Key.Key_Tab)
    assert selected(answer)[1:] == ["", "", ""]


def test_a_drag_beyond_the_edge_scrolls_on_and_selects_what_comes(view, qtbot):
    view.show_text("\n\n".join(f"Paragraph {number}." for number in range(60)))
    QApplication.processEvents()
    first, bar = view.texts()[0], view.host.verticalScrollBar()
    press(first, point(first, 3))
    move(first, first.viewport().mapFromGlobal(view.host.viewport().mapToGlobal(QPoint(50, 900))))
    qtbot.wait_until(lambda: bar.value() == bar.maximum())
    assert selected(view)[0] == "agraph 0."
    assert selected(view)[1:] == [f"Paragraph {number}." for number in range(1, 60)]
    move(first, point(first, 5))
    assert not view.selection._edge._timer.isActive()
    move(first, QPoint(0, -900))
    assert view.selection._edge._timer.isActive()
    release(first, QPoint(0, -900))
    assert not view.selection._edge._timer.isActive()


def test_what_is_copied_can_be_pasted_anywhere(view):
    look = theme.appearance()
    try:
        look.choose("dark")
        view.show_text(
            "A `word` [1] and *more* [2][3].\n\n| a | b |\n|---|---|\n| 1 | `x` [1] |\n\n```\np { color:#fff; }\n```"
        )
        view.selection.select_all()
        copied = view.selection.mime()
    finally:
        look.choose("light")
    assert copied.text() == "A word [1] and more [2][3].\n\na\tb\n1\tx [1]\n\np { color:#fff; }"
    assert "color:#" not in copied.html().replace("p { color:#fff; }", "")
    assert "p { color:#fff; }" in copied.html()
    assert "bgcolor" not in copied.html()


def test_a_citation_does_not_take_the_space_behind_it(view):
    view.show_text("Three months [1] and more.")
    assert view.texts()[0].toPlainText() == "Three months \u202f1\u202f and more."
