"""Tests for app.first_paint."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel

from app.first_paint import FirstPaint


def test_the_first_paint_is_told_once_from_the_event_loop(qtbot):
    window = QLabel("hello")
    qtbot.add_widget(window)
    painted: list[int] = []
    first = FirstPaint(window, longest_wait_ms=200)
    first.painted.connect(lambda: painted.append(1))
    window.show()
    qtbot.wait_until(lambda: painted == [1])
    window.repaint()
    qtbot.wait(300)
    assert painted == [1]


def test_a_window_that_is_never_painted_does_not_wait_for_ever(qtbot):
    window = QLabel("never shown")
    qtbot.add_widget(window)
    first = FirstPaint(window, longest_wait_ms=20)
    with qtbot.wait_signal(first.painted):
        pass
