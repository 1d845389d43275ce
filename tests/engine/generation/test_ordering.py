"""Tests for engine.generation.ordering."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from engine.generation.ordering import MAX_LOOKS, along_kept, follow_text, loss, spread
from tests.helpers.passages import passage

SCORES = [0.9, 0.8, 0.7, 0.6]
LENGTHS = [100, 100, 100, 100]


def kept(*paths):
    """What begins no passages, and an order extended by one more as long as it begins one of the paths."""

    def follow(order, passage, number):
        longer = (*order, passage)
        assert number == len(longer)
        return longer if any(path[:number] == longer for path in paths) else None

    return (), follow


def test_without_anything_kept_the_best_come_first():
    assert along_kept(SCORES, LENGTHS, *kept(), 1.0) == (0, 1, 2, 3)


def test_the_longest_kept_path_is_followed_and_the_rest_comes_best_first():
    assert along_kept(SCORES, LENGTHS, *kept((3,), (2, 1), (1, 3, 0)), 1.0) == (1, 3, 0, 2)


def test_what_has_to_be_read_anyway_comes_by_how_often_it_was_used():
    assert along_kept(SCORES, LENGTHS, *kept(), 1.0, [0, 3, 0, 5]) == (3, 1, 0, 2)
    assert along_kept(SCORES, LENGTHS, *kept((2,)), 1.0, [0, 3, 1, 5]) == (2, 3, 1, 0)


def test_what_was_used_often_comes_no_further_to_the_front_than_the_loss_allows():
    order = along_kept(SCORES, LENGTHS, *kept(), 0.02, [0, 0, 5, 9])
    assert order != (0, 1, 2, 3)
    assert 0 < loss(SCORES, order) <= 0.02
    assert along_kept(SCORES, LENGTHS, *kept(), 0.0, [0, 0, 5, 9]) == (0, 1, 2, 3)


def test_tokens_count_and_not_passages():
    assert along_kept(SCORES, [100, 50, 40, 500], *kept((0, 1, 2), (3,)), 1.0) == (3, 0, 1, 2)


def test_no_order_is_taken_that_costs_more_than_is_allowed():
    assert along_kept([1.0, 0.1], [100, 100], *kept((1, 0)), 0.1) == (0, 1)
    assert along_kept([1.0, 0.95], [100, 100], *kept((1, 0)), 0.1) == (1, 0)


def test_the_best_order_loses_nothing_and_the_worst_most():
    losses = [loss(SCORES, order) for order in permutations(range(4))]
    assert min(losses) == loss(SCORES, (0, 1, 2, 3)) == pytest.approx(0)
    assert max(losses) == loss(SCORES, (3, 2, 1, 0))


def test_scores_below_nothing_and_equal_scores_are_no_trouble():
    assert 0 < loss([2.0, -3.0], (1, 0)) < 1
    assert loss([0.0, 0.0], (1, 0)) == 0
    assert loss([], ()) == 0


def test_as_much_is_saved_as_any_allowed_order_could_save():
    chance = random.Random(5)
    for _ in range(60):
        scores = sorted((chance.random() for _ in range(4)), reverse=True)
        paths = [tuple(chance.sample(range(4), chance.randint(1, 4))) for _ in range(4)]
        beginnings = {path[:end] for path in paths for end in range(1, len(path) + 1)}
        allowed = [order for order in permutations(range(4)) if loss(scores, order) <= 0.1]

        def saved(order, beginnings=beginnings):
            return max(len(order[:n]) for n in range(5) if n == 0 or order[:n] in beginnings)

        assert saved(along_kept(scores, LENGTHS, *kept(*paths), 0.1)) == max(map(saved, allowed))


def test_looking_ends_however_much_is_kept():
    looks = []
    along_kept([1.0] * 12, [1] * 12, True, lambda *asked: bool(looks.append(asked)) or True, 1.0)
    assert len(looks) < MAX_LOOKS + 12


def test_nothing_is_looked_for_after_a_beginning_that_is_not_kept():
    assert along_kept(SCORES, LENGTHS, None, pytest.fail, 1.0, [0, 3, 0, 5]) == (3, 1, 0, 2)


def test_passages_of_one_document_in_the_order_of_its_text_are_to_be_read_so():
    first, second = (replace(passage("Bread.", start=place), ordinal=place) for place in (3, 7))
    other = replace(second, document_id=2)
    assert follow_text([first, second])
    # These were ranked.
    assert not follow_text([replace(first, score=2.0), second])
    assert not follow_text([second, first])
    assert not follow_text([first, other])
    assert not follow_text([])


def test_where_not_all_fit_they_are_spread_over_all():
    assert spread([10] * 4, 40) == (0, 1, 2, 3)
    assert spread([10] * 9, 30) == (0, 3, 6)
    assert spread([10, 90, 10, 10], 30) == (0, 2)
    assert spread([50], 10) == (0,)
    assert spread([], 10) == ()
