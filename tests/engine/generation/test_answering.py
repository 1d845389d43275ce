"""Tests for engine.generation.answering: how long an answer may be, and how the next prompt holds it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.core import Evidence, Question, SamplingParams, Scope
from engine.events import AnswerFinished
from engine.generation.answering import Answering
from engine.generation.chat_template import PLAIN_ENDS
from engine.generation.prompt import Prompt, compose
from engine.generation.request import RequestFinished, Written
from engine.generation.segment import Segment
from engine.generation.speaker import Speaker
from engine.generation.transcript import turns_of_transcript
from engine.inflight import QuestionInFlight

NOTHING = Evidence((), (), Scope(0, 0, 0))
CONTEXT_TOKENS, PROMPT_TOKENS = 1000, 300
SPEAKER: Any = SimpleNamespace(
    context_tokens=CONTEXT_TOKENS,
    thinking=lambda *_: None,
    told=lambda is_to_think: SimpleNamespace(thinks=False),
    name="tiny",
    signature="tiny",
    keeps_thoughts=False,
)


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


@pytest.mark.parametrize(("is_cut_within", "tokens"), [(False, (1, 2)), (True, ())])
def test_where_a_stop_string_began_within_a_token_the_next_prompt_holds_the_text(is_cut_within: bool, tokens):
    one = answering(SamplingParams(max_tokens=100))
    one.begin()
    end = one.take(RequestFinished("q", (Written("Blue.", (1, 2), "stop", is_cut_within=is_cut_within),)))
    assert isinstance(end, AnswerFinished)
    [turn] = turns_of_transcript(end.answer.segments, ())
    assert (turn.answer, turn.tokens) == ("Blue.", tokens)
    # Of the third there is text.
    assert end.timings.generated_tokens == 2 + is_cut_within


@pytest.mark.parametrize(
    ("sampling", "ends"),
    [(SamplingParams(stop=("END",)), ("END", *PLAIN_ENDS)), (SamplingParams(grammar='root ::= "a"'), ())],
)
def test_a_model_without_a_template_ends_where_it_would_ask_itself(sampling: SamplingParams, ends: tuple[str, ...]):
    speaker = Speaker(None, lambda text, is_markup: [1] * len(text), CONTEXT_TOKENS)
    in_flight = QuestionInFlight(Question("q", "How?", sampling=sampling))
    one = Answering(in_flight, NOTHING, compose("How?", (), (), speaker, 100), speaker, lambda event: None)
    assert one.request.sampling.stop == ends
