"""Tests for engine.generation.fours: passes of few tokens are filled up where that was seen to be faster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.generation.fours import MOST_PAIRS, MOST_TRIED, PAIRS, PASSES_BETWEEN, Fours, num_to_fours


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(1, 0), (2, 0), (3, 1), (4, 0), (5, 0), (6, 2), (7, 1), (8, 0), (31, 1), (32, 0), (34, 0), (35, 1), (62, 2)],
)
def test_where_nothing_was_tried_a_batch_is_filled_up_where_that_pays_everywhere(
    num_tokens: int, expected: int
) -> None:
    assert num_to_fours(num_tokens, 32) == expected


def test_nothing_is_added_that_would_be_computed_by_itself() -> None:
    assert num_to_fours(7, 7) == 0
    assert num_to_fours(30, 30) == 0
    assert num_to_fours(29 + 30, 30) == 0
    assert Fours().num_to_add(7, 7) == 0


def computed(
    fours: Fours, num_tokens: int, seconds: Callable[[int], float], passes: int, cells: int = 100
) -> list[int]:
    """How many tokens were added in each of so many passes, which take so long by how many are computed."""
    added = []
    for _ in range(passes):
        added.append(fours.num_to_add(num_tokens, 128))
        fours.note(num_tokens, added[-1], cells, seconds(num_tokens + added[-1]))
    return added


def warm() -> Fours:
    """One whose first pass is over."""
    fours = Fours()
    fours.note(1, 3, 1, 9.0)
    return fours


def by_fours(num_tokens: int) -> float:
    """As measured with a 3B model: four take less than one."""
    return {1: 0.172, 2: 0.209, 4: 0.138, 5: 0.212, 8: 0.259}[num_tokens]


def one_by_one(num_tokens: int) -> float:
    return 0.05 * num_tokens


def test_both_ways_are_tried_and_the_faster_one_is_taken() -> None:
    fours = warm()
    assert computed(fours, 1, by_fours, 2 * PAIRS + 3) == [3, 0] * PAIRS + [3] * 3
    assert computed(fours, 2, by_fours, 2 * PAIRS + 3) == [2, 0] * PAIRS + [2] * 3
    assert computed(fours, 5, by_fours, 2 * PAIRS + 3) == [3, 0] * PAIRS + [0] * 3
    assert computed(warm(), 1, one_by_one, 2 * PAIRS + 3) == [3, 0] * PAIRS + [0] * 3


def test_what_takes_as_long_is_not_filled_up() -> None:
    assert computed(warm(), 2, lambda num_tokens: 0.1, 2 * PAIRS + 3)[2 * PAIRS :] == [0] * 3


def test_it_is_tried_again_after_many_passes() -> None:
    fours = warm()
    computed(fours, 1, by_fours, 2 * PAIRS)
    assert computed(fours, 1, one_by_one, PASSES_BETWEEN) == [3] * PASSES_BETWEEN
    assert computed(fours, 1, one_by_one, 2 * PAIRS + 1) == [3, 0] * PAIRS + [0]


def test_a_pass_that_was_held_up_decides_nothing() -> None:
    fours = warm()
    held_up = iter([9.0])
    computed(fours, 1, lambda num_tokens: next(held_up, by_fours(num_tokens)), 2 * PAIRS)
    assert fours.num_to_add(1, 128) == 3


def test_passes_that_looked_at_other_lengths_are_not_compared() -> None:
    fours = warm()
    for _ in range(MOST_PAIRS):
        assert fours.is_trying(1)
        fours.note(1, 3, 100, 0.138)
        fours.note(1, 0, 4000, 0.5)
    # Nothing was compared, and that is given up.
    assert not fours.is_trying(1)
    assert fours.num_to_add(1, 128) == num_to_fours(1, 128) == 0


def test_one_pair_more_is_compared_for_one_that_was_not() -> None:
    fours = warm()
    fours.note(1, 3, 100, 0.138)
    fours.note(1, 0, 4000, 0.5)
    assert computed(fours, 1, by_fours, 2 * PAIRS + 1) == [3, 0] * PAIRS + [3]


def test_passes_that_are_not_noted_go_by_what_is_known() -> None:
    fours = warm()
    assert [fours.num_to_add(1, 128, may_try=False) for _ in range(3)] == [num_to_fours(1, 128)] * 3
    computed(fours, 1, by_fours, 2 * PAIRS)
    assert fours.num_to_add(1, 128, may_try=False) == 3


def test_of_the_first_pass_nothing_is_learnt() -> None:
    assert computed(Fours(), 1, by_fours, 1 + 2 * PAIRS) == [3] + [3, 0] * PAIRS


def test_larger_batches_are_not_tried() -> None:
    assert computed(Fours(), MOST_TRIED + 1, one_by_one, 3) == [0] * 3
    assert computed(Fours(), MOST_TRIED + 3, one_by_one, 3) == [1] * 3
