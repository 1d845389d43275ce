"""Tests for engine.generation.answering: how long an answer may be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.core import Evidence, Question, SamplingParams, Scope
from engine.generation.answering import Answering
from engine.generation.prompt import Prompt
from engine.generation.segment import Segment
from engine.inflight import QuestionInFlight

NOTHING = Evidence((), (), Scope(0, 0, 0))
CONTEXT_TOKENS, PROMPT_TOKENS = 1000, 300
SPEAKER: Any = SimpleNamespace(context_tokens=CONTEXT_TOKENS, thinking=lambda *_: None)


def answering(sampling: SamplingParams) -> Answering:
    in_flight = QuestionInFlight(Question("q", "How?", sampling=sampling))
    return Answering(
        in_flight,
        NOTHING,
        Prompt((Segment(tuple(range(PROMPT_TOKENS))),), (), (), PROMPT_TOKENS),
        SPEAKER,
        lambda event: None,
    )


@pytest.mark.parametrize(
    ("sampling", "most"),
    [
        (SamplingParams(max_tokens=100), 100),
        (SamplingParams(max_tokens=5000), CONTEXT_TOKENS - PROMPT_TOKENS),
        (SamplingParams(max_tokens=100, is_open_ended=True), CONTEXT_TOKENS - PROMPT_TOKENS),
    ],
)
def test_an_answer_has_the_room_that_the_prompt_leaves_or_as_much_as_was_asked_for(sampling: SamplingParams, most: int):
    assert answering(sampling).request.sampling.max_tokens == most


def test_for_an_open_ended_answer_as_much_is_kept_free_as_is_usual_however_long_it_is():
    usual, open_ended = (answering(SamplingParams(max_tokens=100, is_open_ended=is_open)) for is_open in (False, True))
    assert usual.room == open_ended.room == CONTEXT_TOKENS - PROMPT_TOKENS - 100
    for one in (usual, open_ended):
        one.in_flight.timeline.generated_tokens = 200
    # What may have come to its end needs no more room; what goes on does.
    assert usual.room == CONTEXT_TOKENS - PROMPT_TOKENS - 200
    assert open_ended.room == CONTEXT_TOKENS - PROMPT_TOKENS - 300
