"""Tests for engine.generation.applying: layers that are streamed, and others of them, while answers are written."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import NotStreamable
from engine.events import AnswerFailed, AnswerFinished, MemoryShort
from engine.generation import load_plan, opening
from engine.generation.commands import UseModel
from engine.generation.context import Context, Stretch
from engine.generation.model import Model
from engine.generation.weights.direct_reads import DirectFiles
from engine.memory.demand import Demand
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement
from tests.engine.generation.conftest import Desk
from tests.helpers.placing import (
    ENDLESS,
    LONG,
    SLOT,
    ask_all,
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

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Layers are streamed only on Linux.")
NUM_LAYERS = 6
STREAMED = {"is_repacked": False, "streamed_layers": (1, 3, 5), "ring_slots": 2}


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its layers are larger than pages."""
    path = tmp_path_factory.mktemp("layered") / "m.gguf"
    return write_tiny_model(path, layers=NUM_LAYERS, dim=128, ff=352, context=SLOT, never_ends=True)


@pytest.fixture(scope="module")
def decisive(layered: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return decisive_questions(layered, tmp_path_factory.mktemp("decisive"))


@pytest.fixture
def model_desk(desk: Desk, layered: Path) -> Iterator[Desk]:
    yield from serving(desk, layered, check_weights)


def check_weights(desk: Desk) -> None:
    """The ledger has each layer once, where it lies, and nothing twice."""
    loaded = desk.loader.loaded_now
    spans = {span.what: span for span in desk.ledger.spans() if span.owner == "weights"}
    assert len(spans) == sum(span.owner == "weights" for span in desk.ledger.spans())
    streamed = set(loaded.plan.placement.streamed_layers)
    for layer in range(NUM_LAYERS):
        assert spans[f"layer {layer}"].tier == ("disk" if layer in streamed else "ram")
    assert len([what for what in spans if what.startswith("slot ")]) == min(
        len(streamed), loaded.plan.placement.ring_slots
    )


def plan_streamed(desk: Desk) -> None:
    """Makes the planner stream some layers of each model from the start."""

    def planning(hardware: Hardware, demand: Demand) -> Placement:
        placement = load_plan.unmeasured(hardware, demand)
        return replace(placement, **STREAMED) if demand.is_streamable else replace(placement, is_repacked=False)

    desk.loader.planner.planning = planning


def test_a_model_is_loaded_with_its_layers_streamed_and_writes_what_it_writes_whole(desk, layered, decisive):
    plan_streamed(desk)
    desk.worker.use(UseModel(layered))
    desk.model_state("loaded")
    ask_all(desk, decisive)
    assert texts_of(desk, list(decisive)) == decisive
    check_weights(desk)
    loaded = desk.loader.loaded_now
    assert loaded.stream.streamed == (1, 3, 5)
    desk.wait_until(lambda: desk.worker.counters.get("streamed_bytes_total", 0) > 0)


@pytest.mark.expects_warnings
def test_a_model_whose_drive_went_away_is_loaded_anew_once_it_is_back(desk, layered, decisive, monkeypatch):
    plan_streamed(desk)
    desk.worker.use(UseModel(layered))
    desk.model_state("loaded")
    read, opened_before = DirectFiles.read, desk.loader.loaded_now.stream._homes._files

    def read_unless_lost(files: DirectFiles, *what: object) -> None:
        # What was open when the drive was removed fails for ever, also after it has come back.
        if files is opened_before:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        read(files, *what)

    monkeypatch.setattr(DirectFiles, "read", read_unless_lost)
    desk.ask("lost", "lost", **LONG)
    lost = end_of(desk, "lost")
    assert isinstance(lost, AnswerFailed)
    assert "Input/output error" in str(lost)
    ask_all(desk, decisive)
    assert texts_of(desk, list(decisive)) == decisive
    assert desk.loader.loaded_now.stream.streamed == (1, 3, 5)


def test_a_model_that_cannot_be_streamed_is_left_to_the_system_and_says_so(desk, layered, decisive, monkeypatch):
    def refuse_to_stream(*what: object, **named: object) -> None:
        raise NotStreamable("Its layers lie across each other.")

    monkeypatch.setattr(opening, "LayerStream", refuse_to_stream)
    plan_streamed(desk)
    desk.worker.use(UseModel(layered))
    desk.model_state("loaded")
    assert desk.loader.decision.endswith(
        "Its layers lie across each other. The system reads of its file what is needed, which may be slow."
    )
    assert (desk.loader.placement.streamed_layers, desk.loader.demand.is_streamable) == ((), False)
    ask_all(desk, decisive)
    assert texts_of(desk, list(decisive)) == decisive
    check_weights(desk)


def test_a_model_that_turns_out_not_to_be_streamable_goes_on_without_and_says_so(model_desk, decisive, monkeypatch):
    def refuse_to_stream(*what: object, **named: object) -> None:
        raise NotStreamable("Its layers lie across each other.")

    monkeypatch.setattr(opening, "LayerStream", refuse_to_stream)
    ask_all(model_desk, decisive)
    settled = placed(model_desk, **STREAMED)
    assert not settled.is_in_force
    assert settled.sentence.startswith("Its layers lie across each other. The system reads of its file what is needed")
    assert (model_desk.loader.placement.streamed_layers, model_desk.loader.demand.is_streamable) == ((), False)
    assert texts_of(model_desk, list(decisive)) == decisive


def test_layers_that_came_back_are_streamed_again_without_a_load(model_desk, decisive, monkeypatch):
    ask_all(model_desk, decisive)
    assert placed(model_desk, **STREAMED).is_in_force
    assert placed(model_desk, streamed_layers=(), ring_slots=0, can_leave=True).is_in_force
    monkeypatch.setattr(Model, "load", lambda *what, **named: pytest.fail("loaded again"))
    assert placed(model_desk, **STREAMED).is_in_force
    check_weights(model_desk)
    assert texts_of(model_desk, list(decisive)) == decisive


def test_a_streamed_model_that_is_left_to_the_system_is_loaded_again_and_not_pinned_whole(model_desk, decisive):
    ask_all(model_desk, decisive)
    assert placed(model_desk, **STREAMED).is_in_force
    assert placed(model_desk, streamed_layers=(), ring_slots=0).is_in_force
    assert model_desk.loader.loaded_now.stream is None
    assert texts_of(model_desk, list(decisive)) == decisive


def test_layers_begin_to_be_streamed_and_all_come_back_under_running_answers(model_desk, decisive):
    ask_all(model_desk, decisive)
    settled = placed(model_desk, **STREAMED)
    assert settled.is_in_force
    assert settled.changed == ("3 layers streamed instead of 0", "weights as they lie in the file")
    check_weights(model_desk)
    assert placed(model_desk, is_repacked=True, streamed_layers=(), ring_slots=0).is_in_force
    assert model_desk.loader.loaded_now.stream is None
    assert texts_of(model_desk, list(decisive)) == decisive


def test_other_layers_are_streamed_without_a_pause_and_in_the_same_context(model_desk, decisive):
    assert placed(model_desk, **STREAMED).is_in_force
    loaded = model_desk.loader.loaded_now
    ask_all(model_desk, decisive)
    running = model_desk.ask("How?", "long", **ENDLESS)
    for streamed, num_slots in (((1, 2, 3, 4, 5), 2), ((3,), 1), ((1, 3, 5), 3), ((), 0)):
        settled = placed(model_desk, streamed_layers=streamed, ring_slots=num_slots, can_leave=not streamed)
        assert settled.is_in_force
        assert settled.pause_seconds == 0
        # A few of them move with each pass.
        model_desk.wait_until(lambda streamed=streamed: loaded.stream.streamed == streamed)
    assert model_desk.loader.loaded_now.context is loaded.context
    running.cancelled.set()
    assert texts_of(model_desk, list(decisive)) == decisive


def test_a_new_context_streams_as_the_one_before(model_desk, decisive):
    assert placed(model_desk, **STREAMED).is_in_force
    ask_all(model_desk, decisive)
    settled = placed(model_desk, **slots(8), streamed_layers=(1, 4), ring_slots=1)
    assert settled.is_in_force
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.stream.streamed == (1, 4))
    assert texts_of(model_desk, list(decisive)) == decisive


