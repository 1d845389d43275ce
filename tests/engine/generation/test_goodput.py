"""Tests for engine.generation.goodput."""

from __future__ import annotations

import pytest

from engine.core import Answer, Question, Scope
from engine.errors import RagdollError
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished
from engine.generation.goodput import Goodput, GoodputWatch, came_in_time
from engine.generation.time_slices import Targets
from engine.metrics import Timings

TARGETS = Targets(ttft_seconds=10.0, tpot_seconds=0.25)


def timings(ttft_s: float, total_s: float, num_tokens: int) -> Timings:
    return Timings(0.0, 0.0, 0.0, ttft_s, total_s, prompt_tokens=100, generated_tokens=num_tokens)


def finished(told: Timings, model: str | None = "tiny") -> AnswerFinished:
    return AnswerFinished("q", Answer("In May.", (), (), (), Scope(0, 0, 0), model, "stop", ()), told)


@pytest.mark.parametrize(
    ("told", "is_in_time"),
    [
        (timings(10.0, 12.5, 11), True),
        (timings(10.1, 10.2, 11), False),
        (timings(1.0, 3.6, 11), False),
        # Where nothing follows the first token, nothing is late.
        (timings(1.0, 9.0, 1), True),
        (timings(1.0, 9.0, 0), True),
        (timings(11.0, 11.0, 1), False),
    ],
)
def test_an_answer_is_in_time_if_it_begins_soon_and_goes_on_fast(told: Timings, is_in_time: bool) -> None:
    assert came_in_time(told, TARGETS) is is_in_time


def test_it_is_the_share_of_all_that_were_finished() -> None:
    goodput = Goodput().after(timings(1.0, 2.0, 11), TARGETS).after(timings(11.0, 12.0, 11), TARGETS)
    assert goodput == Goodput(num_finished=2, num_in_time=1)
    assert goodput.counters() == {"answers_in_time_ratio": 0.5}
    assert Goodput().counters() == {}


def test_what_models_wrote_to_the_end_counts_by_the_targets_of_that_moment() -> None:
    targets = [Targets(0.5, 0.25), TARGETS]
    watch = GoodputWatch(lambda: targets.pop(0))
    for event in (
        finished(timings(1.0, 2.0, 11)),
        finished(timings(1.0, 2.0, 11)),
        finished(timings(1.0, 1.0, 0), model=None),
        AnswerCancelled("q"),
    ):
        watch.asked(Question("q", "When?"))
        watch.note(event)
    assert watch.now == Goodput(num_finished=2, num_in_time=1)


def test_only_what_people_asked_counts() -> None:
    watch = GoodputWatch(lambda: TARGETS)
    watch.asked(Question("q", "When?", priority="batch"))
    watch.note(finished(timings(1.0, 2.0, 11)))
    assert watch.now == Goodput()
    watch.asked(Question("q", "When?"))
    watch.note(AnswerFailed("q", RagdollError("No room.")))
    watch.note(finished(timings(1.0, 2.0, 11)))
    assert watch.now == Goodput()
