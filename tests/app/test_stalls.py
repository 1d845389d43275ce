"""Tests for app.stalls."""

from __future__ import annotations

import logging
import threading
import time
from types import FrameType

import pytest
from PySide6.QtCore import QTimer

from app import stalls
from app.stalls import StallDetector, stack_of


@pytest.fixture
def detector(qapp):
    made = StallDetector(stall_s=0.1, beat_s=0.02)
    made.start()
    yield made
    made.stop()


def test_a_callback_that_holds_the_loop_is_logged_with_its_stack(qtbot, detector, caplog, monkeypatch):
    was_seen = threading.Event()

    def seen_stack_of(frame: FrameType | None) -> str:
        stack = stack_of(frame)
        if "a_slow_callback" in stack:
            was_seen.set()
        return stack

    def a_slow_callback() -> None:
        assert was_seen.wait(60)
        # Clearly a stall, by the time it was away.
        time.sleep(0.1)

    monkeypatch.setattr(stalls, "stack_of", seen_stack_of)
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
