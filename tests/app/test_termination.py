"""Tests for app.termination."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from app.termination import Termination

HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def terminal() -> Iterator[None]:
    """Its end would end us, also where the tests are run by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("number", HEARD)
def test_a_signal_is_a_wish_on_the_main_thread_and_ends_nothing_by_itself(qtbot, number):
    wishes: list[int] = []
    termination = Termination(lambda: wishes.append(1))
    assert signal.getsignal(number) is not signal.SIG_DFL
    os.kill(os.getpid(), number)
    qtbot.wait_until(lambda: wishes == [1])
    termination.release()


@pytest.mark.usefixtures("terminal")
def test_after_release_the_handlers_are_those_of_before(qapp):
    before = [signal.getsignal(number) for number in HEARD]
    Termination(lambda: None).release()
    assert [signal.getsignal(number) for number in HEARD] == before


@pytest.mark.usefixtures("terminal")
def test_the_end_of_a_terminal_that_nohup_has_us_ignore_is_ignored(qapp):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    termination = Termination(lambda: None)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    termination.release()
