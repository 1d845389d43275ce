"""Tests for engine.generation.under_way: what a step costs where hundreds wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from engine.core import Evidence, Question, Scope
from engine.generation.answering import Answering
from engine.generation.prompt import Prompt
from engine.generation.reading_ahead import Guess
from engine.generation.request import TextWritten
from engine.generation.under_way import FLAGS_LOOKED_AT, UnderWay
from engine.inflight import QuestionInFlight

NUM_WAITING = 1000
PROMPT = Prompt((), (), (), num_tokens=0)
SPEAKER: Any = None
NOTHING = Evidence((), (), Scope(0, 0, 0))


class Flag:
    """Counts how often it is looked at, over all of them."""

    def __init__(self, looks: list[int]) -> None:
        self._looks, self._is_up = looks, False

    def set(self) -> None:
        self._is_up = True

    def is_set(self) -> bool:
        self._looks.append(1)
        return self._is_up


@dataclass
class Loop:
    """Has some running, and is told which are not wanted any more."""

    running: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def answers_of(self, request_id: str) -> tuple[()]:
        return ()


class Crowd:
    """As many questions as may wait, and a loop that answers none of them."""

    def __init__(self) -> None:
        self.under_way = UnderWay(lambda ids: ids, lambda: 0.0, lambda event: None)
        self.loop, self.looks = Loop(), list[int]()
        self.loaded: Any = SimpleNamespace(loop=self.loop)
        for number in range(NUM_WAITING):
            flag: Any = Flag(self.looks)
            in_flight = QuestionInFlight(Question(f"q{number}", "How?"), cancelled=flag)
            self.under_way._answering[f"q{number}"] = Answering(in_flight, NOTHING, PROMPT, SPEAKER, lambda event: None)

    def cancel(self, number: int) -> None:
        self.under_way._answering[f"q{number}"].in_flight.cancelled.set()

    def step(self) -> list[str]:
        """Those that the loop was told not to go on with."""
        self.loop.cancelled.clear()
        self.under_way.cancel_unwanted(self.loaded)
        return list(self.loop.cancelled)


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def test_a_step_looks_at_the_flags_of_some_who_wait(crowd):
    crowd.step()
    assert len(crowd.looks) == FLAGS_LOOKED_AT


def test_who_has_cells_is_cancelled_at_the_next_step_whoever_else_waits(crowd):
    crowd.loop.running = [f"q{NUM_WAITING - 1}", "somebody else"]
    crowd.step()
    crowd.cancel(NUM_WAITING - 1)
    assert crowd.step() == [f"q{NUM_WAITING - 1}"]


def test_everybody_who_waits_is_cancelled_within_a_few_steps(crowd):
    crowd.step()
    for number in range(NUM_WAITING):
        crowd.cancel(number)
    told = [question_id for _ in range(2 * NUM_WAITING // FLAGS_LOOKED_AT) for question_id in crowd.step()]
    assert set(told) == {f"q{number}" for number in range(NUM_WAITING)}


def test_where_few_wait_all_flags_are_looked_at_in_each_step(crowd):
    for number in range(FLAGS_LOOKED_AT, NUM_WAITING):
        del crowd.under_way._answering[f"q{number}"]
    for _ in range(40):
        crowd.step()
    crowd.cancel(3)
    crowd.cancel(FLAGS_LOOKED_AT - 1)
    assert sorted(crowd.step()) == ["q3", f"q{FLAGS_LOOKED_AT - 1}"]


def test_who_ends_while_another_model_is_loaded_keeps_nothing_of_what_was_removed_unseen(crowd):
    crowd.under_way.forget_removed()
    crowd.cancel(3)
    crowd.under_way.end_cancelled(crowd.loaded)
    # The loop, which keeps what was read, learns of it by the next step.
    assert not crowd.under_way.has_kept_removed()
    assert "q3" in crowd.step()
    assert crowd.under_way.has_kept_removed()


def test_nobody_is_gone_through_for_what_was_removed_while_nothing_was(crowd, monkeypatch):
    monkeypatch.setattr(crowd.under_way, "_ids", lambda: pytest.fail("went through all"))
    assert not crowd.under_way.has_kept_removed()


@pytest.mark.expects_warnings
def test_of_a_question_that_has_failed_here_nothing_is_computed_on(crowd, monkeypatch):
    monkeypatch.setattr(Answering, "take", lambda self, event: 1 / 0)
    crowd.under_way._tell(TextWritten("q7", "word", 1))
    assert not crowd.under_way.answers("q7")
    assert crowd.step() == ["q7"]


def test_nobody_is_gone_through_for_looks_while_nothing_is_looked_for(crowd):
    class Untouched(dict[str, Answering]):
        def __iter__(self):
            pytest.fail("went through all")

        values = items = keys = __iter__

    assert not crowd.under_way._refreshes.holds_up(Untouched(crowd.under_way._answering))


def test_a_model_whose_turn_ends_reads_on_only_for_those_who_have_asked(crowd):
    for question_id in ("q1", "not asked yet"):
        in_flight = QuestionInFlight(Question(question_id, "How?"))
        crowd.under_way._ahead._guesses[question_id] = Guess(in_flight, f"{question_id} ahead", (), PROMPT)
    crowd.under_way.end_turn(crowd.loaded)
    assert crowd.loop.cancelled == ["not asked yet ahead"]
    assert crowd.under_way._ahead.reading() == {"q1"}
