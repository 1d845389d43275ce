"""Tests for app.stalls."""

from __future__ import annotations

import logging
import time

import pytest
from PySide6.QtCore import QTimer

from app.stalls import StallDetector, stack_of


@pytest.fixture
def detector(qapp):
    made = StallDetector(stall_s=0.1, beat_s=0.02)
    made.start()
    yield made
    made.stop()


def a_slow_callback() -> None:
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.001)


def test_a_callback_that_holds_the_loop_is_logged_with_its_stack(qtbot, detector, caplog):
    caplog.set_level(logging.INFO, "app.stalls")
    QTimer.singleShot(0, a_slow_callback)
    qtbot.wait_until(lambda: any("a_slow_callback" in record.getMessage() for record in caplog.records))
    message = next(record.getMessage() for record in caplog.records if "a_slow_callback" in record.getMessage())
    assert "did not come back to its event loop" in message
    assert "test_stalls.py" in message


def test_stopping_it_twice_or_in_the_middle_of_a_stall_is_harmless(qapp):
    detector = StallDetector(stall_s=0.02, beat_s=0.01)
    detector.start()
    time.sleep(0.1)
    detector.stop()
    detector.stop()


def test_one_that_was_never_started_can_be_stopped(qapp):
    StallDetector().stop()


def test_a_thread_python_cannot_see_has_no_stack():
    assert stack_of(None) == "  (no Python frame)"
