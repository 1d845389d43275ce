"""Tests for app.widgets.setting_controls."""

from __future__ import annotations

import pytest

from app.widgets.setting_controls import Line, Paragraph, Texts, Words, escaped, texts_of

AWKWARD = (" a, b ", "\n\n", "back\\slash", "\\n", "\ttab", ",", " ", "User:", "ends with \\")


def test_any_texts_stand_in_a_line_and_come_back():
    assert texts_of(", ".join(map(escaped, AWKWARD))) == AWKWARD


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("END", ("END",)),
        (" one two ,  three", ("one two", "three")),
        ("", ()),
        (" , ,, ", ()),
        (r"\n", ("\n",)),
        (r"a\,b", ("a,b",)),
        ("a\\", ("a\\",)),
        (r"\ x", (" x",)),
    ],
)
def test_texts_are_read_from_what_is_typed(line: str, texts: tuple[str, ...]):
    assert texts_of(line) == texts


def test_a_line_that_was_only_looked_at_tells_nothing(qtbot):
    control = Line("none")
    qtbot.addWidget(control.widget)
    control.show_value("https://huggingface.co")
    told: list[object] = []
    control.changed.connect(lambda: told.append(control.value()))
    control.widget.editingFinished.emit()
    control.widget.setText(" ")
    control.widget.editingFinished.emit()
    assert told == [""]


@pytest.mark.parametrize("kind", [Words, Texts])
def test_only_what_was_changed_is_told(kind, qtbot):
    control = kind("none")
    qtbot.addWidget(control.widget)
    control.show_value(["eng", "deu"])
    told: list[object] = []
    control.changed.connect(lambda: told.append(control.value()))
    control.widget.editingFinished.emit()
    control.widget.setText("eng")
    control.widget.editingFinished.emit()
    assert told == [("eng",)]


def test_a_paragraph_that_is_shown_as_it_stands_leaves_the_cursor_where_it_is(qtbot):
    control = Paragraph("nothing")
    qtbot.addWidget(control.widget)
    told: list[object] = []
    control.changed.connect(lambda: told.append(control.value()))
    control.widget.setPlainText("Answer in verse.")
    control.widget.moveCursor(control.widget.textCursor().MoveOperation.End)
    control.show_value("Answer in verse.")
    assert control.widget.textCursor().atEnd()
    control.show_value("")
    assert (control.value(), told) == ("", ["Answer in verse."])


def test_a_paragraph_is_as_many_lines_high_however_large_its_letters_are(qtbot):
    control = Paragraph("nothing")
    qtbot.addWidget(control.widget)
    heights = []
    for points in (10, 30):
        font = control.widget.font()
        font.setPointSize(points)
        control.widget.setFont(font)
        heights.append(control.widget.height())
        assert control.widget.height() >= 4 * control.widget.fontMetrics().lineSpacing()
    assert heights[1] > 2 * heights[0]
