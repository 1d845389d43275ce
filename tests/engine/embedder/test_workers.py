"""Tests for engine.embedder.workers."""

from __future__ import annotations

import threading
import time

import pytest

from engine.embedder.workers import at_once


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_every_batch_is_done_once(num_workers: int) -> None:
    done: list[int] = []

    at_once(num_workers, done.extend, [[0, 1], [2], [3]])

    assert sorted(done) == [0, 1, 2, 3]


def test_two_are_done_at_the_same_time() -> None:
    both = threading.Barrier(2)

    at_once(2, lambda _batch: both.wait(60) and None, [[0], [1]])

    assert not both.broken


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_failure_reaches_the_caller_and_what_was_not_begun_is_left(num_workers: int) -> None:
    begun: list[int] = []

    def work(batch: list[int]) -> None:
        begun.extend(batch)
        if batch == [0]:
            raise ValueError("the model is gone")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="is gone"):
        at_once(num_workers, work, [[number] for number in range(1000)])
    assert len(begun) < 1000
