"""Tests for engine.generation.applying: our own faults on the way, and files that change under a loaded model."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from engine.errors import NoRoomToLoad, NotStreamable
from engine.events import AnswerFailed, AnswerFinished
from engine.generation import applying
from engine.generation.commands import UseModel
from engine.generation.context import Context
from engine.generation.weights import homes
from engine.generation.weights.memory_map import MappingLost
from tests.engine.generation.conftest import Desk
from tests.helpers.placing import (
    ENDLESS,
    SLOT,
    ask_all,
    check,
    decisive_questions,
    end_of,
    end_round,
    has_begun,
    placed,
    serving,
    slots,
    texts_of,
)
from tests.helpers.tiny_gguf import write_tiny_model

STREAMED = {"streamed_layers": (1, 3), "ring_slots": 1, "is_repacked": False}


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return write_tiny_model(
        tmp_path / "m.gguf", layers=4, dim=128, ff=352, heads=4, kv_heads=2, context=SLOT, never_ends=True
    )


@pytest.fixture
def model_desk(desk: Desk, endless: Path) -> Iterator[Desk]:
    yield from serving(desk, endless, check)


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("weights-")]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The contexts that are created from now on."""
    contexts: list[Context] = []
    make = Context.__init__

    def making(self: Context, *what, **how) -> None:
        make(self, *what, **how)
        contexts.append(self)

    monkeypatch.setattr(Context, "__init__", making)
    return contexts


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
@pytest.mark.expects_warnings
@pytest.mark.parametrize("fault", ["_moved", "open_context"])
def test_a_fault_of_ours_behind_new_weights_leaves_nobody_who_reads_into_them(model_desk, monkeypatch, fault: str):
    def break_down(*what: object) -> None:
        assert readers()
        raise MemoryError("no more")

    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    with monkeypatch.context() as patch:
        patch.setattr(applying, fault, break_down)
        assert not placed(model_desk, **STREAMED).is_in_force
        assert isinstance(end_of(model_desk, "q"), AnswerFailed)
    end_round(model_desk)
    assert readers() == []
    assert model_desk.loader.loaded_now is None
    model_desk.ask("How?", "again", max_tokens=4)
    assert isinstance(end_of(model_desk, "again"), AnswerFinished)


@pytest.mark.expects_warnings
def test_a_fault_of_ours_beside_a_second_context_closes_that_too(model_desk, made, monkeypatch):
    def break_down(*what: object) -> None:
        raise MemoryError("no more")

    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    with monkeypatch.context() as patch:
        patch.setattr(applying, "_moved", break_down)
        assert not placed(model_desk, **slots(8)).is_in_force
        assert isinstance(end_of(model_desk, "q"), AnswerFailed)
    end_round(model_desk)
    assert [context.handle for context in made] == [None]


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
def test_layers_that_cannot_go_back_after_a_refusal_cost_no_answer(model_desk, endless, monkeypatch, tmp_path):
    (folder := tmp_path / "decisive").mkdir()
    decisive = decisive_questions(endless, folder)
    assert placed(model_desk, **STREAMED).is_in_force
    ask_all(model_desk, decisive)

    def refuse(*what: object) -> None:
        raise NoRoomToLoad("There is no room for a context.")

    def refuse_to_move(*what: object) -> None:
        raise NotStreamable("Something else lies there.")

    with monkeypatch.context() as patch:
        patch.setattr(applying, "open_context", refuse)
        patch.setattr(model_desk.loader.loaded_now.stream.__class__, "retarget", refuse_to_move)
        assert not placed(model_desk, **slots(8)).is_in_force
    assert texts_of(model_desk, list(decisive)) == decisive
    assert placed(model_desk, streamed_layers=(), ring_slots=0, is_repacked=True).is_in_force


class Ended(Exception):
    """Replaces the end of the process."""


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
@pytest.mark.expects_warnings
def test_a_mapping_that_is_lost_while_layers_move_has_the_next_engine_load_less(desk, endless, monkeypatch):
    def fail(*what: object) -> None:
        raise MappingLost("there is no memory for it")

    def end(sentence: str) -> NoReturn:
        raise Ended

    desk.worker.use(UseModel(endless))
    desk.model_state("loaded")
    assert placed(desk, **STREAMED).is_in_force
    trials = desk.loader.planner.shared.trials
    assert trials.deaths_of(endless) == 0
    with monkeypatch.context() as patch:
        patch.setattr(homes, "map_shared_over", fail)
        patch.setattr(desk.loader.loaded_now.stream._homes, "_end", end)
        assert not placed(desk, **{**STREAMED, "streamed_layers": (1, 2, 3)}).is_in_force
    assert trials.deaths_of(endless) == 1


@pytest.mark.parametrize("becomes", ["gone", "another"])
def test_a_file_that_is_another_by_now_changes_nothing_of_the_model_that_was_loaded_from_it(
    model_desk, endless, tmp_path, becomes: str
):
    model_desk.ask("How?", "q", **ENDLESS)
    has_begun(model_desk, "q")
    if becomes == "another":
        write_tiny_model(tmp_path / "other.gguf", seed=1, layers=4, dim=128, ff=352, context=SLOT).rename(endless)
    else:
        endless.rename(tmp_path / "elsewhere.gguf")
    for change in (slots(8), {"is_repacked": False}):
        settled = placed(model_desk, **change)
        assert not settled.is_in_force
        assert settled.sentence.startswith("The model stays as it is: ")
    assert isinstance(end_of(model_desk, "q"), AnswerFinished)
