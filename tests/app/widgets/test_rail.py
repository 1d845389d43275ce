"""Tests for app.widgets.rail."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from app import theme
from app.widgets.rail import COMPACT_WIDTH_PX, WIDTH_PX, Rail


@pytest.mark.parametrize("scale", [1.0, 2.0, 2.5])
def test_no_word_is_cut_however_large_the_text_is(qtbot, large_text, scale: float):
    rail = Rail()
    qtbot.addWidget(rail)
    rail.show()
    theme.appearance().choose("light", scale)
    qtbot.waitUntil(lambda: all(button.width() >= button.sizeHint().width() for button in rail._texts))
    assert (rail.width() > WIDTH_PX) == (scale == 2.5)
    rail.set_compact(True)
    QApplication.processEvents()
    assert rail.width() == COMPACT_WIDTH_PX
    rail.set_compact(False)
    QApplication.processEvents()
    assert all(button.width() >= button.sizeHint().width() for button in rail._texts)
