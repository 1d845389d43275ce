"""Tests for engine.giving_way."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from engine.giving_way import (
    MOST_REST_SECONDS,
    SHARE_BESIDE_COMPUTING,
    SHARE_BESIDE_STREAMING,
    GivingWay,
    rest_seconds,
    share_beside,
)
from engine.memory.placement import Placement

SOON = 30.0
# So long nothing happens where nothing may.
A_WHILE = 0.2


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Somebody:
    """Says what documents may take of the time: all, or a quarter while `is_waiting`."""

    def __init__(self, *, is_waiting: bool) -> None:
        self.is_waiting = is_waiting

    def share(self) -> float:
        return 0.25 if self.is_waiting else 1.0


class Batch:
    """A thread that computes a batch until it is told to end."""

    def __init__(self, giving_way: GivingWay) -> None:
        self._giving_way = giving_way
        self.has_begun, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._compute, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._done.set()
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def _compute(self) -> None:
        with self._giving_way.batch():
            self.has_begun.set()
            self._done.wait(SOON)


def test_where_nobody_waits_batches_are_computed_beside_each_other_and_without_a_rest():
    giving_way = GivingWay(Somebody(is_waiting=False).share, Clock())
    batches = [Batch(giving_way) for _ in range(3)]
    assert all(batch.has_begun.wait(SOON) for batch in batches)
    for batch in batches:
        batch.end()
    with giving_way.batch():
        pass


def test_while_somebody_waits_batches_are_computed_together_and_then_rest_so_long_that_they_keep_to_their_share():
    clock = Clock()
    giving_way = GivingWay(Somebody(is_waiting=True).share, clock)
    together = [Batch(giving_way), Batch(giving_way)]
    assert all(batch.has_begun.wait(SOON) for batch in together)
    clock.now += 0.5
    for batch in together:
        batch.end()
    following = Batch(giving_way)
    clock.now += 1.4
    assert not following.has_begun.wait(A_WHILE)
    clock.now += 0.2
    assert following.has_begun.wait(SOON)
    following.end()


def test_who_rests_goes_on_as_soon_as_nobody_waits_any_more():
    somebody = Somebody(is_waiting=True)
    clock = Clock()
    giving_way = GivingWay(somebody.share, clock)
    with giving_way.batch():
        clock.now += 0.5
    resting = [Batch(giving_way), Batch(giving_way)]
    assert not resting[0].has_begun.wait(A_WHILE)
    somebody.is_waiting = False
    for batch in resting:
        assert batch.has_begun.wait(SOON)
        batch.end()


def test_what_documents_rest_counts_for_nothing_on_the_clock_of_their_work():
    somebody, clock = Somebody(is_waiting=False), Clock()
    giving_way = GivingWay(somebody.share, clock)
    clock.now += 2.0
    assert giving_way.working_seconds() == pytest.approx(2.0)
    somebody.is_waiting = True
    clock.now += 8.0
    assert giving_way.working_seconds() == pytest.approx(4.0)
    somebody.is_waiting = False
    clock.now += 1.0
    assert giving_way.working_seconds() == pytest.approx(5.0)


def test_a_batch_that_fails_counts_as_any_other():
    clock = Clock()
    giving_way = GivingWay(Somebody(is_waiting=True).share, clock)

    def break_off() -> None:
        clock.now += 0.5
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), giving_way.batch():
        break_off()
    following = Batch(giving_way)
    assert not following.has_begun.wait(A_WHILE)
    clock.now += 1.6
    assert following.has_begun.wait(SOON)
    following.end()


def test_a_rest_fits_the_share_and_has_an_end():
    assert rest_seconds(0.5, 1.0) == 0
    assert rest_seconds(0.5, 0.25) == pytest.approx(1.5)
    assert rest_seconds(60.0, 0.25) == MOST_REST_SECONDS


@pytest.mark.parametrize(
    ("n_gpu_layers", "streamed", "share"),
    [(0, (), SHARE_BESIDE_COMPUTING), (3, (0,), SHARE_BESIDE_STREAMING), (5, (), 1.0), (4, (), SHARE_BESIDE_COMPUTING)],
)
def test_it_depends_on_where_the_answer_is_computed(n_gpu_layers: int, streamed: tuple[int, ...], share: float):
    placement = Placement(n_gpu_layers, 4, 0, 0, "", streamed_layers=streamed)
    assert share_beside(placement) == share
    assert share_beside(replace(placement, embedder_on_gpu=True)) == 1.0


def test_a_question_that_waits_for_its_model_counts_as_well():
    assert share_beside(None) == SHARE_BESIDE_COMPUTING
