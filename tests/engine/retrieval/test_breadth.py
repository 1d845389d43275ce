"""Tests for engine.retrieval.breadth."""

from __future__ import annotations

import pytest

from engine.retrieval.breadth import Breadth, LookCosts, breadths, broadest, first_stage


def sweep(loads: int, queries: int) -> float:
    return 0.01 + 0.1 * loads + 0.001 * queries


def test_the_steps_go_from_few_candidates_in_memory_to_everything():
    assert breadths(40, 5, can_rerank=True) == (
        Breadth(10, 0),
        Breadth(40, 0),
        Breadth(40, 1),
        Breadth(40, 2),
        Breadth(40, 4),
        Breadth(40, 5),
        Breadth(40, 5, reranks=True),
    )


def test_where_all_is_in_memory_the_steps_are_few():
    assert breadths(40, 0, can_rerank=False) == (Breadth(10, 0), Breadth(40, 0))


def test_the_last_step_reads_every_partition_however_many_there_are():
    assert breadths(40, 3000, can_rerank=False)[-1].max_loads == 3000


@pytest.mark.parametrize(("seconds", "loads"), [(0.0, 0), (0.05, 0), (0.15, 1), (0.42, 4), (10.0, 5)])
def test_the_broadest_search_is_taken_that_ends_in_time(seconds: float, loads: int):
    steps = breadths(40, 5, can_rerank=False)
    assert broadest(steps, lambda step: sweep(step.max_loads, 1), seconds).max_loads == loads


@pytest.mark.parametrize(
    ("num_cold", "can_rerank", "is_staged"), [(0, False, False), (1, False, False), (5, False, True), (0, True, True)]
)
def test_a_search_has_a_first_stage_where_the_whole_takes_much_longer(num_cold: int, can_rerank: bool, is_staged: bool):
    costs = LookCosts(sweep)
    stage = first_stage(breadths(40, num_cold, can_rerank), costs.predict)
    assert stage == (Breadth(40, 0) if is_staged else None)


def test_what_no_sweep_accounts_for_is_learnt():
    costs = LookCosts(sweep)
    for _ in range(60):
        costs.note(Breadth(40, 2), 1, 0.2 + sweep(2, 1))
    assert costs.predict(Breadth(40, 0)) == pytest.approx(0.2 + sweep(0, 1), abs=1e-3)
    assert costs.expected() == pytest.approx(0.2 + sweep(2, 1), abs=1e-3)


def test_what_the_cross_encoder_takes_is_learnt_apart():
    costs = LookCosts(sweep)
    plain = costs.predict(Breadth(40, 0))
    for _ in range(60):
        costs.note(Breadth(40, 0, reranks=True), 1, plain + 2.0)
    assert costs.predict(Breadth(40, 0)) == plain
    assert costs.predict(Breadth(40, 0, reranks=True)) == pytest.approx(plain + 2.0, abs=1e-3)
