"""Tests for engine.generation.loader: what happens before anything of a model is in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from engine.errors import LoadAbandoned, ModelError, NoRoomToLoad
from engine.events import Event, ModelStateChanged
from engine.generation import loader as loading
from engine.generation.loaded import LoadedModel
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from tests.helpers.loaders import loader_in


class Loads:
    """A loader, and what there was each time that it asked for room."""

    def __init__(self, folder: Path, is_closed: bool = False) -> None:
        self.ledger, self.events = Ledger(), list[Event]()
        self.asked: list[Placement] = []
        self.states: list[str] = []
        self.was_given_up: list[bool] = []
        self._is_closed = is_closed
        self.loader = loader_in(folder, self.events.append, self.ledger, make_room=self._make_room)

    def _make_room(self, placement: Placement, is_given_up: Callable[[], bool]) -> None:
        assert self.ledger.held_bytes("ram") == 0
        if self._is_closed:
            self.loader.close()
        self.asked.append(placement)
        self.states.append(self.events[-1].state if isinstance(self.events[-1], ModelStateChanged) else "")
        self.was_given_up.append(is_given_up())


def test_room_is_made_for_what_is_planned_once_it_is_told_that_a_model_is_loaded(tmp_path: Path, tiny_model: Path):
    loads = Loads(tmp_path)
    loads.loader.load(tiny_model, None)
    assert loads.asked == [loads.loader.placement]
    assert (loads.states, loads.was_given_up) == (["loading"], [False])
    loads.loader.end()


def test_each_attempt_has_room_made_for_its_own_plan(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    loads, build = Loads(tmp_path), loading.build

    def refusing(*arguments: object):
        if len(loads.asked) == 1:
            raise NoRoomToLoad("There is no room.")
        return build(*arguments)

    monkeypatch.setattr(loading, "build", refusing)
    loads.loader.load(tiny_model, None)
    first, second = loads.asked
    assert first.num_cells > second.num_cells
    assert second == loads.loader.placement
    loads.loader.end()


def test_whoever_makes_room_learns_that_nobody_wants_it_any_more(tmp_path: Path, tiny_model: Path):
    loads = Loads(tmp_path, is_closed=True)
    with pytest.raises(ModelError):
        loads.loader.load(tiny_model, None)
    assert loads.was_given_up == [True]
    loads.loader.end()


def test_whoever_cancels_a_question_is_heard_while_room_is_made(tmp_path: Path, tiny_model: Path):
    heard, looks = list[str](), list[int]()

    def make_room(placement: Placement, is_given_up: Callable[[], bool]) -> None:
        before = len(heard)
        assert not is_given_up()
        looks.append(len(heard) - before)

    loader = loader_in(tmp_path, list[Event]().append, Ledger(), make_room=make_room)
    loader.while_loading = lambda: heard.append("")
    loader.load(tiny_model, None)
    assert looks == [1]
    loader.end()


def test_a_load_that_nobody_wants_any_more_is_told_to_be_over(tmp_path: Path, tiny_model: Path):
    loads = Loads(tmp_path)
    loads.loader.while_loading = loads.loader.abandon_loading
    with pytest.raises(LoadAbandoned):
        loads.loader.load(tiny_model, None)
    told = [event for event in loads.events if isinstance(event, ModelStateChanged)]
    assert [event.state for event in told][:: len(told) - 1] == ["loading", "none"]
    assert {event.path for event in told} == {str(tiny_model)}
    loads.loader.end()


def test_a_load_that_fails_for_no_known_reason_is_told_to_be_over(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
):
    loads = Loads(tmp_path)
    monkeypatch.setattr(loading, "build", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loads.loader.load(tiny_model, None)
    last = loads.events[-1]
    assert isinstance(last, ModelStateChanged)
    assert (last.state, last.path) == ("none", str(tiny_model))
    loads.loader.end()


@pytest.mark.parametrize("unpacked", ["for_now", "for_good", None])
def test_only_what_never_changes_is_held_against_a_model_for_good(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, unpacked: Literal["for_now", "for_good"] | None
):
    loads, build = Loads(tmp_path), loading.build

    def built(*arguments: Any) -> LoadedModel:
        loaded = build(*arguments)
        return replace(loaded, plan=replace(loaded.plan, unpacked=unpacked))

    monkeypatch.setattr(loading, "build", built)
    loads.loader.load(tiny_model, None)
    noted = loads.loader.planner.shared.not_packed
    loads.loader.reset_failures(tiny_model)
    kept = loads.loader.planner.shared.not_packed
    assert (tiny_model in noted, tiny_model in kept) == (unpacked is not None, unpacked == "for_good")
    assert noted.get(tiny_model, 0) is None or unpacked != "for_good"
    loads.loader.end()


def test_a_model_that_rests_is_told_to_have_left_though_it_is_still_the_chosen_one(tmp_path: Path, tiny_model: Path):
    loads = Loads(tmp_path)
    loads.loader.load(tiny_model, None)
    loads.loader.rest()
    assert loads.events[-1] == ModelStateChanged("none", str(tiny_model), "tiny-llama")
    assert loads.loader.wanted == tiny_model
    loads.loader.end()
