"""Tests for engine.generation.batch_padding: passes of few tokens are filled up where that was seen to be faster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.generation.batch_padding import MOST_PAIRS, MOST_TRIED, PAIRS, PASSES_BETWEEN, BatchPadding, default_padding


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(1, 0), (2, 0), (3, 1), (4, 0), (5, 0), (6, 2), (7, 1), (8, 0), (31, 1), (32, 0), (34, 0), (35, 1), (62, 2)],
)
def test_where_nothing_was_tried_a_batch_is_filled_up_where_that_pays_everywhere(
    num_tokens: int, expected: int
) -> None:
    assert default_padding(num_tokens, 32) == expected


def test_nothing_is_added_that_would_be_computed_by_itself() -> None:
    assert default_padding(7, 7) == 0
    assert default_padding(30, 30) == 0
    assert default_padding(29 + 30, 30) == 0
    assert BatchPadding().num_to_add(7, 7) == 0


def computed(
    padding: BatchPadding, num_tokens: int, seconds: Callable[[int], float], passes: int, cells: int = 100
) -> list[int]:
    """How many tokens were added in each of these passes, whose times depend on how many tokens are computed."""
    added = []
    for _ in range(passes):
        added.append(padding.num_to_add(num_tokens, 128))
        padding.note(num_tokens, added[-1], cells, seconds(num_tokens + added[-1]))
    return added


def warm() -> BatchPadding:
    """A padding whose first pass is over."""
    padding = BatchPadding()
    padding.note(1, 3, 1, 9.0)
    return padding


def by_fours(num_tokens: int) -> float:
    """As measured with a 3B model: four take less than one."""
    return {1: 0.172, 2: 0.209, 4: 0.138, 5: 0.212, 8: 0.259}[num_tokens]


def one_by_one(num_tokens: int) -> float:
    return 0.05 * num_tokens


def test_both_ways_are_tried_and_the_faster_one_is_taken() -> None:
    padding = warm()
    assert computed(padding, 1, by_fours, 2 * PAIRS + 3) == [3, 0] * PAIRS + [3] * 3
    assert computed(padding, 2, by_fours, 2 * PAIRS + 3) == [2, 0] * PAIRS + [2] * 3
    assert computed(padding, 5, by_fours, 2 * PAIRS + 3) == [3, 0] * PAIRS + [0] * 3
    assert computed(warm(), 1, one_by_one, 2 * PAIRS + 3) == [3, 0] * PAIRS + [0] * 3


def test_what_takes_as_long_is_not_filled_up() -> None:
    assert computed(warm(), 2, lambda num_tokens: 0.1, 2 * PAIRS + 3)[2 * PAIRS :] == [0] * 3


def test_it_is_tried_again_after_many_passes() -> None:
    padding = warm()
    computed(padding, 1, by_fours, 2 * PAIRS)
    assert computed(padding, 1, one_by_one, PASSES_BETWEEN) == [3] * PASSES_BETWEEN
    assert computed(padding, 1, one_by_one, 2 * PAIRS + 1) == [3, 0] * PAIRS + [0]


def test_a_pass_that_was_held_up_decides_nothing() -> None:
    padding = warm()
    held_up = iter([9.0])
    computed(padding, 1, lambda num_tokens: next(held_up, by_fours(num_tokens)), 2 * PAIRS)
    assert padding.num_to_add(1, 128) == 3


def test_passes_that_looked_at_other_lengths_are_not_compared() -> None:
    padding = warm()
    for _ in range(MOST_PAIRS):
        assert padding.is_trying(1)
        padding.note(1, 3, 100, 0.138)
        padding.note(1, 0, 4000, 0.5)
    # Nothing was compared, so padding is given up.
    assert not padding.is_trying(1)
    assert padding.num_to_add(1, 128) == default_padding(1, 128) == 0


def test_one_pair_more_is_compared_for_one_that_was_not() -> None:
    padding = warm()
    padding.note(1, 3, 100, 0.138)
    padding.note(1, 0, 4000, 0.5)
    assert computed(padding, 1, by_fours, 2 * PAIRS + 1) == [3, 0] * PAIRS + [3]


def test_passes_that_are_not_noted_go_by_what_is_known() -> None:
    padding = warm()
    assert [padding.num_to_add(1, 128, may_try=False) for _ in range(3)] == [default_padding(1, 128)] * 3
    computed(padding, 1, by_fours, 2 * PAIRS)
    assert padding.num_to_add(1, 128, may_try=False) == 3


def test_of_the_first_pass_nothing_is_learnt() -> None:
    assert computed(BatchPadding(), 1, by_fours, 1 + 2 * PAIRS) == [3] + [3, 0] * PAIRS


def test_larger_batches_are_not_tried() -> None:
    assert computed(BatchPadding(), MOST_TRIED + 1, one_by_one, 3) == [0] * 3
    assert computed(BatchPadding(), MOST_TRIED + 3, one_by_one, 3) == [1] * 3
