"""Tests for engine.generation.load_planner: the values that a load is planned with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import Settings
from engine.core import Span
from engine.generation import load_plan, load_planner
from engine.generation.load_planner import LoadPlanner
from engine.generation.load_trials import LoadTrials
from engine.generation.shared_resources import MORE_ROOM_BYTES, SharedResources
from engine.memory.demand import BOUND_TO_COME, SPARE_OWNER, Demand
from engine.memory.ladder import Rung
from engine.memory.ledger import Ledger

MIB = 2**20


@pytest.fixture
def planner(tmp_path: Path) -> LoadPlanner:
    shared = SharedResources(tmp_path / "kv", Ledger(), LoadTrials(tmp_path / "trials.json"))
    return LoadPlanner(Settings, tmp_path, shared)


def test_weights_are_planned_to_leave_only_for_turns_and_only_where_they_lie_as_in_the_file(planner, tiny_model):
    assert not planner.plan(tiny_model, None).demand.wishes.can_leave
    planner.takes_turns = True
    assert not planner.plan(tiny_model, None).demand.wishes.can_leave
    planner.shared.left_in_order.add(tiny_model)
    plan = planner.plan(tiny_model, None)
    assert plan.demand.wishes.can_leave
    assert plan.placement.can_leave
    assert not planner.another().plan(tiny_model, None).demand.wishes.can_leave
    assert not planner.another().demand(plan).wishes.can_leave


def test_a_model_computes_on_as_many_cores_as_this_process_may_use(planner, tiny_model, monkeypatch):
    monkeypatch.setattr(load_plan, "physical_cores", lambda: 3)
    assert planner.plan(tiny_model, None).spec.num_threads == 3


def test_what_could_not_be_packed_is_not_planned_so_again(planner, tiny_model):
    assert planner.plan(tiny_model, None).demand.is_packable
    planner.shared.not_packed[tiny_model] = None
    assert not planner.plan(tiny_model, None).demand.is_packable


def test_what_the_disk_had_no_room_for_is_packed_once_there_is_more(planner, tiny_model, monkeypatch):
    free = planner.hardware().disk_free_bytes
    planner.shared.not_packed[tiny_model] = free

    def is_packable(free_bytes: int) -> bool:
        looked_at = replace(planner.hardware(), disk_free_bytes=free_bytes)
        monkeypatch.setattr(load_planner, "probe", lambda folder, devices: looked_at)
        return planner.plan(tiny_model, None).demand.is_packable

    assert not is_packable(free)
    assert not is_packable(free + MORE_ROOM_BYTES - 1)
    assert is_packable(free + MORE_ROOM_BYTES)


def test_what_the_disk_had_no_room_for_is_tried_again_when_somebody_wants_it(planner, tiny_model, tmp_path):
    never = tmp_path / "never.gguf"
    planner.shared.not_packed |= {tiny_model: 2**60, never: None}
    assert not planner.plan(tiny_model, None).demand.is_packable
    planner.shared.reset_failures(tiny_model)
    assert planner.plan(tiny_model, None).demand.is_packable
    assert planner.shared.not_packed == {never: None}


def test_what_could_not_be_copied_to_a_device_is_not_planned_so_again(planner, tiny_model):
    assert planner.plan(tiny_model, None).demand.can_copy_streamed
    planner.shared.not_copied.add(tiny_model)
    assert not planner.plan(tiny_model, None).demand.can_copy_streamed


def test_what_is_bound_to_come_takes_of_the_room_until_it_is_there(planner, tiny_model):
    plan, ledger = planner.plan(tiny_model, None), planner.shared.ledger

    def beside(demand: Demand) -> Demand:
        coming = (Span("runtime", "libraries", "ram", 100 * MIB, "resident"),)
        return replace(demand, fixed=coming, budgets=replace(demand.budgets, ram_bytes=300 * MIB))

    planner.beside = beside
    assert planner.room_bytes(plan) == 200 * MIB
    lease = ledger.take("runtime", "libraries", "ram", 60 * MIB)
    assert planner.room_bytes(plan) == 200 * MIB
    lease.resize(150 * MIB)
    assert planner.room_bytes(plan) == 150 * MIB


def test_what_is_bound_to_come_and_finds_no_room_takes_none_of_it(planner, tiny_model):
    plan, ledger, coming_bytes = planner.plan(tiny_model, None), planner.shared.ledger, [200 * MIB]

    def beside(demand: Demand) -> Demand:
        coming = (Span("reranker", BOUND_TO_COME, "ram", coming_bytes[0]),)
        return replace(demand, fixed=coming, budgets=replace(demand.budgets, ram_bytes=300 * MIB))

    planner.beside = beside
    assert planner.room_bytes(plan) == 100 * MIB
    coming_bytes[0] = 400 * MIB
    assert planner.room_bytes(plan) == 300 * MIB
    # Weights of others that wait would leave for it.
    ledger.take(SPARE_OWNER, "layers", "ram", 150 * MIB, is_counted=False)
    coming_bytes[0] = 250 * MIB
    assert planner.room_bytes(plan) == -100 * MIB


def test_a_model_is_placed_anew_without_what_is_done_without_now_and_not_when_it_was_loaded(planner, tiny_model):
    tree, cells = Rung("gpu", "fewer_cells", "", "", 512), Rung("ram", "tree_to_ram", "", "")
    told, now = (tree,), (cells,)
    plan = replace(planner.plan(tiny_model, None), given_up=told)
    assert planner.placed_again(plan).given_up == planner.as_of_now(plan).given_up == told
    asked = []
    planner.done_without = lambda given_up: (asked.append(given_up), now)[1]
    assert planner.placed_again(plan).given_up is planner.as_of_now(plan).given_up is now
    assert asked == [told, told]
    # A shortage for the chosen model concerns only that model.
    assert planner.another().as_of_now(plan).given_up == told
