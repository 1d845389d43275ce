"""Tests for engine.generation.candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.generation.candidates import Candidates


def listed(found: Any) -> dict[int, float]:
    """The logits of the tokens in a list, by token id."""
    return {found.data[place].id: found.data[place].logit for place in range(found.size)}


@pytest.mark.parametrize("count", [1, 5, 40])
def test_the_likeliest_are_found_whatever_becomes_of_some_others(count: int):
    chance = np.random.default_rng(count)
    candidates = Candidates(4_001)
    for _ in range(20):
        logits = chance.normal(size=4_001).astype(np.float32)
        others = [int(token) for token in chance.choice(4_001, 30, replace=False)]
        found = candidates.best(logits, count, others)
        ids = {found.data[place].id for place in range(found.size)}
        assert len(ids) == found.size < 300
        assert all(found.data[place].logit == logits[found.data[place].id] for place in range(found.size))
        for change in (-100, 100):
            changed = logits.copy()
            changed[others] += change
            assert set(np.argsort(changed)[-count:].tolist()) <= ids


def test_the_likeliest_of_all_is_found_alone() -> None:
    logits = np.array([0.5, 3.0, 3.0, -1.0], np.float32)
    assert listed(Candidates(4).best(logits, 1, ())) == {1: 3.0}


@pytest.mark.parametrize(("count", "others"), [(40, ()), (1, range(40))])
def test_of_few_tokens_all_are_given(count: int, others: Any) -> None:
    logits = np.arange(320, dtype=np.float32)
    assert listed(Candidates(320).best(logits, count, others)) == {token: float(token) for token in range(320)}


def test_a_list_holds_what_it_was_filled_with_last() -> None:
    candidates = Candidates(3)
    candidates.all(np.array([1.0, 2.0, 3.0], np.float32))
    again = candidates.all(np.array([4.0, 5.0, 6.0], np.float32))
    assert listed(again) == {0: 4.0, 1: 5.0, 2: 6.0}
    assert (again.selected, again.sorted) == (-1, False)
