"""Tests for app.widgets.setting_controls."""

from __future__ import annotations

from functools import partial

import pytest

from app.widgets.setting_controls import (
    Decimal,
    Gibibytes,
    Line,
    Number,
    Paragraph,
    Texts,
    Words,
    escaped,
    texts_of,
)

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


CONTEXT, LENGTH = partial(Number, 256, 131_072, 1024), partial(Number, 16, 8192, 64)
PORT = partial(Number, 1024, 65_535, 1, is_a_name=True)
WARMTH, SHARE = partial(Decimal, 0.0, 2.0, 0.1), partial(Decimal, 0.05, 1.0, 0.05)
MINUTES = partial(Decimal, 0.0, 1440.0, 5.0, num_digits=0, nothing="never", suffix=" min")
BYTES = partial(Gibibytes, 1024.0, 0.25, nothing="automatic")
FILE = partial(Gibibytes, 64.0, 0.25, lowest_gib=0.01)


@pytest.mark.parametrize(
    ("make", "value", "text"),
    [
        (CONTEXT, 262_144, "262,144"),
        (LENGTH, 1, "1"),
        (PORT, 0, "0"),
        (WARMTH, 3.0, "3.00"),
        (SHARE, 0.0125, "0.0125"),
        (MINUTES, 0.4, "0.4 min"),
        (MINUTES, 10_080.0, "10,080 min"),
        (BYTES, 2**41, "2048.00 GiB"),
        (BYTES, 2**20, "0.00098 GiB"),
        (BYTES, 0, "0.00 GiB"),
        (FILE, 2**29, "0.50 GiB"),
        (FILE, 500_000, "0.00047 GiB"),
        (FILE, 2**37, "128.00 GiB"),
    ],
)
def test_a_figure_that_was_set_elsewhere_is_shown_as_it_is(qtbot, make, value, text):
    control = make()
    qtbot.addWidget(control.widget)
    control.show_value(value)
    assert control.widget.text() == text
    assert control.value() == pytest.approx(value, rel=0.01)


def test_bytes_that_have_to_be_some_end_at_the_fewest(qtbot):
    control = FILE()
    qtbot.addWidget(control.widget)
    control.show_value(2**29)
    control.widget.setValue(-1.0)
    assert (control.widget.text(), control.value()) == ("0.01 GiB", round(0.01 * 2**30))


@pytest.mark.parametrize(
    ("make", "unusual", "usual", "text"),
    [
        (CONTEXT, 262_144, 4096, "4,096"),
        (WARMTH, 3.125, 0.3, "0.30"),
        (MINUTES, 0.4, 0.0, "never"),
        (MINUTES, 10_080.5, 10.0, "10 min"),
        (BYTES, 2**20, 2**30, "1.00 GiB"),
        (BYTES, 0, None, "automatic"),
    ],
)
def test_beside_a_usual_figure_there_is_room_for_usual_ones_again(qtbot, make, unusual, usual, text):
    control, new = make(), make()
    qtbot.addWidget(control.widget)
    qtbot.addWidget(new.widget)
    control.show_value(unusual)
    control.show_value(usual)
    assert (control.widget.text(), control.value()) == (text, usual)
    assert (control.widget.minimum(), control.widget.maximum()) == (new.widget.minimum(), new.widget.maximum())


@pytest.mark.parametrize(("make", "value", "less"), [(CONTEXT, 262_144, 261_120), (WARMTH, 3.0, 2.9)])
def test_a_step_starts_from_the_figure_that_is_in_force(qtbot, make, value, less):
    control = make()
    qtbot.addWidget(control.widget)
    told: list[object] = []
    control.changed.connect(lambda: told.append(control.value()))
    control.show_value(value)
    control.widget.stepDown()
    assert told == [less]
