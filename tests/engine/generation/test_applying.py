"""Tests for engine.generation.applying: another placement for the loaded model, while answers are being written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelLoadFailed, NoCells, NoRoomToCompute, NoRoomToLoad
from engine.events import (
    AnswerCancelled,
    AnswerFailed,
    AnswerFinished,
    MemoryShort,
    PlacementSettled,
    PromptMade,
    TokensGenerated,
)
from engine.generation import applying
from engine.generation.commands import UseModel
from engine.generation.context import Context, Stretch
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.loaded import LoadedModel
from engine.generation.model import Model
from engine.memory.demand import Budgets
from engine.memory.hardware import Device, Hardware
from engine.memory.ledger import Ledger
from tests.engine.generation.conftest import ENDS, Desk
from tests.helpers.placing import (
    ENDLESS,
    LONG,
    SLOT,
    ask_all,
    check,
    decisive_questions,
    end_of,
    has_begun,
    placed,
    refuse,
    serving,
    slots,
    texts_of,
)
from tests.helpers.tiny_gguf import write_tiny_model


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its heads are wide enough for keys and values of eight bits."""
    folder = tmp_path_factory.mktemp("endless")
    return write_tiny_model(folder / "m.gguf", heads=2, kv_heads=1, context=SLOT, never_ends=True)