def test_a_new_context_over_the_same_weights_costs_no_pass_of_its_own(model_desk, monkeypatch):
    assert placed(model_desk, **STREAMED).is_in_force
    passes, decode = list[int](), Context.decode

    def counted(self: Context, stretches: Sequence[Stretch]) -> list[int]:
        passes.append(sum(len(stretch.tokens) for stretch in stretches))
        return decode(self, stretches)

    monkeypatch.setattr(Context, "decode", counted)
    assert placed(model_desk, **STREAMED, **slots(8)).is_in_force
    assert passes == []
    # Weights that are read again are tried out before there is a question to answer.
    placed(model_desk, is_repacked=True, streamed_layers=(), ring_slots=0)
    assert passes[0] == 1


def test_layers_go_back_to_where_they_were_when_there_is_no_room_for_the_context(model_desk, decisive, monkeypatch):
    assert placed(model_desk, **STREAMED).is_in_force
    refuse(monkeypatch, lambda spec: spec.num_cells == 8 * SLOT)
    ask_all(model_desk, decisive)
    assert not placed(model_desk, **slots(8), streamed_layers=(1, 4)).is_in_force
    model_desk.wait_until(lambda: model_desk.loader.loaded_now.stream.streamed == (1, 3, 5))
    assert texts_of(model_desk, list(decisive)) == decisive


