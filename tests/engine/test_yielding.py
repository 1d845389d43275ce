"""Tests for engine.yielding."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

import pytest

from engine.yielding import is_yielding, yield_to_others


def _in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have policies of their own on Linux")
def test_only_the_thread_that_asks_and_those_it_starts_get_idle_cores_alone() -> None:
    seen: list[int] = []

    def note() -> None:
        seen.append(os.sched_getscheduler(threading.get_native_id()))

    def yielding() -> None:
        yield_to_others()
        _in_thread(note)
        note()

    note()
    _in_thread(yielding)
    note()

    assert seen == [os.SCHED_OTHER, os.SCHED_IDLE, os.SCHED_IDLE, os.SCHED_OTHER]


def test_a_thread_knows_whether_it_yields() -> None:
    seen: list[bool] = []

    def yielding() -> None:
        seen.append(is_yielding())
        yield_to_others()
        seen.append(is_yielding())

    _in_thread(yielding)

    assert seen == [False, True]
    assert not is_yielding()
