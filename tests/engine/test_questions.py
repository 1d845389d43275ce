"""Tests for engine.questions and metrics."""

from __future__ import annotations

import pytest

from engine.core import Question
from engine.errors import BadRequest
from engine.events import AnswerCancelled, AnswerFailed
from engine.inflight import QuestionInFlight
from engine.metrics import Timeline, Timings
from engine.questions import OpenQuestions


def test_a_question_ends_once():
    questions = OpenQuestions()
    questions.add(QuestionInFlight(Question("q", "Why?")))
    assert questions.end(AnswerCancelled("q"))
    assert not questions.end(AnswerFailed("q", BadRequest("late")))
    assert questions.all() == ()


def test_an_id_may_be_used_again_only_when_its_question_has_ended():
    questions = OpenQuestions()
    questions.add(QuestionInFlight(Question("q", "Why?")))
    with pytest.raises(BadRequest):
        questions.add(QuestionInFlight(Question("q", "Again?")))
    questions.end(AnswerCancelled("q"))
    questions.add(QuestionInFlight(Question("q", "Again?")))


def test_somebody_waits_for_what_a_person_asked_and_has_not_cancelled():
    questions = OpenQuestions()
    questions.add(QuestionInFlight(Question("many", "Why?", priority="batch")))
    questions.add(QuestionInFlight(Question("ahead", "Why?", priority="idle")))
    assert not questions.has_somebody_waiting
    questions.add(QuestionInFlight(Question("asked", "Why?")))
    assert questions.has_somebody_waiting
    questions.cancel("asked")
    assert not questions.has_somebody_waiting


def test_cancelling_sets_the_flag_and_is_harmless_too_late():
    questions = OpenQuestions()
    in_flight = QuestionInFlight(Question("q", "Why?"))
    questions.add(in_flight)
    questions.cancel("q")
    questions.cancel("unknown")
    assert in_flight.cancelled.is_set()


def test_what_is_cancelled_before_it_is_handed_over_is_not_handed_over():
    questions = OpenQuestions()
    stopped, asked, refused = (QuestionInFlight(Question(name, "Why?")) for name in ("stopped", "asked", "refused"))
    for one in (stopped, asked, refused):
        questions.add(one)
    assert questions.cancel("stopped")
    assert not questions.hand_over(stopped)
    assert questions.end(AnswerCancelled("stopped"))
    again = QuestionInFlight(Question("stopped", "Once more?"))
    questions.add(again)
    assert not questions.hand_over(stopped)
    assert not questions.withdraw(stopped)
    assert questions.hand_over(again)
    assert questions.hand_over(asked)
    assert not questions.cancel("asked")
    assert questions.withdraw(refused)
    assert {one.question.question_id for one in questions.all()} == {"stopped", "asked"}


def test_a_timeline_adds_up():
    timeline = Timeline({"asked": 1.0, "retrieval_started": 1.5, "retrieval_ended": 2.0, "prefill_started": 2.25})
    timeline.marks |= {"first_token": 3.25, "ended": 5.25}
    timeline.prompt_tokens, timeline.generated_tokens = 100, 5
    timings = timeline.timings()
    assert timings == Timings(0.75, 0.5, 1.0, 2.25, 4.25, 100, 5)
    assert timings.queued_s + timings.retrieval_s + timings.prefill_s == timings.ttft_s


def test_a_speed_is_known_once_two_tokens_are_there():
    timeline = Timeline()
    assert timeline.tokens_per_s() == 0.0
    timeline.mark("first_token")
    timeline.marks["first_token"] -= 2.0
    timeline.generated_tokens = 11
    assert 0 < timeline.tokens_per_s() <= 5.0


def test_a_mark_is_set_once():
    timeline = Timeline()
    timeline.mark("first_token")
    first = timeline.marks["first_token"]
    timeline.mark("first_token")
    assert timeline.marks["first_token"] == first
