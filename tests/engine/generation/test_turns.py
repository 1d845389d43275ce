"""Tests for engine.generation.turns."""

from __future__ import annotations

from pathlib import Path

from engine.core import Evidence, Question, Scope
from engine.generation.commands import RestModel, Stop, Task, UseModel
from engine.generation.time_slices import GROUP_SIZE
from engine.generation.turns import Asked, Turns
from engine.inflight import QuestionInFlight

NOTHING = Evidence((), (), Scope(0, 0, 0))


def task(name: str, priority: str = "interactive") -> Task:
    return Task(QuestionInFlight(Question(name, "How?", priority=priority)), NOTHING)


def names(tasks) -> list[str]:
    return [each.in_flight.question.question_id for each in tasks]


def turns_of(*items) -> Turns:
    turns = Turns()
    for item in items:
        turns.add(item)
    return turns


def test_the_most_urgent_come_first_and_equals_as_they_came():
    turns = turns_of(task("a", "batch"), task("b"), task("c", "idle"), task("d", "batch"), task("e"))
    assert names(turns) == ["b", "e", "a", "d", "c"]
    assert names(turns.take(3)) == ["b", "e", "a"]
    assert names(turns) == ["d", "c"]


def test_whose_answer_cannot_begin_in_time_begins_after_people_whose_can():
    tasks = [task("a"), task("b", "batch"), task("c"), task("d", "batch"), task("e")]
    for moment, one in enumerate(tasks):
        one.in_flight.timeline.marks["asked"] = float(moment)
    turns = turns_of(*tasks)
    assert turns.by_model()[""] == Asked("interactive", (0.0, 2.0, 4.0))
    assert turns.by_model(lambda asked_at: asked_at < 2.0)[""] == Asked("interactive", (2.0, 4.0, 0.0))
    assert turns.by_model(lambda asked_at: True)[""] == Asked("interactive", (0.0, 2.0, 4.0))
    assert names(turns.take(4, is_late=lambda asked_at: asked_at < 2.0)) == ["c", "e", "a", "b"]
    assert names(turns.take()) == ["d"]


def test_scripts_go_by_their_order_and_of_many_questions_those_count_that_begin_next():
    tasks = [task(f"{n}", "batch") for n in range(20)]
    for moment, one in enumerate(tasks):
        one.in_flight.timeline.marks["asked"] = float(moment)
    turns = turns_of(*tasks)
    assert turns.by_model(lambda asked_at: asked_at < 2.0)[""].moments == tuple(map(float, range(GROUP_SIZE)))
    assert names(turns.take(3, is_late=lambda asked_at: asked_at < 2.0)) == ["0", "1", "2"]


def test_who_is_less_urgent_says_nothing_of_a_model_that_somebody_waits_for():
    tasks = [task("late"), task("fresh", "batch")]
    for moment, one in enumerate(tasks):
        one.in_flight.timeline.marks["asked"] = float(moment)
    assert turns_of(*tasks).by_model(lambda asked_at: asked_at < 1.0)[""] == Asked("interactive", (0.0,))


def test_moves_are_counted_when_a_question_comes_or_leaves_and_only_then():
    turns = turns_of(task("a"), task("b"), task("c"))
    counts = [turns.num_moves]
    for move in (
        lambda: turns.take(1),
        turns.take,
        lambda: turns.put_back([task("a")]),
        lambda: next(iter(turns)).in_flight.cancelled.set() or turns.take_cancelled(),
    ):
        move()
        counts.append(turns.num_moves)
    assert len(set(counts)) == 5
    turns.put_back([])
    turns.take()
    turns.take_cancelled()
    turns.add(UseModel(None))
    assert turns.num_moves == counts[-1]


def test_what_is_put_back_goes_before_its_equals_and_behind_what_is_more_urgent():
    turns = turns_of(task("a", "batch"), task("b"), task("c", "batch"))
    first = turns.take(2)
    turns.add(task("d"))
    turns.put_back(first)
    assert names(turns) == ["b", "d", "a", "c"]


def test_no_question_begins_before_the_model_is_changed():
    turns = turns_of(task("a"), UseModel(Path("one")))
    assert turns.take() == []
    assert turns.take_change() == UseModel(Path("one"))
    assert turns.take_change() is None
    assert names(turns.take()) == ["a"]
    assert len(turns) == 0


def test_of_several_changes_the_newest_counts():
    turns = turns_of(UseModel(Path("one")), task("a"), UseModel(None), UseModel(Path("two")))
    assert (len(turns), turns.take_change()) == (2, UseModel(Path("two")))


def test_a_model_rests_once_and_only_while_nothing_waits():
    rest = RestModel(Path("one"))
    turns = turns_of(rest)
    assert not turns
    assert [turns.take_rest(), turns.take_rest()] == [rest, None]
    for waiting in (task("a"), UseModel(None), UseModel(Path("two")), Stop()):
        turns = turns_of(rest, waiting)
        assert [turns.take_rest(), len(turns)] == [None, 1]


def test_who_is_cancelled_leaves_and_the_others_stay_in_their_order():
    turns = turns_of(task("a"), gone := task("b"), UseModel(None), task("c"))
    gone.in_flight.cancelled.set()
    assert names(turns.take_cancelled()) == ["b"]
    assert names(turns) == ["a", "c"]
    assert turns.take_cancelled() == []


def test_the_end_is_something_that_waits():
    turns = turns_of(Stop())
    assert turns
    assert turns.is_ending
    assert turns.take() == []
