"""Tests for app.widgets.wrapped_label."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QWidget

from app.widgets.wrapped_label import WrappedLabel


def lowest_ink(label: QWidget) -> int:
    """The lowest row of pixels on which something is written."""
    image = QImage(label.size(), QImage.Format.Format_Grayscale8)
    image.fill(Qt.GlobalColor.white)
    label.render(image)
    return max(
        y for y in range(image.height()) if any(image.pixelColor(x, y).lightness() < 128 for x in range(image.width()))
    )


def made(qtbot, text: str) -> WrappedLabel:
    label = WrappedLabel(text)
    label.setStyleSheet("background: white; color: black")
    qtbot.addWidget(label)
    return label


def test_a_word_wider_than_a_line_is_broken_and_asks_for_no_room(qtbot):
    label = made(qtbot, "x" * 400)
    assert label.minimumSizeHint().width() < label.fontMetrics().horizontalAdvance("x" * 10)
    assert label.heightForWidth(200) > label.heightForWidth(1000) > 0


def test_all_of_it_is_written_within_its_height(qtbot):
    label = made(qtbot, "A sentence of several words, and " + "w" * 60)
    label.resize(120, label.heightForWidth(120))
    line = label.fontMetrics().height()
    assert label.height() >= 5 * line
    assert label.height() - line < lowest_ink(label) < label.height()


def test_words_stay_whole_where_they_fit(qtbot):
    label = made(qtbot, "two words")
    width = label.fontMetrics().horizontalAdvance("two wor")
    # Lines are no whole pixels high.
    assert label.heightForWidth(width) == pytest.approx(2 * label.heightForWidth(1000), abs=2)
