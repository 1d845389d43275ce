"""Tests for app.widgets.memory_scale."""

from __future__ import annotations

import itertools

import pytest

from app.widgets.memory_scale import KNEE, Scale, scale_for

GIB = 2**30


def test_a_tier_that_is_well_filled_is_linear():
    scale = scale_for(4 * GIB, 8 * GIB)
    assert not scale.has_knee
    assert scale.fraction(2 * GIB) == pytest.approx(0.25)


def test_a_large_tier_is_compressed_beyond_what_is_held():
    scale = scale_for(3 * GIB, 500 * GIB)
    assert scale.has_knee
    assert 0.3 < scale.fraction(3 * GIB) < KNEE
    assert scale.fraction(500 * GIB) == pytest.approx(1.0)


@pytest.mark.parametrize(("held", "capacity"), [(0, 8), (1, 8), (3, 500), (500, 500), (7, 4)])
def test_more_bytes_are_never_further_left(held, capacity):
    scale = scale_for(held * GIB, capacity * GIB)
    places = [scale.fraction(share * capacity * GIB / 50) for share in range(51)]
    assert all(left <= right for left, right in itertools.pairwise(places))
    assert (places[0], scale.fraction(scale.capacity_bytes)) == (0.0, pytest.approx(1.0))


def test_the_scale_stays_while_bytes_come_and_go():
    scale = scale_for(3 * GIB, 500 * GIB)
    for held in (3.2, 4, 6, 5, 2, 1.5):
        assert scale_for(round(held * GIB), 500 * GIB, scale) is scale


def test_the_scale_changes_when_it_no_longer_does():
    scale = scale_for(3 * GIB, 500 * GIB)
    assert scale_for(100 * GIB, 500 * GIB, scale).linear_bytes > scale.linear_bytes
    assert scale_for(GIB // 8, 500 * GIB, scale).linear_bytes < scale.linear_bytes
    assert scale_for(3 * GIB, 100 * GIB, scale).capacity_bytes == 100 * GIB


def test_ticks_are_round_and_end_with_the_capacity():
    ticks = Scale(24 * GIB, 24 * GIB).ticks()
    assert ticks[0] == 0
    assert ticks[-1] == 24 * GIB
    assert all(tick & (tick - 1) == 0 or tick % (4 * GIB) == 0 for tick in ticks[1:-1])
    assert 3 <= len(ticks) <= 8
