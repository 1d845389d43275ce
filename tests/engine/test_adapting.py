"""Tests for engine.adapting."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from engine.config import GIB, MIB, MemorySettings, Settings
from engine.core import ModelShape
from engine.events import ModelStateChanged, ModelSwitched, PlacementSettled
from engine.memory.demand import Backlog
from engine.memory.placement import Placement
from engine.memory.pressure import Stalls
from tests.helpers.scripted_machine import PARTITION_BYTES, PARTITIONS, ScriptedMachine

SHORT = Stalls(some=0.3, is_own=True)


def test_a_machine_where_nothing_changes_is_left_alone():
    machine = ScriptedMachine()
    machine.run(300)
    assert machine.applied == []
    assert machine.index_bytes == PARTITIONS * PARTITION_BYTES
    assert machine.sentences("given_up", "refused", "failure", "budget") == []


def test_a_lower_budget_is_kept_to_within_one_look():
    machine = ScriptedMachine()
    machine.run(10)
    before = machine.placement
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(2)
    assert machine.placement is not before
    assert machine.placement.ram_bytes <= 3 * GIB
    assert machine.ledger.held_bytes("ram") <= 3 * GIB
    assert machine.sentences("budget") == ["Ragdoll may hold 3.0 GiB in memory."]
    machine.run(2)
    assert machine.sentences("placement")[-1].startswith("There is less for Ragdoll in memory: 3.0 GiB instead of")


def test_a_budget_that_is_given_back_brings_everything_back():
    machine = ScriptedMachine()
    machine.run(10)
    before = machine.placement
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(60)
    machine.allow(ram_budget_bytes=None)
    machine.run(60)
    assert replace(machine.placement, sentence="", prediction=before.prediction) == replace(before, sentence="")
    assert machine.index_bytes == PARTITIONS * PARTITION_BYTES


def test_what_is_held_beyond_a_budget_is_blamed_on_the_budget_and_not_on_the_system():
    machine = ScriptedMachine(backlog=Backlog(waiting=3, running=1))
    machine.run(10)
    machine.allow(ram_budget_bytes=6 * GIB)
    machine.run(10)
    machine.ledger.take("parsers", "a file that takes all there is", "ram", 6 * GIB)
    machine.run(20)
    said = machine.sentences("given_up")
    assert said
    assert all(sentence.startswith("More is held in memory than its budget allows. ") for sentence in said)


def test_what_nobody_has_entered_is_held_against_a_budget_as_well():
    machine = ScriptedMachine(backlog=Backlog(waiting=3, running=1))
    machine.allow(ram_budget_bytes=6 * GIB)
    machine.run(10)
    machine.unnamed_bytes = GIB
    machine.run(20)
    assert machine.sentences("given_up")


def test_pages_of_files_that_have_left_are_not_held_against_a_budget():
    machine = ScriptedMachine(backlog=Backlog(waiting=3, running=1))
    machine.allow(ram_budget_bytes=6 * GIB)
    machine.run(10)
    # No plan has room for them.
    machine.ledger.take("workspace", "pages of a file", "ram", GIB, is_mapped=True)
    machine.absent_bytes = GIB
    machine.run(20)
    assert not machine.sentences("given_up")
    machine.absent_bytes = 0
    machine.run(20)
    assert machine.sentences("given_up")


def test_another_budget_is_planned_for_with_all_that_was_given_up_for_the_one_before():
    machine = ScriptedMachine(backlog=Backlog(waiting=3, running=1))
    machine.run(10)
    machine.stalls = SHORT
    machine.run(60)
    machine.stalls = Stalls()
    assert machine.loop.given_up
    machine.allow(ram_budget_bytes=8 * GIB)
    machine.run(2)
    assert machine.loop.given_up == ()


def test_pressure_takes_one_thing_after_the_other_in_the_designed_order_and_gives_it_back_the_other_way_round():
    machine = ScriptedMachine(may_lose=True, backlog=Backlog(waiting=3, running=1))
    machine.run(40)
    machine.stalls = SHORT
    machine.run(120)
    down = [rung.kind for rung in machine.loop.given_up if rung.tier == "ram"]
    order = ["tree_to_disk", "cold_partitions", "fewer_cells", "more_streamed", "kv_8bit", "smaller_context"]
    assert list(dict.fromkeys(down)) == order
    said = machine.sentences("given_up")
    assert len(said) == len(down)
    assert all(sentence.startswith("The system is short of memory. ") for sentence in said)
    held = machine.ledger.held_bytes("ram")
    rungs = list(machine.loop.given_up)
    machine.stalls = Stalls()
    machine.run(30 * (len(down) + 2))
    assert machine.loop.given_up == ()
    back = machine.sentences("taken_back")
    # What is said twice in a row is told once.
    way_back = [f"There is room in memory again. {rung.way_back}" for rung in reversed(rungs)]
    assert [sentence for sentence, _ in groupby(back)] == [sentence for sentence, _ in groupby(way_back)]
    assert machine.ledger.held_bytes("ram") > held
    assert machine.index_bytes == PARTITIONS * PARTITION_BYTES


def test_nothing_more_is_lost_while_what_is_to_be_lost_is_refused():
    machine = ScriptedMachine(may_lose=True, backlog=Backlog(waiting=3, running=1))
    machine.run(40)
    machine.stalls, machine.fails = SHORT, "The context cannot shrink to 4,096 cells yet."
    machine.run(300)
    assert [rung.kind for rung in machine.loop.given_up if rung.is_lossy] == ["kv_8bit"]
    assert machine.placement.kv_type == "f16"
    # The answer that was in the way has ended.
    machine.fails = ""
    machine.run(8)
    assert machine.placement.kv_type == "q8_0"
    machine.run(60)
    assert "smaller_context" in [rung.kind for rung in machine.loop.given_up]


def test_climbing_is_slow_and_slower_after_a_relapse():
    machine = ScriptedMachine(backlog=Backlog(running=1))
    machine.run(10)
    machine.stalls = SHORT
    machine.run(3)
    machine.stalls = Stalls()
    num_down = len(machine.loop.given_up)
    assert num_down
    machine.run(25)
    assert len(machine.loop.given_up) == num_down
    machine.run(10)
    assert len(machine.loop.given_up) == num_down - 1
    machine.stalls = SHORT
    machine.run(2)
    machine.stalls = Stalls()
    num_down = len(machine.loop.given_up)
    machine.run(50)
    assert len(machine.loop.given_up) == num_down


def test_an_idle_model_rests_before_anybody_is_hurt():
    machine = ScriptedMachine()
    machine.run(10)
    machine.stalls = SHORT
    machine.run(60)
    assert machine.acts == ["rest"]
    assert "fewer_cells" not in [rung.kind for rung in machine.loop.given_up]


def test_what_was_done_for_a_budget_is_undone_when_it_is_changed():
    machine = ScriptedMachine(backlog=Backlog(waiting=3, running=1))
    machine.set_aside_bytes = GIB
    machine.run(10)
    machine.stalls = SHORT
    machine.run(60)
    assert machine.acts[-1] == "set aside on disk True"
    machine.stalls = Stalls()
    machine.allow(ram_budget_bytes=12 * GIB)
    machine.run(2)
    assert machine.acts[-1] == "set aside on disk False"
    assert machine.loop.given_up == ()


def test_other_programs_that_take_memory_are_made_room_for():
    machine = ScriptedMachine()
    machine.run(10)
    machine.others_bytes = 12 * GIB
    machine.run(15)
    assert machine.hardware().ram_free_bytes > 0
    assert machine.ledger.held_bytes("ram") <= 4 * GIB
    assert machine.placement.streamed_layers or machine.placement.ram_bytes < 4 * GIB


def test_other_programs_that_take_the_cards_memory_send_layers_home():
    machine = ScriptedMachine(gpu_bytes=8 * GIB)
    machine.run(10)
    assert machine.placement.n_gpu_layers > 32
    machine.gpu_others_bytes = 6 * GIB
    machine.run(4)
    assert machine.ledger.held_bytes("gpu") <= 2 * GIB
    assert machine.placement.n_gpu_layers < 32
    assert any("on the graphics card" in sentence for sentence in machine.sentences("placement"))


def test_the_load_of_others_that_comes_and_goes_is_not_run_after():
    machine = ScriptedMachine()
    machine.run(10)
    machine.others_bytes = 11 * GIB
    machine.run(5)
    num_applied = len(machine.applied)

    def swing() -> None:
        machine.others_bytes = (11 if int(machine.now) % 10 < 5 else 2) * GIB

    machine.on_tick = swing
    machine.run(600)
    assert len(machine.applied) - num_applied <= 2


def test_a_backlog_makes_slots_and_takes_partitions_for_them_and_both_come_back():
    # All layers lie in memory, and the index has what they leave.
    machine = ScriptedMachine(ram_bytes=5_600 * MIB, others_bytes=GIB // 2, backlog=Backlog(running=1))
    machine.run(60)
    at_rest = (machine.placement.num_slots, machine.index_bytes)
    machine.backlog = Backlog(waiting=15, running=1)
    machine.run(60)
    assert machine.placement.num_slots > at_rest[0]
    assert machine.index_bytes < at_rest[1]
    machine.backlog = Backlog(running=1)
    machine.run(180)
    assert (machine.placement.num_slots, machine.index_bytes) == at_rest
    slots = [placement.num_slots for placement in machine.applied]
    assert slots == sorted(slots[:-1]) + slots[-1:]


def test_what_staying_costs_is_not_counted_while_things_lie_as_they_are_wanted():
    machine = ScriptedMachine(ram_bytes=5_600 * MIB, others_bytes=GIB // 2, backlog=Backlog(running=1))
    machine.run(60)
    machine.backlog = Backlog(waiting=7, running=1)
    machine.run(1)
    assert machine.applied == []
    machine.backlog = Backlog(running=1)
    machine.run(600)
    assert machine.applied == []
    machine.backlog = Backlog(waiting=7, running=1)
    machine.run(1)
    assert machine.applied == []
    machine.run(60)
    assert machine.applied


def test_what_staying_with_one_model_has_cost_says_nothing_of_the_next():
    machine = ScriptedMachine(ram_bytes=5_600 * MIB, others_bytes=GIB // 2, backlog=Backlog(running=1))
    machine.run(60)
    machine.backlog = Backlog(waiting=7, running=1)
    for _ in range(60):
        machine.loop.note(ModelStateChanged("loaded", "/m.gguf", "m", 1.0, "All of it is in memory."))
        machine.run(2)
    assert machine.applied == []
    machine.run(60)
    assert machine.applied


def test_a_backlog_shares_steps_and_who_asks_alone_is_not_bound():
    machine = ScriptedMachine(backlog=Backlog(running=1))
    machine.run(5)
    assert machine.sharings == []
    machine.backlog = Backlog(waiting=15, running=1)
    machine.run(5)
    machine.backlog = Backlog(running=1)
    machine.run(5)
    sharing, end = machine.sharings
    assert sharing is not None
    assert sharing.num_questions == 16
    assert 1 <= sharing.best(read_seconds=1.0) <= sharing.best(read_seconds=0.0) <= 16
    assert end is None


def test_what_is_measured_while_nobody_asks_moves_what_it_shows_to_be_misplaced():
    machine = ScriptedMachine(gpu_bytes=3 * GIB)
    machine.run(60)
    assert machine.applied == []
    assert machine.placement.n_gpu_layers
    # A card that is slower than any processor.
    machine.profile = replace(machine.profile, card="A card", device_bytes_per_s=1e9, device_rate=1e9)
    machine.run(30)
    assert machine.placement.n_gpu_layers == 0
    assert len(machine.applied) == 1


def test_what_is_refined_a_little_is_not_planned_with_until_it_amounts_to_something():
    machine = ScriptedMachine(gpu_bytes=3 * GIB)
    machine.run(10)
    plans, plan = list[float](), machine.loop._plan

    def noted(*what: Any) -> Placement:
        plans.append(machine.now)
        return plan(*what)

    machine.loop._plan = noted
    for drift in (*(1.02, 1 / 1.02) * 30, 2.0, *(1.02, 1 / 1.02) * 30):
        machine.profile = replace(machine.profile, processor_rate=machine.profile.processor_rate * drift)
        machine.run(1)
    assert plans == [1070.0]


def test_at_most_two_changes_a_minute_under_a_load_that_swings():
    machine = ScriptedMachine(ram_bytes=8 * GIB, others_bytes=1 * GIB)

    def swing() -> None:
        machine.backlog = Backlog(waiting=15 if int(machine.now) % 14 < 7 else 0, running=1)

    machine.on_tick = swing
    changes = []
    for _ in range(600):
        before = len(machine.applied)
        machine.run(1)
        changes += [machine.now] * (len(machine.applied) - before)
    assert all(later - earlier >= 60 for earlier, later in zip(changes, changes[2:], strict=False))


def test_who_grows_waits_for_the_ledger_and_keeps_its_size_where_that_refuses_for_long():
    machine = ScriptedMachine()
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(20)
    small = machine.placement
    somebody = machine.ledger.take("kv", "cells of before", "ram", 12 * GIB)
    machine.others_bytes = 0
    machine.allow(ram_budget_bytes=13 * GIB)
    num_applied = len(machine.applied)
    machine.run(4)
    assert len(machine.applied) == num_applied
    machine.run(4)
    assert machine.placement is small
    assert any("did not become free" in sentence for sentence in machine.sentences("refused"))
    somebody.release()
    machine.run(60)
    assert machine.placement is not small


def test_a_placement_that_cannot_be_had_is_told_and_not_asked_for_again_at_once():
    machine = ScriptedMachine(fails="There was no room for a new context, so all stays as it is.")
    machine.run(5)
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(3)
    assert machine.sentences("refused") == ["There was no room for a new context, so all stays as it is."]
    asked = len(machine.applied)
    assert asked <= 2
    machine.fails = ""
    machine.run(20)
    assert machine.placement.ram_bytes <= 3 * GIB


def test_a_model_that_the_system_maps_is_never_too_much_however_many_of_its_pages_are_there():
    machine = ScriptedMachine(ram_bytes=4 * GIB, others_bytes=GIB, is_streamable=False)
    machine.run(60)
    assert machine.placement.is_mapped
    assert machine.hardware().ram_free_bytes == 0
    machine.allow(ram_budget_bytes=2 * GIB)
    machine.run(60)
    # Who reads them again waits for memory, as the system counts it.
    machine.stalls = SHORT
    machine.run(60)
    assert machine.sentences("given_up", "refused") == []
    assert machine.index_bytes < PARTITIONS * PARTITION_BYTES
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(60)
    assert machine.index_bytes == PARTITIONS * PARTITION_BYTES
    machine.stalls = Stalls()
    machine.allow(ram_budget_bytes=None)
    machine.ram_bytes = 6 * GIB
    machine.run(60)
    assert machine.sentences("given_up", "refused") == []
    assert not machine.placement.is_mapped


def test_the_index_grows_again_though_the_rest_of_the_plan_is_not_worth_a_pause():
    machine = ScriptedMachine(ram_bytes=16 * GIB, gpu_bytes=2 * GIB, others_bytes=GIB)
    machine.run(300)
    machine.others_bytes = 12 * GIB
    machine.run(120)
    num_cells = machine.placement.num_cells
    assert machine.index_bytes < PARTITIONS * PARTITION_BYTES
    machine.others_bytes = GIB
    machine.run(600)
    assert machine.placement.num_cells == num_cells
    assert machine.index_bytes == PARTITIONS * PARTITION_BYTES


def test_a_disk_that_others_have_filled_is_no_shortage_that_anybody_could_end():
    machine = ScriptedMachine(disk_free_bytes=40 * GIB)
    machine.ledger.take("index", "chunks, vectors and word index", "disk", 5 * GIB)
    machine.run(60)
    assert machine.loop.levels["disk"] == "none"
    assert machine.sentences("given_up") == []


def test_streamed_layers_are_read_from_a_file_that_no_budget_of_the_disk_counts():
    machine = ScriptedMachine()
    machine.allow(disk_budget_bytes=GIB)
    machine.run(10)
    before = machine.placement.kv_disk_bytes
    assert before > 0
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(60)
    assert machine.ledger.held_bytes("disk", "weights") > GIB
    assert machine.placement.kv_disk_bytes == before
    assert machine.sentences("given_up") == []


def test_processes_that_read_files_take_their_memory_once_of_what_there_is():
    machine = ScriptedMachine()
    machine.run(10)
    before = machine.loop.budgets().ram_bytes
    machine.ledger.take("parsers", "processes that read files", "ram", 2 * GIB)
    machine.run(10)
    assert machine.loop.budgets().ram_bytes == before
    assert machine.sentences("given_up") == []


def test_an_index_has_given_back_what_a_model_needs_before_that_is_loaded():
    machine = ScriptedMachine(ram_bytes=8 * GIB, others_bytes=3 * GIB, is_loaded=False)
    machine.run(30)
    assert machine.index_bytes == 2 * GIB
    machine.load()
    machine.run(10)
    assert machine.index_bytes < 2 * GIB
    assert machine.most_bytes <= machine.loop.budgets().ram_bytes


def test_beside_a_model_that_is_being_loaded_nothing_grows():
    machine = ScriptedMachine(is_loaded=False)
    machine.run(10)
    grown = machine.index_bytes
    machine.loop.note(ModelStateChanged("loading", "/m.gguf", "m"))
    machine.set_index_bytes(GIB)
    machine.run(60)
    assert machine.index_bytes == GIB
    machine.allow(index_budget_bytes=300 * MIB)
    machine.run(5)
    assert machine.index_bytes == 300 * MIB
    machine.allow(index_budget_bytes=None)
    machine.loop.note(ModelStateChanged("failed", "/m.gguf", "m"))
    machine.run(60)
    assert machine.index_bytes == grown


@pytest.mark.parametrize("trying_seconds", [0.0, 150.0])
def test_a_card_that_takes_less_than_is_estimated_is_tried_again_ever_less_often(trying_seconds: float):
    machine = ScriptedMachine(gpu_bytes=8 * GIB, most_layers=24, trying_seconds=trying_seconds)
    loaded, without = machine.placement, machine.given_up
    machine.run(3)
    assert machine.loop.given_up == without != ()
    tried = minutes_of_attempts(machine, 60)
    assert tried == [1, 2, 4, 8, 16, 26, 36, 46, 56]
    assert machine.placement is loaded
    assert machine.loop.given_up == without
    # What stood in the way is gone.
    machine.most_layers = None
    machine.run(600 * len(without))
    assert machine.loop.given_up == ()
    assert machine.placement.n_gpu_layers > loaded.n_gpu_layers


def test_only_what_was_taken_back_for_it_is_given_up_again_where_a_placement_cannot_be_had():
    machine = ScriptedMachine(gpu_bytes=8 * GIB, most_layers=24)
    without, machine.most_layers = machine.given_up, None
    for attempt in (1, 2):
        while len(machine.applied) < attempt:
            machine.run(1)
        machine.run(2)
        assert machine.loop.given_up == without[:-1]
        machine.most_layers = machine.placement.n_gpu_layers
    assert len(machine.sentences("refused")) == 1


def test_a_better_placement_that_the_card_never_takes_is_tried_again_ever_less_often():
    machine = ScriptedMachine(gpu_bytes=8 * GIB, gpu_others_bytes=6 * GIB)
    machine.run(10)
    before = machine.placement
    machine.most_layers, machine.gpu_others_bytes = before.n_gpu_layers, 0
    assert machine.loop.given_up == ()
    tried = minutes_of_attempts(machine, 60)
    assert 5 <= len(tried) <= 9
    assert machine.placement is before
    machine.most_layers = None
    machine.run(600)
    assert machine.placement.n_gpu_layers > before.n_gpu_layers


def minutes_of_attempts(machine: ScriptedMachine, minutes: int) -> list[int]:
    """The minutes, from 1 on, in which placements were asked for: once for each."""
    tried: list[int] = []
    for minute in range(1, minutes + 1):
        before = len(machine.applied)
        machine.run(60)
        tried += [minute] * (len(machine.applied) - before)
    return tried


def test_what_was_planned_for_another_model_is_not_handed_over():
    machine = ScriptedMachine()
    machine.allow(ram_budget_bytes=3 * GIB)
    machine.run(20)
    somebody = machine.ledger.take("kv", "cells of before", "ram", 12 * GIB)
    machine.others_bytes = 0
    machine.allow(ram_budget_bytes=13 * GIB)
    num_applied = len(machine.applied)
    machine.run(2)
    assert len(machine.applied) == num_applied
    somebody.release()
    # Nobody has told of it yet. The machine takes no placement for any model but this.
    machine.path = Path("/other.gguf")
    machine.run(60)
    assert len(machine.applied) > num_applied


def test_models_that_begin_to_take_turns_are_told_of_once():
    machine = ScriptedMachine()
    for _ in range(400):
        machine.loop.note(ModelSwitched("/b.gguf", "small", "/a.gguf", 0.1, 0.4, 5))
        machine.run(1)
    assert machine.sentences("placement")[1:] == [
        "The models that are asked do not fit into memory together, so they take turns: small came back in 0.5 s."
    ]
    machine.run(400)
    machine.loop.note(ModelSwitched("/b.gguf", "small", "/a.gguf", 0.0, 0.3, 5))
    machine.run(1)
    assert len(machine.sentences("placement")) == 3


def test_without_a_model_the_index_follows_the_budget():
    machine = ScriptedMachine(is_loaded=False)
    machine.run(3)
    assert machine.index_bytes == 4 * GIB
    machine.allow(ram_budget_bytes=1 * GIB)
    machine.run(1)
    assert machine.index_bytes == 512 * MIB
    machine.allow(index_budget_bytes=300 * MIB)
    machine.run(40)
    assert machine.index_bytes == 300 * MIB
    assert machine.applied == []


@pytest.mark.expects_warnings
def test_a_tick_that_fails_is_logged_once_and_the_next_one_works(caplog: pytest.LogCaptureFixture):
    machine = ScriptedMachine()
    placement, machine.placement = machine.placement, "no placement"
    for _ in range(3):
        machine.loop._look()
    assert caplog.text.count("memory could not be looked after") == 1
    machine.placement = placement
    machine.loop._look()
    machine.run(1)


def test_the_thread_looks_and_ends():
    machine = ScriptedMachine()
    machine.loop.start()
    machine.loop.wake()
    machine.loop.stop()
    machine.loop.stop()


def test_the_model_of_a_machine_of_figures_is_what_the_planner_takes():
    machine = ScriptedMachine()
    assert isinstance(machine.in_force().demand.shape, ModelShape)
    assert machine.in_force().is_loaded


@pytest.mark.parametrize("is_full", [True, False])
def test_less_room_for_the_index_is_told_where_something_leaves_memory_for_it(is_full: bool):
    machine = ScriptedMachine(ram_bytes=6 * GIB, is_loaded=False)
    machine.run(10)
    if not is_full:
        machine.used_index_bytes = 100 * MIB
    machine.allow(ram_budget_bytes=GIB)
    machine.run(10)
    assert machine.index_bytes <= GIB
    told = [words for words in machine.sentences("placement") if re.search(r"The index releases \d+ part", words)]
    assert len(told) == is_full


# --- what may be lost for want of room ---

STARVED = int(1.24 * GIB)
# Of late a question filled the context.
WHOLE = Backlog(lengths=(4096,))


def starved_machine(may_lose: bool) -> ScriptedMachine:
    """One whose model has room neither in memory nor for a ring, with all of its keys and values."""
    settings = Settings(memory=MemorySettings(may_lose=may_lose))
    machine = ScriptedMachine(ram_bytes=8 * GIB, settings=settings, backlog=WHOLE)
    machine.allow(ram_budget_bytes=STARVED)
    machine.run(20)
    return machine


def test_a_model_without_room_is_left_to_the_system_until_losses_are_allowed_and_moves_then_at_once():
    machine = starved_machine(may_lose=False)
    assert machine.placement.is_starved
    assert machine.placement.offer.startswith("With keys and values in 8 bits")
    machine.allow(may_lose=True)
    machine.run(2)
    assert machine.placement.streamed_layers
    assert (machine.placement.kv_type, machine.placement.num_concessions) == ("q8_0", 1)
    allowed = "A model that has no room may lose a little: keys and values in 8 bits, or a smaller context."
    assert machine.sentences("budget")[-1] == allowed
    assert machine.ledger.held_bytes("ram") <= STARVED


def test_more_cells_that_somebody_could_not_wait_for_are_told_with_why():
    machine = ScriptedMachine(backlog=Backlog(running=1))
    machine.run(10)
    cause = "A text of more than 512 tokens is being answered."
    words = ("1,024 cells instead of 512", "steps of 32 tokens instead of 64")
    machine.loop.note(PlacementSettled(True, f"Now: {', '.join(words)}.", 0.2, words, cause))
    machine.loop.note(PlacementSettled(False, "There was no room.", 0.2, cause=cause))
    machine.run(1)
    assert f"{cause} Now: {', '.join(words)}." in machine.sentences("placement")
    assert f"{cause} Now: {words[0]}." in [decision.short for decision in machine.loop.decisions.newest]
    assert machine.sentences("refused")[-1] == f"{cause} There was no room."


def test_what_a_whole_context_would_starve_is_streamed_with_the_cells_that_are_usual():
    machine = starved_machine(may_lose=False)
    machine.backlog = Backlog(lengths=(900,))
    machine.run(30)
    assert machine.placement.streamed_layers
    assert (machine.placement.kv_type, machine.placement.offer) == ("f16", "")
    assert (machine.placement.num_cells, machine.placement.context_tokens) == (1792, 4096)


def test_cells_for_a_few_long_texts_become_layers_again_and_do_not_come_and_go():
    machine = ScriptedMachine(ram_bytes=8 * GIB, backlog=Backlog(running=1, lengths=(4000,) * 16))
    machine.allow(ram_budget_bytes=STARVED + 400 * MIB)
    machine.run(30)
    assert machine.placement.streamed_layers
    assert machine.placement.num_cells == 4096
    num_streamed = len(machine.placement.streamed_layers)
    machine.backlog = Backlog(running=1, lengths=(900,) * 14 + (4000,) * 2)
    machine.run(60)
    assert machine.placement.num_cells == 1792
    assert len(machine.placement.streamed_layers) < num_streamed
    num_told = len(machine.sentences("placement"))
    machine.run(120)
    assert len(machine.sentences("placement")) == num_told


def test_a_larger_budget_brings_back_at_once_what_was_lost():
    machine = starved_machine(may_lose=True)
    assert machine.placement.num_concessions
    machine.allow(ram_budget_bytes=STARVED + 400 * MIB)
    machine.run(2)
    assert (machine.placement.kv_type, machine.placement.num_concessions) == ("f16", 0)
    assert machine.placement.streamed_layers


def test_what_was_lost_to_other_programs_is_had_again_a_minute_after_they_have_gone():
    machine = ScriptedMachine(ram_bytes=8 * GIB, others_bytes=GIB, backlog=WHOLE)
    machine.allow(may_lose=True)
    machine.run(20)
    machine.others_bytes = 8 * GIB - int(1.6 * GIB)
    machine.run(30)
    lossy = machine.placement
    assert lossy.num_concessions
    machine.others_bytes = 2 * GIB
    machine.run(40)
    assert machine.placement.kv_type == lossy.kv_type
    machine.run(200)
    assert (machine.placement.kv_type, machine.placement.num_concessions) == ("f16", 0)


def test_losses_that_are_forbidden_again_end_at_once():
    machine = starved_machine(may_lose=True)
    machine.allow(may_lose=False)
    machine.run(3)
    assert (machine.placement.kv_type, machine.placement.num_concessions) == ("f16", 0)
    assert machine.sentences("budget")[-1] == "No model may lose anything for want of room."


def test_losses_that_are_forbidden_again_end_however_late_they_can():
    machine = starved_machine(may_lose=True)
    machine.fails = "The context cannot grow just now."
    machine.allow(may_lose=False)
    machine.run(20)
    assert machine.placement.num_concessions
    machine.fails = ""
    machine.run(30)
    assert machine.placement.num_concessions == 0


def test_a_step_down_that_an_answer_forbids_is_not_asked_for_again_at_once():
    machine = starved_machine(may_lose=False)
    machine.fails = "The context cannot shrink to 4,096 cells yet."
    machine.allow(may_lose=True)
    machine.run(20)
    refused = len(machine.sentences("refused"))
    assert refused == 1
    machine.fails = ""
    machine.run(60)
    assert machine.placement.num_concessions


def test_a_bound_for_layers_that_leaves_no_room_for_a_ring_is_not_kept_to():
    machine = ScriptedMachine(ram_bytes=8 * GIB, backlog=Backlog(running=1))
    machine.allow(ram_budget_bytes=int(1.9 * GIB))
    machine.run(20)
    machine.stalls = SHORT
    while not any(rung.kind == "more_streamed" for rung in machine.loop.given_up):
        machine.run(1)
    # What lies beside the model grows by more than what that bound leaves it; the budget has room for both.
    machine.ledger.take("parsers", "a large file", "ram", 500 * MIB)
    for _ in range(40):
        machine.run(1)
        assert not machine.placement.is_starved
    assert machine.placement.streamed_layers


def test_a_card_that_is_found_after_the_first_look_is_planned_with_at_once():
    machine = ScriptedMachine()
    machine.run(10)
    assert machine.loop.budgets().gpu_bytes == 0
    machine.gpu_bytes = 8 * GIB
    assert (machine.loop.budgets_to_plan_by().gpu_bytes or 0) > 6 * GIB
    # One that leaves, as a laptop's that is switched off, is not planned with any more.
    machine.gpu_bytes = 0
    machine.run(2)
    assert machine.loop.budgets().gpu_bytes == 0


def test_what_was_taken_back_is_not_done_without_by_whoever_gave_it_up():
    machine = ScriptedMachine(gpu_bytes=8 * GIB, most_layers=24)
    told, machine.most_layers = machine.given_up, None
    # Before the loop has heard of it, and after.
    assert machine.loop.done_without(told) == told != ()
    machine.run(3)
    assert machine.loop.done_without(told) == told
    machine.run(600 * len(told))
    assert machine.loop.done_without(told) == ()
    # What somebody gives up anew is heard of first.
    assert machine.loop.done_without(told[:1]) == told[:1]
