"""Tests for app.termination."""

from __future__ import annotations

import os
import signal

import pytest

from app.termination import Termination


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_a_wish_on_the_main_thread_and_ends_nothing_by_itself(qtbot, number):
    wishes: list[int] = []
    termination = Termination(lambda: wishes.append(1))
    os.kill(os.getpid(), number)
    qtbot.wait_until(lambda: wishes == [1])
    termination.release()


def test_after_release_the_handlers_are_those_of_before(qapp):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    Termination(lambda: None).release()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
