"""Tests for engine.memory.gangs: equations 6 to 8 of RAGDoll."""

from __future__ import annotations

import random

import pytest

from engine.memory.gangs import best_gang, gang_sizes, mean_latency


@pytest.mark.parametrize("num_gangs", [1, 2, 3, 7])
def test_the_mean_over_gangs_is_that_of_their_ends(num_gangs: int):
    # Eq. 6: the members of gang number i end after i gangs.
    ends = [3.0 * number for number in range(1, num_gangs + 1)]
    assert mean_latency(num_gangs, 3.0) == pytest.approx(sum(ends) / num_gangs)


@pytest.mark.parametrize("exponent", [0.2, 0.5, 0.58, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("num_gangs", [2, 3, 4, 8])
def test_one_gang_beats_k_where_seconds_grow_slowly_enough(exponent: float, num_gangs: int):
    # Eq. 7: with T = a · B^c, iff 2 · k^c ≤ k + 1.
    whole, part = 48.0**exponent, (48 / num_gangs) ** exponent
    is_better = mean_latency(1, whole) <= mean_latency(num_gangs, part)
    assert is_better == (2 * num_gangs**exponent <= num_gangs + 1)


def test_the_best_number_of_gangs_is_the_one_between_the_bounds_for_straight_costs():
    # Eq. 8: with T = α + β · B, k gangs are best iff k(k − 1)·α ≤ β·n ≤ k(k + 1)·α.
    rng = random.Random(8)
    for _ in range(200):
        fixed, each, num = rng.uniform(0.1, 5), rng.uniform(0.01, 1), 5040
        latency = {k: mean_latency(k, fixed + each * num / k) for k in range(1, 200)}
        best = min(latency, key=latency.__getitem__)
        if best < 199:
            assert best * (best - 1) * fixed <= each * num * (1 + 1e-9)
            assert each * num <= best * (best + 1) * fixed * (1 + 1e-9)


def test_streaming_makes_one_gang_of_all():
    # One gang while β·n ≤ 2·α.
    assert best_gang(16, 64, lambda size: 8.0 + 1.0 * size) == 16
    assert best_gang(16, 64, lambda size: 0.1 + 1.0 * size) < 4


def test_a_measured_cliff_is_not_stepped_over():
    # A kernel that takes twice as long from nine answers on: no fit would know.
    assert best_gang(16, 64, lambda size: 1.0 + 0.01 * size if size <= 8 else 3.0) == 8


def test_gangs_are_as_large_as_allowed_and_never_more_than_wait():
    assert gang_sizes(0, 8) == gang_sizes(1, 8) == (1,)
    assert gang_sizes(100, 8)[-1] == 8
    assert gang_sizes(6, 64) == (1, 2, 3, 6)


@pytest.mark.parametrize("num_waiting", [2, 7, 64, 500])
def test_few_sizes_are_looked_at_and_none_gains_much_between_them(num_waiting: int):
    sizes = gang_sizes(num_waiting, 64)
    assert len(sizes) <= 16
    assert sizes[0] == 1

    def seconds(size: int) -> float:
        return 5.0 + size

    every = min(mean_latency(-(-num_waiting // size), seconds(size)) for size in range(1, min(64, num_waiting) + 1))
    chosen = best_gang(num_waiting, 64, seconds)
    assert mean_latency(-(-num_waiting // chosen), seconds(chosen)) <= 1.06 * every
