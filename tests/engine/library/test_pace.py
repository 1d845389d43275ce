"""Tests for engine.library.pace and engine.library.throttle."""

from __future__ import annotations

import pytest

from engine.core import Document
from engine.library.pace import Pace
from engine.library.throttle import Throttle


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def document(number: int, size: int = 8_000) -> Document:
    return Document(number, (), f"/d/{number}", "pending", "", size, 0, "", "", 0)


def test_rate_and_time_left_are_unknown_until_something_is_done() -> None:
    clock = Clock()
    pace = Pace.of([document(1), document(2)], clock)

    assert pace.progress("a").chunks_per_second is None
    clock.seconds += 5
    assert pace.progress("a").eta_seconds is None


def test_a_first_moment_is_no_rate() -> None:
    clock = Clock()
    pace = Pace.of([document(1), document(2)], clock)
    clock.seconds += 0.1
    pace.done(document(1))

    assert pace.progress("a").eta_seconds is None


def test_time_left_follows_the_bytes_that_are_left() -> None:
    clock = Clock()
    small, large = document(1, 8_000), document(2, 28_000)
    pace = Pace.of([small, large], clock)
    clock.seconds += 10
    pace.embedded(small, 5, 5)
    pace.done(small)

    progress = pace.progress("/d/2")

    assert (progress.documents_done, progress.documents_total, progress.chunks_done) == (1, 2, 5)
    assert progress.chunks_per_second == pytest.approx(0.5)
    assert progress.eta_seconds == pytest.approx(30)
    assert progress.current == "/d/2"


def test_a_large_document_counts_chunk_by_chunk_and_never_twice() -> None:
    clock = Clock()
    large = document(1)
    pace = Pace.of([large, document(2)], clock)
    clock.seconds += 10
    pace.embedded(large, 25, 100)
    assert pace.progress("a").eta_seconds == pytest.approx(70)

    pace.embedded(large, 100, 100)
    pace.done(large)
    assert pace.progress("a").eta_seconds == pytest.approx(10)
    assert pace.progress("a").chunks_done == 100


def test_a_pause_does_not_slow_the_pace() -> None:
    clock = Clock()
    pace = Pace.of([document(1), document(2)], clock)
    clock.seconds += 10
    pace.done(document(1))
    before = pace.progress("a")

    for step in pace.timed([before, before]):
        assert step is before
        clock.seconds += 3600

    assert pace.progress("a") == before
    assert pace.seconds == 10


def test_the_end_leaves_nothing() -> None:
    clock = Clock()
    pace = Pace.of([document(1, 0), document(2)], clock)
    clock.seconds += 2
    pace.done(document(1, 0))
    pace.done(document(2))

    assert pace.progress("a").eta_seconds == pytest.approx(0)


def test_a_throttle_lets_the_first_through_and_then_one_in_each_interval() -> None:
    clock = Clock()
    throttle = Throttle(1.0, clock)

    said = []
    for _ in range(8):
        said.append(throttle.is_due())
        clock.seconds += 0.25

    assert said == [True, False, False, False, True, False, False, False]
