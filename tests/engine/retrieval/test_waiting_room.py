"""Tests for engine.retrieval.waiting_room."""

from __future__ import annotations

import threading

import pytest

from engine.core import Priority, Question
from engine.events import AnswerCancelled, AnswerStateChanged
from engine.inflight import QuestionInFlight
from engine.retrieval.waiting_room import WaitingRoom

TIMEOUT = 30.0


def in_flight(name: str, priority: Priority = "batch") -> QuestionInFlight:
    return QuestionInFlight(Question(name, name, priority=priority))


def names(taken: object) -> list[str]:
    assert isinstance(taken, list)
    return [one.question.question_id for one in taken]


def room_with(*items: QuestionInFlight | str, num_at_once: int = 32, most_ahead: int = 128) -> WaitingRoom[str]:
    room = WaitingRoom[str](lambda: num_at_once, most_ahead)
    for item in items:
        assert room.put(item)
    return room


def test_people_go_before_scripts_but_not_for_ever() -> None:
    room = room_with(in_flight("script 1"), in_flight("script 2"), in_flight("person", "interactive"))
    assert names(room.take()) == ["person"]
    room.put(in_flight("next person", "interactive"))
    assert names(room.take()) == ["script 1", "script 2"]
    assert names(room.take()) == ["next person"]


def test_other_work_and_scripts_take_turns() -> None:
    room = room_with(in_flight("1"), in_flight("2"), "a list of queries", "more of it", in_flight("3"), num_at_once=2)
    assert room.take() == "a list of queries"
    assert names(room.take()) == ["1", "2"]
    assert room.take() == "more of it"
    assert names(room.take()) == ["3"]


def test_only_what_goes_before_a_question_is_counted() -> None:
    room = room_with(in_flight("1"), in_flight("2"), "a list of queries", in_flight("person", "interactive"))
    assert room.num_before(in_flight("next person", "interactive")) == 1
    assert room.num_before(in_flight("next script")) == 4


def test_as_many_are_taken_together_as_the_batch_holds() -> None:
    room = room_with(*(in_flight(str(number)) for number in range(5)), num_at_once=2)
    assert [names(room.take()) for _ in range(3)] == [["0", "1"], ["2", "3"], ["4"]]


def test_scripts_are_searched_so_far_ahead_and_no_further() -> None:
    room = room_with(*(in_flight(str(number)) for number in range(4)), most_ahead=2)
    assert names(room.take()) == ["0", "1"]
    room.put("a list of queries")
    assert room.take() == "a list of queries"
    room.put(in_flight("person", "interactive"))
    assert names(room.take()) == ["person"]
    assert len(room) == 2
    room.note(AnswerStateChanged("0", "writing"))
    waiting = threading.Timer(0.05, lambda: room.note(AnswerCancelled("0")))
    waiting.start()
    assert names(room.take()) == ["2"]
    waiting.join()


def test_who_is_cancelled_needs_no_room() -> None:
    unwanted = in_flight("1")
    room = room_with(in_flight("0"), unwanted, in_flight("2"), most_ahead=1)
    assert names(room.take()) == ["0"]
    timer = threading.Timer(0.05, unwanted.cancelled.set)
    timer.start()
    assert names(room.take()) == ["1"]
    timer.join()
    assert len(room) == 1


def test_who_is_busy_with_scripts_lets_people_by() -> None:
    room = room_with(in_flight("script"))
    assert room.take_people() == []
    room.put(in_flight("person", "interactive"))
    assert names(room.take_people()) == ["person"]
    assert names(room.take()) == ["script"]


def test_letting_nobody_by_is_no_turn_of_people() -> None:
    room = room_with(in_flight("script 1"), in_flight("script 2"), num_at_once=1)
    assert names(room.take()) == ["script 1"]
    assert room.take_people() == []
    room.put(in_flight("person", "interactive"))
    assert names(room.take()) == ["person"]


def test_a_closed_room_takes_nothing_in_and_gives_up_what_it_has() -> None:
    room = room_with(in_flight("script"), in_flight("person", "interactive"))
    assert room.has_people
    room.close()
    assert not room.has_people
    assert not room.put(in_flight("late"))
    assert room.take() is None
    assert room.take_people() == []
    assert names(room.drain()) == ["person", "script"]
    assert len(room) == 0


@pytest.mark.parametrize("closes", [True, False])
def test_taking_waits_until_something_comes(closes: bool) -> None:
    room, taken = room_with(), list[object]()
    thread = threading.Thread(target=lambda: taken.append(room.take()))
    thread.start()
    if closes:
        room.close()
    else:
        room.put("work")
    thread.join(TIMEOUT)
    assert taken == [None if closes else "work"]
