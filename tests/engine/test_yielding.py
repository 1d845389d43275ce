"""Tests for engine.yielding."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from engine.yielding import yield_to_others

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_only_the_thread_that_asks_and_those_it_starts_yield() -> None:
    before, seen = _niceness(), list[int]()

    def yielding() -> None:
        yield_to_others()
        child = threading.Thread(target=lambda: seen.append(_niceness()))
        child.start()
        child.join()
        seen.append(_niceness())

    thread = threading.Thread(target=yielding)
    thread.start()
    thread.join()

    assert seen == [min(19, before + 15)] * 2
    assert _niceness() == before


def test_it_never_goes_beyond_the_last() -> None:
    seen: list[int] = []

    def yielding() -> None:
        for _ in range(4):
            yield_to_others()
        seen.append(_niceness())

    thread = threading.Thread(target=yielding)
    thread.start()
    thread.join()

    assert seen == [19]
