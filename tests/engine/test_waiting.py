"""Tests for engine.waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.errors import GenerationError, ModelNotFound
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed
from engine.waiting import finished, in_turn


def test_ends_are_told_in_turn_and_none_waits_for_what_comes_after_it():
    def ends() -> Iterator[tuple[int, AnswerEnded]]:
        for number in (2, 0, 1, 4, 3):
            come.append(number)
            yield number, AnswerCancelled(str(number))

    come = list[int]()
    told = in_turn(ends())
    assert next(told) == AnswerCancelled("0")
    assert come == [2, 0]
    assert [end.question_id for end in told] == ["1", "2", "3", "4"]


def test_why_there_is_no_answer_is_raised():
    with pytest.raises(ModelNotFound):
        finished(AnswerFailed("1", ModelNotFound("There is none.")))
    with pytest.raises(GenerationError, match="cancelled"):
        finished(AnswerCancelled("1"))


def test_where_a_model_fails_all_what_had_ended_before_its_turn_is_told_first():
    def ends() -> Iterator[tuple[int, AnswerEnded]]:
        for number in (1, 3):
            yield number, AnswerCancelled(str(number))
        raise fault

    fault = ModelNotFound("It is gone.")
    turns = in_turn(ends())
    told = [next(turns) for _ in range(4)]
    with pytest.raises(ModelNotFound, match="It is gone"):
        next(turns)
    assert [end.question_id for end in told] == ["", "1", "", "3"]
    assert [getattr(end, "error", None) for end in told] == [fault, None, fault, None]