def test_layers_that_cannot_be_moved_stay_where_they_are(model_desk, monkeypatch):
    assert placed(model_desk, **STREAMED).is_in_force

    def refuse_to_move(*what: object) -> None:
        raise NotStreamable("Something else lies there.")

    with monkeypatch.context() as patch:
        patch.setattr(type(model_desk.loader.loaded_now.stream), "retarget", refuse_to_move)
        settled = placed(model_desk, streamed_layers=(1, 2))
    assert (settled.is_in_force, settled.sentence) == (
        False,
        "The layers stay where they are: Something else lies there.",
    )
    model_desk.ask("How?", "q", **LONG)
    assert isinstance(end_of(model_desk, "q"), AnswerFinished)


def test_what_cannot_be_allocated_is_loaded_with_less_and_told(desk, layered, monkeypatch):
    refuse(monkeypatch, lambda spec: spec.num_cells > SLOT)
    desk.worker.use(UseModel(layered))
    desk.model_state("loaded")
    assert desk.loader.placement.num_cells == SLOT
    assert [rung.kind for rung in desk.loader.loaded_now.plan.given_up] == ["fewer_cells", "fewer_cells"]
    told = [event.sentence for event in desk.events if isinstance(event, MemoryShort)]
    assert len(told) == 2
    assert told[0].startswith("There is no room for a context of 4,096 tokens. There is room for 2 answers at once")
    assert desk.loader.decision.endswith("There is room for one answer at a time instead of 2; the others wait.")
    desk.ask("How?", "q", **LONG)
    assert isinstance(end_of(desk, "q"), AnswerFinished)


@pytest.mark.expects_warnings
def test_a_streamed_model_that_cannot_be_had_any_more_gives_everything_back(model_desk, monkeypatch):
    assert placed(model_desk, **STREAMED).is_in_force
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    with monkeypatch.context() as patch:
        refuse(patch, lambda spec: True)
        assert not placed(model_desk, is_repacked=True, streamed_layers=(), ring_slots=0).is_in_force
    assert isinstance(end_of(model_desk, "q"), AnswerFailed)
    model_desk.wait_until(lambda: model_desk.ledger.held_bytes("ram", "weights") == 0)
    model_desk.ask("How?", "again", **LONG)
    assert isinstance(end_of(model_desk, "again"), AnswerFinished)
