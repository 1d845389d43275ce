"""Tests for engine.generation.in_force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.config import GIB, Settings
from engine.generation.in_force import InForce
from engine.generation.load_plan import plan_load
from engine.memory.hardware import Hardware


def machine(ram_free: float = 8.0) -> Hardware:
    return Hardware(16 * GIB, int(ram_free * GIB), 100 * GIB, 50 * GIB, 0)


def settings(**generation: Any) -> Settings:
    return Settings.model_validate({"generation": generation})


@pytest.fixture
def in_force(tiny_model: Path) -> InForce:
    return InForce(plan_load(tiny_model, settings(kv_ram_bytes=1000), machine(), None), has_own_layers=False)


def test_what_a_context_is_made_with_waits_for_the_next_load_and_says_so(in_force):
    assert in_force.pending(settings(kv_ram_bytes=7, temperature=0.9)) == ""
    sentence = in_force.pending(settings(kv_type="q8_0", parallel_answers=2, n_ubatch=64))
    assert sentence.startswith("Changed in the settings, and in force once the model is loaded again: ")
    assert sentence.endswith("answers at once, the format of keys and values, tokens between two chances to stop.")
    assert in_force.pending(in_force.plan.settings) == ""


def test_layers_that_were_chosen_for_this_model_do_not_wait_for_those_of_the_settings(in_force):
    chosen = InForce(in_force.plan, has_own_layers=True)
    assert "layers on the GPU" in in_force.pending(settings(n_gpu_layers=3))
    assert chosen.pending(settings(n_gpu_layers=3)) == ""


def test_memory_kept_free_on_the_gpu_waits_for_the_next_load(in_force):
    assert "kept free" in in_force.pending(Settings.model_validate({"memory": {"device_reserve_bytes": 1}}))


def test_bounds_that_did_not_change_are_left_alone_and_nothing_is_measured(in_force):
    assert in_force.bounds(settings(kv_ram_bytes=1000, top_k=3), lambda: pytest.fail("measured")) is None


def test_a_bound_that_is_left_to_the_machine_stays_when_the_other_changes(in_force):
    by_machine = in_force.plan.room.disk_bytes
    room = in_force.bounds(settings(kv_ram_bytes=2000), lambda: machine(ram_free=1))
    assert (room.ram_bytes, room.disk_bytes) == (2000, by_machine)


def test_a_bound_that_is_given_back_to_the_machine_is_measured_anew(in_force):
    room = in_force.bounds(settings(), lambda: machine(ram_free=4))
    assert room.ram_bytes == GIB
    assert in_force.bounds(settings(), lambda: pytest.fail("measured")) is None


def test_a_placement_that_was_planned_by_the_settings_puts_them_in_force(in_force):
    now = settings(kv_ram_bytes=1000, n_ubatch=64, num_threads=2)
    in_force.note_placed(in_force.plan, None)
    assert "tokens between two chances to stop" in in_force.pending(now)
    in_force.note_placed(in_force.plan, now)
    assert in_force.pending(now).endswith("once the model is loaded again: threads.")
    # In another placement the settings that are in force remain so.
    in_force.note_placed(in_force.plan, now)
    assert in_force.pending(now).endswith("once the model is loaded again: threads.")


def test_bounds_of_a_placement_are_kept_where_the_settings_leave_them_to_the_machine(in_force):
    placement = replace(in_force.plan.placement, kv_ram_bytes=77, kv_disk_bytes=88)
    in_force.note_placed(in_force.plan.placed(placement), settings())
    assert in_force.bounds(settings(), lambda: pytest.fail("measured")) is None
    room = in_force.bounds(settings(kv_disk_bytes=5), machine)
    assert (room.ram_bytes, room.disk_bytes) == (77, 5)
