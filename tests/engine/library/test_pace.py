"""Tests for engine.library.pace and engine.library.throttle."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.core import Document
from engine.library.pace import Before, Pace
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
    assert pace.progress("a").eta_seconds == pytest.approx(90)

    pace.embedded(large, 100, 100)
    pace.embedded(large, 50, 100)
    pace.done(large)
    progress = pace.progress("a")
    assert (progress.chunks_done, progress.documents_done, progress.bytes_done) == (100, 1, 8_000)


def test_the_rate_is_that_of_late_and_not_of_the_beginning() -> None:
    clock = Clock()
    documents = [document(number) for number in range(1000)]
    pace = Pace.of(documents, clock)
    for one in documents[:100]:
        clock.seconds += 1
        pace.embedded(one, 10, 10)
        pace.done(one)
        pace.progress("a")
    for one in documents[100:500]:
        clock.seconds += 0.1
        pace.embedded(one, 10, 10)
        pace.done(one)
        progress = pace.progress("a")

    assert progress.chunks_per_second == pytest.approx(100, rel=0.05)
    assert progress.eta_seconds is not None
    assert 45 < progress.eta_seconds < 90


def test_the_time_left_neither_jumps_nor_falls_below_nothing() -> None:
    clock = Clock()
    documents = [document(number, size) for number, size in enumerate([1_000, 2_000_000] * 50)]
    pace = Pace.of(documents, clock)
    told = []
    for one in documents:
        for num_chunks in range(1, 5):
            clock.seconds += 0.05 if one.size_bytes == 1_000 else 2
            pace.embedded(one, num_chunks, 4)
            told.append((pace.seconds, pace.progress("a").eta_seconds))
        pace.done(one)
    known = [(seconds, eta) for seconds, eta in told if eta is not None]

    assert min(eta for _, eta in known) >= 0
    for (before, eta), (after, next_eta) in pairwise(known):
        passed = after - before
        assert next_eta - eta <= 0.2 * eta + passed
        assert eta - next_eta <= 0.3 * eta + passed + 1


def test_while_nothing_moves_the_last_estimate_holds() -> None:
    clock = Clock()
    pace = Pace.of([document(1), document(2)], clock)
    clock.seconds += 10
    pace.done(document(1))
    known = pace.progress("a").eta_seconds
    clock.seconds += 100

    assert known == pytest.approx(10)
    assert pace.progress("a").eta_seconds is not None


def test_a_run_that_goes_on_counts_from_where_it_was() -> None:
    pace = Pace.of([document(1), document(2)], Clock(), Before(documents=3, num_bytes=500, chunks=7))
    pace.embedded(document(1), 5, 5)
    pace.done(document(1))

    progress = pace.progress("a")

    assert (progress.documents_done, progress.documents_total, progress.chunks_done) == (4, 5, 12)
    assert (progress.bytes_done, progress.bytes_total) == (8_500, 16_500)


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
