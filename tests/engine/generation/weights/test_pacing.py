"""Tests for engine.generation.weights.pacing."""

from __future__ import annotations

import random

import pytest

from engine.generation.weights.pacing import next_homes


@pytest.mark.parametrize("seed", range(30))
def test_stages_get_where_they_are_wanted_in_passes_that_are_all_bearable(seed: int) -> None:
    choice = random.Random(seed)
    num_stages = choice.randint(2, 80)
    homes = frozenset(stage for stage in range(num_stages) if choice.random() < choice.random())
    wanted = frozenset(stage for stage in range(num_stages) if choice.random() < choice.random())
    most_homes, most_streamed = max(len(homes), len(wanted)), num_stages - min(len(homes), len(wanted))
    for _ in range(200):
        if homes == wanted:
            break
        after = next_homes(homes, wanted, num_stages)
        assert len(after) <= most_homes
        new = len(after - homes)
        # Read in the next pass: what is streamed, and what is read into a home.
        assert num_stages - len(after) + new <= most_streamed + max(1, most_streamed / 4)
        assert len(after ^ wanted) < len(homes ^ wanted)
        homes = after
    assert homes == wanted


def test_memory_that_is_to_be_less_is_less_at_once() -> None:
    assert next_homes(range(20), range(5), 20) == frozenset(range(5))


def test_those_that_get_a_home_get_it_a_few_at_a_time_from_the_last_one_on() -> None:
    first = next_homes({0}, range(9), 9)
    assert first == {0, 7, 8}
    assert next_homes(first, range(9), 9) == {0, 6, 7, 8}


def test_nothing_moves_where_all_is_well() -> None:
    assert next_homes({0, 2}, {0, 2}, 4) == {0, 2}
