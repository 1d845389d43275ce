"""Tests for engine.generation.queue_positions."""

from __future__ import annotations

import pytest

from engine.core import Question
from engine.events import AnswerStateChanged, Event
from engine.generation import queue_positions
from engine.generation.queue_positions import QueuePositions
from engine.inflight import QuestionInFlight


def waiting(names: str) -> list[QuestionInFlight]:
    return [QuestionInFlight(Question(name, "How?")) for name in names]


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def line(told: list[Event]) -> QueuePositions:
    return QueuePositions(told.append)


def places_told(told: list[Event]) -> list[tuple[str, int]]:
    """What was reported since the last time."""
    said = [(event.question_id, event.ahead) for event in told if isinstance(event, AnswerStateChanged)]
    told.clear()
    return said


def test_everybody_is_told_at_first_and_again_only_when_it_changes(line, told):
    line.report(waiting("abc"))
    assert places_told(told) == [("a", 0), ("b", 1), ("c", 2)]
    line.report(waiting("abc"))
    assert places_told(told) == []
    line.report(waiting("bxc"))
    assert places_told(told) == [("b", 0), ("x", 1)]


def test_only_those_who_are_near_are_told_that_they_moved_up(line, told, monkeypatch):
    monkeypatch.setattr(queue_positions, "POSITIONS_REPORTED", 2)
    line.report(waiting("abcdef"))
    assert len(places_told(told)) == 6
    line.report(waiting("bcdef"))
    assert places_told(told) == [("b", 0), ("c", 1)]
    line.report(waiting("def"))
    assert places_told(told) == [("d", 0), ("e", 1)]


def test_the_queue_is_only_looked_at_when_it_has_moved(line, told):
    looks: list[int] = []

    def look() -> list[QuestionInFlight]:
        looks.append(1)
        return waiting("ab")

    for num_moves in (0, 1, 1, 3, 3):
        line.follow(num_moves, look)
    assert len(looks) == 2
    assert places_told(told) == [("a", 0), ("b", 1)]


def test_who_begins_and_has_to_wait_again_is_told_again(line, told):
    line.report(waiting("a"))
    line.report([])
    line.report(waiting("a"))
    assert places_told(told) == [("a", 0), ("a", 0)]
