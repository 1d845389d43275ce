"""Tests for engine.retrieval.cost and engine.retrieval.batching."""

from __future__ import annotations

import random

import pytest

from engine.partitions.rows import Sweep
from engine.retrieval.batching import LARGEST_BATCH, MAX_BATCH, SweepCosts
from engine.retrieval.cost import CostModel, queries_within


def learnt(fixed: float, load: float, query: float, *, count: int, noise: float = 0.0, seed: int = 1) -> CostModel:
    """A model that has seen `count` sweeps of a machine with these costs, in seconds."""
    rng, model = random.Random(seed), CostModel()
    for _ in range(count):
        loads, queries = rng.randrange(11), rng.choice([1, 2, 8, 32])
        seconds = (fixed + load * loads + query * queries) * (1.0 + rng.uniform(-noise, noise))
        model = model.observed(loads, queries, seconds)
    return model


def test_the_first_guess_is_what_was_measured():
    assert CostModel().predict(loads=10, queries=1) == pytest.approx(0.020 + 0.099 + 0.00071)


def test_the_costs_of_a_machine_are_learnt():
    model = learnt(0.050, 0.030, 0.002, count=100, noise=0.1)
    assert model.fixed_seconds == pytest.approx(0.050, rel=0.3)
    assert model.load_seconds == pytest.approx(0.030, rel=0.1)
    assert model.query_seconds == pytest.approx(0.002, rel=0.15)
    assert model.predict(5, 16) == pytest.approx(0.232, rel=0.1)


def test_a_change_is_followed():
    model = learnt(0.020, 0.010, 0.0007, count=200)
    for _ in range(150):
        model = model.observed(0, 1, 0.004).observed(4, 32, 0.044)
    assert model.predict(0, 1) == pytest.approx(0.004, abs=0.002)
    assert model.predict(4, 32) == pytest.approx(0.044, rel=0.1)


def test_no_cost_ever_becomes_negative():
    rng, model = random.Random(3), CostModel()
    for _ in range(300):
        model = model.observed(rng.randrange(3), rng.randrange(1, 40), rng.uniform(0.0, 0.01))
        assert min(model.fixed_seconds, model.load_seconds, model.query_seconds) >= 0.0


def test_one_sweep_during_which_the_machine_slept_spoils_nothing():
    model = learnt(0.020, 0.010, 0.0007, count=50)
    assert model.observed(2, 4, 3600.0).predict(2, 4) < 1.0


def test_sweeps_that_are_all_alike_do_not_blow_up_the_model():
    model = CostModel()
    for _ in range(5000):
        model = model.observed(0, 1, 0.010)
    assert model.predict(0, 1) == pytest.approx(0.010, rel=0.05)
    assert 0.0 <= model.observed(10, 64, 0.2).predict(10, 64) < 1.0


def test_a_batch_is_as_large_as_the_time_allows():
    model = CostModel(0.02, 0.01, 0.001)
    assert queries_within(model, loads=3, seconds=0.25, least=32, most=256) == 200
    assert queries_within(model, loads=40, seconds=0.25, least=32, most=256) == 32
    assert queries_within(CostModel(0.02, 0.01, 0.0), loads=0, seconds=0.25, least=32, most=256) == 256
    assert queries_within(CostModel(0.5, 0.01, 0.0), loads=0, seconds=0.25, least=32, most=256) == 32


def test_a_fast_index_takes_large_batches_and_a_slow_one_small_ones():
    fast, slow = SweepCosts(), SweepCosts()
    for _ in range(60):
        for queries in (1, 32):
            fast.note(Sweep(0, queries, 4, 0, 0.001 + 0.0001 * queries))
            slow.note(Sweep(20, queries, 40, 0, 0.4 + 0.004 * queries))
    assert fast.batch_size() == LARGEST_BATCH
    assert slow.batch_size() == MAX_BATCH


def test_the_counters_are_in_milliseconds():
    assert SweepCosts().counters() == pytest.approx(
        {"sweep_fixed_ms": 20.0, "sweep_load_ms": 9.9, "sweep_query_ms": 0.71}
    )


def test_what_was_learnt_before_a_restart_is_known():
    known = CostModel(0.1, 2.5, 0.001)
    costs = SweepCosts(known)
    assert costs.predict(4, 1) == known.predict(4, 1)
    # A slow disk is no surprise then.
    costs.note(Sweep(4, 1, 8, 0, 10.1))
    assert costs.predict(4, 1) == pytest.approx(10.1, rel=1e-3)


def test_what_the_sweep_of_a_look_takes_says_nothing_of_those_that_somebody_waits_for():
    costs = SweepCosts()
    costs.note(Sweep(0, 1, 4, 0, 9.0, is_bounded=True))
    assert costs.predict(0, 1) == SweepCosts().predict(0, 1)
