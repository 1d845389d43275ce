"""Tests for engine.memory.concessions."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest

from engine.memory.concessions import LEAST_SPEEDUP, conceding
from engine.memory.demand import Backlog, Budgets, Demand, Wishes, losing_nothing
from engine.memory.placement import Placement
from engine.memory.planner import plan
from engine.memory.room import room_of
from tests.helpers import machines
from tests.helpers.machines import DESKTOP, GIB, MIB, MODELS, machine, wanted

HARDWARE = machine(0, 16)
THREE_BILLION = MODELS[0]
# What helps differs within a hundred MiB.
BUDGETS = (*range(1100 * MIB, 1300 * MIB, 10 * MIB), *range(1300 * MIB, 4 * GIB, 100 * MIB))
TOO_LITTLE = 200 * MIB


def placed(demand: Demand, hardware=HARDWARE) -> Placement:
    return conceding(partial(plan, hardware, DESKTOP, Backlog()), demand)


def within(budget_bytes: int, *, may_lose: bool, **changes: object) -> Demand:
    wishes = Wishes(may_lose=may_lose)
    return wanted(THREE_BILLION, budgets=Budgets(None, budget_bytes), wishes=wishes, **changes)


def test_a_model_that_has_room_loses_nothing_whatever_is_allowed():
    roomy = [budget for budget in BUDGETS if not placed(within(budget, may_lose=False)).is_starved]
    assert roomy
    for budget in roomy:
        lossless = plan(HARDWARE, DESKTOP, Backlog(), within(budget, may_lose=False))
        assert placed(within(budget, may_lose=True)) == placed(within(budget, may_lose=False)) == lossless
        assert (lossless.num_concessions, lossless.offer) == (0, "")


def test_where_nothing_is_allowed_the_placement_says_what_it_would_give():
    offers = {budget: placed(within(budget, may_lose=False)).offer for budget in BUDGETS}
    offered = [budget for budget, offer in offers.items() if offer]
    assert offered
    for budget in offered:
        demand = within(budget, may_lose=False)
        assert replace(placed(demand), offer="") == plan(HARDWARE, DESKTOP, Backlog(), demand)
        assert offers[budget].startswith("With keys and values in 8 bits")
        assert offers[budget].endswith(".")
        assert " streamed" in offers[budget]


def test_what_is_allowed_is_taken_as_far_as_it_is_needed_and_told():
    concessions = []
    for budget in BUDGETS:
        asking, taking = placed(within(budget, may_lose=False)), placed(within(budget, may_lose=True))
        assert taking.is_starved == (asking.is_starved and not asking.offer), budget
        if asking.offer:
            assert taking.ram_bytes <= room_of(HARDWARE, within(budget, may_lose=True)).ram_bytes
            assert taking.kv_type == "q8_0"
            assert "For want of memory, that is with keys and values in 8 bits" in taking.sentence
            assert taking.offer == ""
            # What the offer promised.
            assert taking.sentence.partition(" For want")[0] in asking.offer
        concessions.append(taking.num_concessions)
    # More memory never costs more.
    assert concessions == sorted(concessions, reverse=True)
    assert {0, 1, 2} <= set(concessions)


def test_a_smaller_context_is_told_in_tokens():
    small = next(
        placement for budget in BUDGETS if (placement := placed(within(budget, may_lose=True))).num_concessions == 2
    )
    assert "a context of 1,024 tokens instead of 8,192." in small.sentence
    assert small.num_cells == small.context_tokens == 1024


def test_keys_and_values_that_cannot_be_had_in_8_bits_stay_as_they_are():
    told = [placed(within(budget, may_lose=False, can_quantise_kv=False)).offer for budget in BUDGETS]
    assert any(told)
    assert not any("8 bits" in offer for offer in told)


def test_where_nothing_helps_nothing_is_offered_and_what_is_lost_stays_lost():
    asking, taking = (placed(within(TOO_LITTLE, may_lose=may_lose)) for may_lose in (False, True))
    assert asking == plan(HARDWARE, DESKTOP, Backlog(), losing_nothing(within(TOO_LITTLE, may_lose=False)))
    # Else a shortage that grew would bring all keys and values back at once.
    assert (taking.kv_type, taking.num_cells, taking.is_starved) == ("q8_0", 1024, True)


def test_what_no_layer_can_be_streamed_of_loses_something_only_to_lie_in_memory():
    for budget in BUDGETS:
        asking, taking = (placed(within(budget, may_lose=lose, is_streamable=False)) for lose in (False, True))
        assert bool(asking.offer) == bool(taking.num_concessions) == (asking.is_starved and not taking.is_starved)
        assert taking.is_mapped == taking.is_starved


def test_a_mixture_of_experts_that_is_nearly_in_memory_loses_nothing_for_the_rest():
    experts = replace(THREE_BILLION, expert_share=0.9, expert_use=0.06)
    starved = 0
    for budget in range(2 * GIB, 4 * GIB, 50 * MIB):
        wishes = Wishes(may_lose=True)
        demand = wanted(experts, budgets=Budgets(None, budget), wishes=wishes, is_streamable=False)
        lossless, taking = plan(HARDWARE, DESKTOP, Backlog(), losing_nothing(demand)), placed(demand)
        starved += lossless.is_starved
        if taking.num_concessions:
            assert lossless.prediction.latency_s >= LEAST_SPEEDUP * taking.prediction.latency_s
    assert starved


def test_what_has_room_is_planned_once_and_what_nothing_helps_twice():
    for budget, times in ((8 * GIB, 1), (TOO_LITTLE, 2)):
        asked: list[Demand] = []

        def counted(demand: Demand, asked: list[Demand] = asked) -> Placement:
            asked.append(demand)
            return plan(HARDWARE, DESKTOP, Backlog(), demand)

        conceding(counted, within(budget, may_lose=False))
        assert len(asked) == times


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_a_concession_that_helps_keeps_to_what_there_is(start: int):
    for seed in range(start, start + 30):
        chance = random.Random(seed)
        demand = machines.random_demand(chance, machines.random_shape(chance))
        demand = replace(demand, budgets=machines.random_budgets(chance), wishes=replace(demand.wishes, may_lose=True))
        hardware = machines.random_machine(chance)
        placement, room = placed(demand, hardware), room_of(hardware, demand)
        if placement.num_concessions and not placement.is_starved:
            assert placement.ram_bytes <= room.ram_bytes, seed
            assert placement.gpu_bytes <= room.gpu_bytes, seed