@pytest.fixture(scope="module")
def decisive(endless: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return decisive_questions(endless, tmp_path_factory.mktemp("decisive"))


@pytest.fixture
def model_desk(desk: Desk, endless: Path) -> Iterator[Desk]:
    yield from serving(desk, endless, check)


def test_answers_go_on_while_there_is_room_for_more_of_them_and_for_fewer_again(model_desk, decisive, at_once):
    *_, last = decisive
    # All of them are being written when the first placement comes.
    model_desk.at_text_of(last, model_desk.wait_for_more)
    with at_once():
        for question in decisive:
            model_desk.ask(question, question, **LONG)
    has_begun(model_desk, last)
    for count in (16, 48, 16, 2, 4):
        settled = placed(model_desk, **slots(count))
        assert settled.is_in_force, settled
        assert settled.pause_seconds > 0
        print(settled.sentence)
        assert model_desk.loader.placement.num_slots == count
        assert model_desk.loader.loaded_now.context.num_cells == count * SLOT
    assert texts_of(model_desk, list(decisive)) == decisive
    counters = model_desk.loader.loaded_now.loop.counters()
    assert counters.preempted_by_recompute == 0
    assert counters.preempted_by_swap >= 6


def test_steps_of_another_size_take_up_a_prompt_that_is_half_read(model_desk, decisive):
    for question in decisive:
        model_desk.ask(question, question, **LONG)
    settled = placed(model_desk, n_ubatch=32)
    assert settled.sentence.startswith("Now: steps of 32 tokens instead of 512. Answers paused for ")
    assert model_desk.loader.loaded_now.context.n_ubatch == 32
    assert texts_of(model_desk, list(decisive)) == decisive


def test_keys_and_values_of_another_format_are_computed_again_and_what_was_told_stays(model_desk):
    model_desk.at_text_of("q", model_desk.wait_for_more)
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    settled = placed(model_desk, kv_type="q8_0")
    assert settled.is_in_force
    end = end_of(model_desk, "q")
    told = [event.text for event in model_desk.events if isinstance(event, TokensGenerated)]
    assert isinstance(end, AnswerFinished)
    assert (end.answer.text, end.timings.generated_tokens) == ("".join(told), 600)
    assert model_desk.loader.loaded_now.context.spec.kv_type == "q8_0"
    assert model_desk.loader.loaded_now.loop.counters().preempted_by_swap == 1
    assert placed(model_desk, kv_type="f16").is_in_force
    model_desk.ask("How?", "again", **LONG)
    assert isinstance(end_of(model_desk, "again"), AnswerFinished)


def test_weights_are_read_again_under_running_answers_and_grammars(model_desk, decisive):
    shaped = {"max_tokens": 60, "grammar": 'root ::= ("ab" | "cd") root'}
    ask_all(model_desk, decisive)
    model_desk.ask("How?", "shaped", **shaped)
    has_begun(model_desk, "shaped")
    settled = placed(model_desk, is_repacked=False)
    assert settled.is_in_force
    assert settled.changed == ("weights as they lie in the file",)
    assert texts_of(model_desk, list(decisive)) == decisive
    assert re.fullmatch("(ab|cd){30}", texts_of(model_desk, ["shaped"])["shaped"])
    assert placed(model_desk, is_repacked=True).is_in_force


def test_several_answers_and_beams_go_on(model_desk):
    several = {"num_answers": 3, "temperature": 1.0, "max_tokens": 200}
    model_desk.ask("How?", "several", **several)
    model_desk.ask("How?", "beams", beam_width=3, max_tokens=200)
    has_begun(model_desk, "several")
    assert placed(model_desk, **slots(8)).is_in_force
    assert isinstance(end_of(model_desk, "beams"), AnswerFinished)
    end = end_of(model_desk, "several")
    assert len({end.answer.text, *(other.text for other in end.answer.alternatives)}) == 3


def test_what_was_read_is_found_again_in_the_new_context(model_desk):
    model_desk.ask("How?", "a", max_tokens=4)
    before = end_of(model_desk, "a").timings
    assert placed(model_desk, **slots(8)).is_in_force
    model_desk.ask("How?", "b", max_tokens=4)
    after = end_of(model_desk, "b").timings
    assert before.cached_tokens == 0
    assert after.cached_tokens > after.prompt_tokens * 0.9


def test_an_answer_that_ended_just_before_its_context_goes_is_kept(model_desk, monkeypatch):
    set_aside, keep = applying._set_aside, KnowledgeKeeper.keep
    ends = list[int]()

    def end_before(loaded: LoadedModel, *what: Any) -> None:
        for group in list(loaded.loop._groups.running):
            loaded.loop._steps.ending.cancel(group)
        assert loaded.loop.closing
        ends.clear()
        set_aside(loaded, *what)

    def noted(keeper: KnowledgeKeeper, segments: Any, sequence: Any, *rest: Any, **options: Any) -> None:
        ends.append(sequence.end)
        keep(keeper, segments, sequence, *rest, **options)

    monkeypatch.setattr(applying, "_set_aside", end_before)
    monkeypatch.setattr(KnowledgeKeeper, "keep", noted)
    wanted = replace(model_desk.loader.placement, **slots(8))
    # At its second text: a first token is in no cell yet.
    model_desk.at_text_of("q", lambda: model_desk.at_text_of("q", lambda: model_desk.worker.apply(wanted)))
    model_desk.ask("How?", "q", **ENDLESS)
    assert model_desk.wait_for(lambda event: isinstance(event, PlacementSettled)).is_in_force
    prompt_made = next(event for event in model_desk.events if isinstance(event, PromptMade))
    assert max(ends) > prompt_made.num_tokens


@pytest.mark.parametrize("cells", [8 * SLOT, SLOT])
def test_what_was_read_goes_along_also_where_memory_has_no_room_for_it(model_desk, cells: int):
    assert placed(model_desk, kv_ram_bytes=0).is_in_force
    model_desk.ask("How?", "a", max_tokens=4)
    before = end_of(model_desk, "a").timings
    assert placed(model_desk, num_slots=1, num_cells=cells).is_in_force
    model_desk.ask("How?", "b", max_tokens=4)
    after = end_of(model_desk, "b").timings
    assert before.cached_tokens == 0
    assert after.cached_tokens > after.prompt_tokens * 0.9


def test_bounds_of_what_is_kept_change_without_a_pause(model_desk):
    settled = placed(model_desk, kv_ram_bytes=1 << 20)
    assert (settled.is_in_force, settled.pause_seconds) == (True, 0.0)
    assert model_desk.loader.loaded_now.keeper._slabs.budget_bytes == 1 << 20
    assert settled.sentence.startswith("Now: 1 MiB of memory for what was read instead of ")


def test_a_second_context_that_cannot_be_had_leaves_the_first_one_as_it_is(model_desk, decisive, monkeypatch):
    context = model_desk.loader.loaded_now.context
    ask_all(model_desk, decisive)
    refuse(monkeypatch, lambda spec: spec.num_cells == 48 * SLOT)
    settled = placed(model_desk, **slots(48))
    assert not settled.is_in_force
    assert "so all stays as it is" in settled.sentence
    assert model_desk.loader.loaded_now.context is context
    assert texts_of(model_desk, list(decisive)) == decisive
    assert model_desk.loader.loaded_now.loop.counters().preempted_by_swap == 0


def test_where_two_contexts_do_not_fit_everything_is_saved_first(model_desk, decisive, monkeypatch):
    closed, close = [], Context.close
    monkeypatch.setattr(applying, "SPARE_BYTES", 1 << 60)
    monkeypatch.setattr(Context, "close", lambda self: (closed.append(self), close(self)))
    made, init = [], Context.__init__
    monkeypatch.setattr(Context, "__init__", lambda self, *what: (made.append(len(closed)), init(self, *what))[1])
    ask_all(model_desk, decisive)
    assert placed(model_desk, **slots(8)).is_in_force
    assert made == [1]
    assert texts_of(model_desk, list(decisive)) == decisive


def test_where_the_new_context_cannot_be_had_the_one_before_is_made_again(model_desk, decisive, monkeypatch):
    before = model_desk.loader.placement
    monkeypatch.setattr(applying, "SPARE_BYTES", 1 << 60)
    refuse(monkeypatch, lambda spec: spec.num_cells == 8 * SLOT)
    ask_all(model_desk, decisive)
    settled = placed(model_desk, **slots(8))
    assert not settled.is_in_force
    assert "so all stays as it is" in settled.sentence
    assert model_desk.loader.placement == before
    assert texts_of(model_desk, list(decisive)) == decisive


def test_what_failed_for_another_reason_than_room_is_told_as_it_is(model_desk, monkeypatch):
    init = Context.__init__

    def fail(self: Context, *what: Any) -> None:
        if what[1].num_cells == 8 * SLOT:
            raise ModelLoadFailed("The model's file could not be read from the disk.")
        init(self, *what)

    monkeypatch.setattr(Context, "__init__", fail)
    settled = placed(model_desk, **slots(8))
    assert not settled.is_in_force
    assert settled.sentence.startswith("The model's file could not be read from the disk. What was wanted (")
    assert "could not be had, so all stays as it is. " in settled.sentence


def test_where_not_even_the_one_before_can_be_had_a_smaller_one_is_made(model_desk, decisive, monkeypatch):
    monkeypatch.setattr(applying, "SPARE_BYTES", 1 << 60)
    refuse(monkeypatch, lambda spec: spec.num_cells > 2 * SLOT)
    ask_all(model_desk, decisive)
    settled = placed(model_desk, **slots(8))
    assert not settled.is_in_force
    assert "nor for what there was" in settled.sentence
    assert model_desk.loader.loaded_now.context.num_cells == 2 * SLOT
    assert [rung.kind for rung in model_desk.loader.loaded_now.plan.given_up] == ["fewer_cells"]
    assert texts_of(model_desk, list(decisive)) == decisive


def decode_only(monkeypatch: pytest.MonkeyPatch, has_room: Callable[[Context], bool]) -> None:
    """Has llama.cpp find no room for what a pass computes in other contexts."""
    decode = Context.decode

    def refusing(self: Context, stretches: Sequence[Stretch]) -> list[int]:
        # A single token is how a new context is tried out.
        if not has_room(self) and sum(len(stretch.tokens) for stretch in stretches) > 1:
            raise NoRoomToCompute("There is no room in memory to compute this.", "Choose a smaller model.")
        return decode(self, stretches)

    monkeypatch.setattr(Context, "decode", refusing)


def test_answers_go_on_with_less_where_a_pass_finds_no_room(model_desk, decisive, monkeypatch):
    assert placed(model_desk, **slots(8)).is_in_force
    ask_all(model_desk, list(decisive)[:2])
    decode_only(monkeypatch, lambda context: context.num_cells <= 2 * SLOT)
    ask_all(model_desk, list(decisive)[2:])
    texts = texts_of(model_desk, list(decisive))
    assert texts == decisive
    loaded = model_desk.loader.loaded_now
    assert loaded.context.num_cells == 2 * SLOT
    told = [event for event in model_desk.events if isinstance(event, MemoryShort)]
    assert [rung.kind for rung in loaded.plan.given_up] == ["tree_to_disk", "fewer_cells"]
    assert len(told) == 2
    assert told[0].sentence.startswith("There is no room in memory to compute this. ")
    assert "Answers paused for " in told[0].sentence


@pytest.mark.expects_warnings
def test_who_finds_no_room_with_the_least_either_is_told_so_and_the_model_stays(model_desk, monkeypatch):
    with monkeypatch.context() as patch:
        decode_only(patch, lambda context: False)
        model_desk.ask("How?", "q", **ENDLESS)
        end = end_of(model_desk, "q")
    assert isinstance(end, AnswerFailed)
    assert isinstance(end.error, NoRoomToCompute)
    assert model_desk.loader.loaded_now is not None
    model_desk.ask("How?", "again", max_tokens=4)
    assert isinstance(end_of(model_desk, "again"), AnswerFinished)


def test_weights_that_cannot_be_read_another_way_are_read_as_they_were(model_desk, decisive, monkeypatch):
    load = Model.load

    def load_repacked_only(self, n_gpu_layers, on_progress, is_repacked=True, packing=None):
        if not is_repacked:
            raise NoRoomToLoad("There is no room for the weights.")
        load(self, n_gpu_layers, on_progress, is_repacked, packing)

    monkeypatch.setattr(Model, "load", load_repacked_only)
    ask_all(model_desk, decisive)
    settled = placed(model_desk, is_repacked=False)
    assert not settled.is_in_force
    # So the caller knows that trying it has a cost.
    assert settled.pause_seconds > 0
    assert model_desk.loader.placement.is_repacked
    assert texts_of(model_desk, list(decisive)) == decisive


@pytest.mark.expects_warnings
def test_a_model_that_cannot_be_had_at_all_any_more_fails_its_answers_and_the_next_question_loads_it(
    model_desk, monkeypatch
):
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    with monkeypatch.context() as patch:
        refuse(patch, lambda spec: True)
        assert not placed(model_desk, is_repacked=False).is_in_force
        end = end_of(model_desk, "q")
    assert isinstance(end, AnswerFailed)
    model_desk.ask("How?", "again", max_tokens=4)
    assert isinstance(end_of(model_desk, "again"), AnswerFinished)


def test_who_is_cancelled_during_a_change_ends_as_cancelled(model_desk, monkeypatch):
    moved = applying._moved

    def cancel_meanwhile(*what):
        asked.cancelled.set()
        return moved(*what)

    monkeypatch.setattr(applying, "_moved", cancel_meanwhile)
    asked = model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    assert placed(model_desk, **slots(8)).is_in_force
    assert isinstance(end_of(model_desk, "q"), AnswerCancelled)


def test_who_asks_again_under_the_same_id_while_a_context_changes_is_answered(model_desk, monkeypatch):
    moved = applying._moved

    def again_meanwhile(*what):
        asked.cancelled.set()
        model_desk.worker._let_go_at = float("-inf")
        model_desk.worker._let_wait_no_longer()
        model_desk.ask("How?", "q", max_tokens=4)
        return moved(*what)

    monkeypatch.setattr(applying, "_moved", again_meanwhile)
    asked = model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    assert placed(model_desk, **slots(8)).is_in_force
    ends = AnswerFinished | AnswerCancelled | AnswerFailed
    model_desk.wait_until(lambda: sum(isinstance(event, ends) for event in model_desk.events) == 2)
    assert [type(event) for event in model_desk.events if isinstance(event, ends)] == [AnswerCancelled, AnswerFinished]


def test_a_context_does_not_shrink_below_what_an_answer_needs_that_is_being_written(model_desk):
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    small = {"num_slots": 1, "num_cells": SLOT // 2, "context_tokens": SLOT // 2}
    settled = placed(model_desk, **small)
    assert not settled.is_in_force
    assert settled.sentence.startswith("The context cannot shrink to 512 cells yet: an answer that is being written ")
    assert isinstance(end_of(model_desk, "q"), AnswerFinished)
    assert placed(model_desk, **small).is_in_force
    assert model_desk.loader.loaded_now.speaker.context_tokens == SLOT // 2


def grown(desk: Desk) -> list[PlacementSettled]:
    return [event for event in desk.events if isinstance(event, PlacementSettled) and event.cause]


def test_an_answer_makes_do_with_its_cells_where_more_would_not_fit(model_desk):
    planner = model_desk.loader.planner
    planning = planner.planning
    assert placed(model_desk, num_slots=1, num_cells=SLOT // 4).is_in_force
    # As where keys and values alone are more than there is.
    planner.planning = lambda hardware, demand: replace(planning(hardware, demand), fits=False)
    model_desk.ask("How?", "q", **ENDLESS)
    assert isinstance(end_of(model_desk, "q"), AnswerFinished)
    [settled] = grown(model_desk)
    assert not settled.is_in_force
    assert settled.sentence.startswith("There is no room for ")
    assert model_desk.loader.loaded_now.context.num_cells == SLOT // 4


def test_an_answer_that_becomes_longer_than_its_context_goes_on_in_a_larger_one(model_desk, decisive):
    assert placed(model_desk, num_slots=1, num_cells=SLOT // 4).is_in_force
    assert model_desk.loader.loaded_now.speaker.context_tokens == SLOT
    question = next(iter(decisive))
    ask_all(model_desk, [question])
    assert texts_of(model_desk, [question]) == {question: decisive[question]}
    [settled] = grown(model_desk)
    assert settled.is_in_force
    assert settled.cause == "A text of more than 256 tokens is being answered."
    assert model_desk.loader.loaded_now.context.num_cells > SLOT // 4
    model_desk.ask("How?", "endless", **ENDLESS)
    assert end_of(model_desk, "endless").timings.generated_tokens == 600


def test_a_prompt_that_is_longer_than_its_context_is_read_in_a_larger_one_beside_others(model_desk, decisive):
    assert placed(model_desk, num_slots=1, num_cells=SLOT // 4).is_in_force
    first, *others = decisive
    ask_all(model_desk, [first])
    model_desk.ask("How? " * 120, "long", **LONG)
    for question in others:
        model_desk.ask(question, question, **LONG)
    assert isinstance(end_of(model_desk, "long"), AnswerFinished)
    assert texts_of(model_desk, list(decisive)) == decisive
    assert len(grown(model_desk)) == 1


def test_where_there_is_no_room_for_more_cells_an_answer_ends_with_those_there_are(model_desk, monkeypatch):
    assert placed(model_desk, num_slots=1, num_cells=SLOT // 2).is_in_force
    with monkeypatch.context() as patch:
        patch.setattr(applying, "SPARE_BYTES", 1 << 60)
        refuse(patch, lambda spec: spec.num_cells > SLOT // 2)
        model_desk.ask("How?", "q", **ENDLESS)
        end = end_of(model_desk, "q")
    assert isinstance(end, AnswerFinished)
    assert end.answer.finish_reason == "length"
    assert 200 < end.timings.generated_tokens < 512
    [settled] = grown(model_desk)
    assert not settled.is_in_force
    # The next one may find room.
    model_desk.ask("How?", "again", **ENDLESS)
    assert end_of(model_desk, "again").timings.generated_tokens == 600


def test_a_prompt_that_no_context_has_room_for_ends_at_once_and_holds_nobody_up(model_desk, monkeypatch):
    assert placed(model_desk, num_slots=1, num_cells=SLOT // 4).is_in_force
    with monkeypatch.context() as patch:
        patch.setattr(applying, "SPARE_BYTES", 1 << 60)
        refuse(patch, lambda spec: spec.num_cells > SLOT // 4)
        model_desk.ask("Why?", "writing", **(ENDLESS | {"max_tokens": 200}))
        has_begun(model_desk, "writing")
        model_desk.ask("How? " * 120, "long", **LONG)
        end_of(model_desk, "long")
        first = next(event for event in model_desk.events if isinstance(event, ENDS))
    assert isinstance(first, AnswerFailed)
    assert first.question_id == "long"
    assert isinstance(first.error, NoCells)
    assert isinstance(end_of(model_desk, "writing"), AnswerFinished)


def test_where_no_plan_has_more_cells_an_answer_ends_with_those_there_are_and_that_is_told(model_desk, monkeypatch):
    assert placed(model_desk, num_slots=1, num_cells=SLOT // 2).is_in_force
    planner = model_desk.loader.planner
    planned = planner.planning
    monkeypatch.setattr(planner, "planning", lambda *what: replace(planned(*what), num_cells=SLOT // 2))
    model_desk.ask("How?", "q", **ENDLESS)
    assert end_of(model_desk, "q").answer.finish_reason == "length"
    [settled] = grown(model_desk)
    assert not settled.is_in_force
    assert settled.sentence.startswith("There is no room for ")


def test_a_placement_for_a_model_that_is_not_loaded_any_more_is_passed_over(model_desk, tmp_path: Path):
    wanted = replace(model_desk.loader.placement, **slots(8))
    model_desk.worker.apply(wanted, tmp_path / "other.gguf")
    assert not model_desk.wait_for(lambda event: isinstance(event, PlacementSettled)).is_in_force
    model_desk.worker.use(UseModel(None))
    model_desk.worker.apply(wanted)
    assert not model_desk.wait_for(lambda event: isinstance(event, PlacementSettled)).is_in_force


def test_a_placement_that_does_not_fit_the_model_is_passed_over_and_costs_no_answer(model_desk):
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    assert not placed(model_desk, num_layers=model_desk.loader.placement.num_layers + 1).is_in_force
    assert isinstance(end_of(model_desk, "q"), AnswerFinished)


def test_a_change_of_the_model_goes_before_a_change_of_its_placement(model_desk, endless: Path):
    running = model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    wanted = replace(model_desk.loader.placement, **slots(8))
    model_desk.worker.use(UseModel(None))
    model_desk.worker.apply(wanted)
    settled = model_desk.wait_for(lambda event: isinstance(event, PlacementSettled))
    assert (settled.is_in_force, settled.sentence) == (False, "Another model was chosen meanwhile.")
    running.cancelled.set()
    model_desk.model_state("none")


def test_of_several_placements_the_newest_counts(model_desk):
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    for count in (8, 16, 6):
        model_desk.worker.apply(replace(model_desk.loader.placement, **slots(count)))
    model_desk.wait_until(lambda: model_desk.loader.placement.num_slots == 6)
    assert isinstance(end_of(model_desk, "q"), AnswerFinished)


def test_what_the_settings_say_is_in_force_once_it_is_placed_so(model_desk):
    chosen = model_desk.settings.generation.model_copy(update={"n_ubatch": 64})
    model_desk.settings = model_desk.settings.model_copy(update={"generation": chosen})
    model_desk.worker.apply_settings()
    model_desk.wait_until(lambda: model_desk.loader.pending)
    placed(model_desk, n_ubatch=64)
    assert model_desk.loader.pending == ""


def test_the_demand_of_a_loaded_model_follows_the_settings(model_desk):
    assert model_desk.loader.demand.parallel_answers == 4
    chosen = model_desk.settings.generation.model_copy(update={"parallel_answers": 9})
    model_desk.settings = model_desk.settings.model_copy(update={"generation": chosen})
    assert model_desk.loader.demand.parallel_answers == 9
    assert model_desk.loader.demand.shape.num_layers == model_desk.loader.placement.num_layers


def test_two_contexts_fit_only_where_both_tiers_have_room(model_desk):
    loaded = model_desk.loader.loaded_now
    plan = loaded.plan.placed(replace(loaded.plan.placement, **slots(48)))
    needed = plan.shape.kv_bytes(48 * SLOT) + sum(loaded.context.compute_bytes.values()) + applying.SPARE_BYTES

    def machine(ram_free: int) -> Hardware:
        return Hardware(1 << 40, ram_free, 1 << 40, 1 << 40, 0)

    assert applying._both_fit(loaded, plan, machine(needed), Ledger(), Budgets())
    assert not applying._both_fit(loaded, plan, machine(needed - 1), Ledger(), Budgets())


def test_what_we_hold_of_a_card_is_not_free_whatever_its_driver_says(model_desk):
    loaded, ledger = model_desk.loader.loaded_now, Ledger()
    plan = loaded.plan.placed(replace(loaded.plan.placement, n_gpu_layers=99, **slots(48)))
    capacity = 1 << 34
    machine = Hardware(1 << 40, 1 << 40, 1 << 40, 1 << 40, 0, (Device("GPU0", "A card", capacity, capacity),))
    assert applying._both_fit(loaded, plan, machine, ledger, Budgets())
    ledger.take("weights", "all of it", "gpu", capacity)
    assert not applying._both_fit(loaded, plan, machine, ledger, Budgets())


def test_two_contexts_keep_to_the_budget_that_one_of_them_keeps_to(model_desk):
    loaded, ledger = model_desk.loader.loaded_now, Ledger()
    plan = loaded.plan.placed(replace(loaded.plan.placement, **slots(48)))
    needed = plan.shape.kv_bytes(48 * SLOT) + sum(loaded.context.compute_bytes.values()) + applying.SPARE_BYTES
    machine = Hardware(1 << 40, 1 << 40, 1 << 40, 1 << 40, 0)
    ledger.take("weights", "all of it", "ram", 1 << 30)
    assert applying._both_fit(loaded, plan, machine, ledger, Budgets(ram_bytes=(1 << 30) + needed))
    assert not applying._both_fit(loaded, plan, machine, ledger, Budgets(ram_bytes=(1 << 30) + needed - 1))


def test_nothing_is_placed_otherwise_while_the_engine_closes(model_desk):
    before = model_desk.loader.loaded_now
    model_desk.loader.close()
    settled = placed(model_desk, is_repacked=False)
    assert not settled.is_in_force
    assert model_desk.loader.loaded_now is before
