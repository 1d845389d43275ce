"""Tests for engine.making_room."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.making_room import PATIENCE_SECONDS, RoomMaker
from engine.memory.placement import Placement


@dataclass
class Beside:
    """An index that heeds a plan when a sweep is over, and an embedder that takes as long to leave the card."""

    partition_bytes: int | None = 500
    sweep_seconds: float = 0.0
    batch_seconds: float = 0.0
    now: float = 0.0
    embedder_asked: int = 0

    def set_partition_bytes(self, num_bytes: int) -> None:
        self.partition_bytes = num_bytes

    def resident_bytes(self) -> int:
        return 500 if self.now < self.sweep_seconds else min(500, self.partition_bytes or 0)

    def leaves_card(self) -> bool:
        self.embedder_asked += 1
        return self.now >= self.batch_seconds

    def wait(self, seconds: float) -> None:
        self.now += seconds


def made(beside: Beside, index_bytes: int, *, embedder_on_gpu: bool = False, given_up_at: float = 1e9) -> None:
    placement = Placement(0, 1, 0, 0, "", index_bytes=index_bytes, embedder_on_gpu=embedder_on_gpu)
    maker = RoomMaker(beside, beside.resident_bytes, beside.leaves_card, clock=lambda: beside.now, wait=beside.wait)
    maker(placement, lambda: beside.now >= given_up_at)


def test_an_index_shrinks_to_the_plan_and_never_grows_to_it():
    beside = Beside()
    made(beside, 300)
    assert beside.partition_bytes == 300
    made(beside, 400)
    assert beside.partition_bytes == 300
    assert beside.now == 0


def test_an_index_without_a_plan_begins_with_this_one():
    beside = Beside(partition_bytes=None)
    made(beside, 300)
    assert beside.partition_bytes == 300


@pytest.mark.parametrize(("sweep", "batch"), [(2.0, 0.0), (0.0, 2.0), (1.0, 2.0)])
def test_a_sweep_and_an_embedder_on_the_card_are_waited_for(sweep: float, batch: float):
    beside = Beside(sweep_seconds=sweep, batch_seconds=batch)
    made(beside, 300)
    assert beside.partition_bytes == 300
    assert beside.now == pytest.approx(2.0, abs=0.1)


def test_an_embedder_that_is_to_be_on_the_card_stays():
    beside = Beside()
    made(beside, 300, embedder_on_gpu=True)
    assert beside.embedder_asked == 0


@pytest.mark.parametrize("given_up_at", [1.0, 1e9])
def test_nobody_waits_longer_than_for_a_while_or_for_a_load_that_is_given_up(given_up_at: float):
    beside = Beside(sweep_seconds=1e6)
    made(beside, 300, given_up_at=given_up_at)
    assert beside.now == pytest.approx(min(given_up_at, PATIENCE_SECONDS), abs=0.1)
