"""Tests for engine.generation.reading_ahead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from engine.core import Question, SamplingParams
from engine.generation.reading_ahead import ReadingAhead, is_ahead
from engine.generation.request import PromptRead, Request, RequestCancelled, RequestFinished
from engine.inflight import QuestionInFlight
from tests.helpers.answers import passage


class Loop:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.submitted: list[Request] = []
        self.cancelled: list[str] = []

    def submit(self, request: Request) -> None:
        self.submitted.append(request)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)


def test_what_is_said_of_a_guess_is_not_taken_for_the_one_in_its_place() -> None:
    loop: Any = Loop()
    ahead, prompt = ReadingAhead(), SimpleNamespace(segments=())
    in_flight = QuestionInFlight(Question("q", "How?", sampling=SamplingParams()))
    first, second = (passage(1),), (passage(2),)
    for passages in (first, second):
        ahead.begin(loop, in_flight, passages, prompt)  # type: ignore[arg-type]
    ids = [request.request_id for request in loop.submitted]
    assert loop.cancelled == ids[:1]
    assert len(set(ids)) == 2

    late, read = RequestCancelled(ids[0], ()), PromptRead(ids[1], 7, 3, 0.5)
    assert all(map(is_ahead, (late, read)))
    assert ahead.take(late) is None
    assert ahead.reading() == {"q"}
    assert ahead.take(read) is None
    assert ahead.take(RequestFinished(ids[1], ())) == "q"
    guess = ahead.settle("q", second)
    assert guess is not None
    assert (guess.passages, guess.has_ended) == (second, True)
