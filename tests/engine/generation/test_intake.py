"""Tests for engine.generation.intake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.core import SamplingParams
from engine.errors import BadRequest, PromptTooLong
from engine.generation.intake import Intake, Makers
from engine.generation.request import Request
from engine.generation.sequence import Guess
from engine.generation.vocabulary import Vocabulary
from tests.helpers.loop_parts import PLAIN, FakeModel, Script, ScriptedBeams, prompt


class Made:
    """What was made of each kind."""

    def __init__(self) -> None:
        self.samplers: list[SamplingParams] = []
        self.scripts: list[Script] = []
        self.drafters: list[str] = []
        self.beams: list[SamplingParams] = []

    def sampler(self, model: Any, params: SamplingParams) -> Script:
        self.samplers.append(params)
        self.scripts.append(Script([1, 2]))
        return self.scripts[-1]

    def drafter(self, request: Request) -> None:
        self.drafters.append(request.request_id)

    def search(self, model: Any, params: SamplingParams, vocabulary: Vocabulary, thinking: object) -> ScriptedBeams:
        self.beams.append(params)
        return ScriptedBeams()


@pytest.fixture
def made() -> Made:
    return Made()


def intake(makers: Makers) -> Intake:
    model: Any = FakeModel()
    return Intake(model, makers, Vocabulary(model), num_cells=64, max_sequences=4)


def request(num_tokens: int = 10, **sampling: Any) -> Request:
    return Request("r", prompt(1, num_tokens) if num_tokens else (), replace(PLAIN, **sampling))


def test_a_request_becomes_a_group_that_waits_since_now(made: Made) -> None:
    taking = intake(Makers(made.sampler, made.drafter))
    first, second = taking.take(request(), 3.0), taking.take(request(), 4.0)
    assert (first.arrival, second.arrival) == (1, 2)
    assert (first.waiting_since, second.waiting_since) == (3.0, 4.0)
    assert first.lead.tokens == list(range(1, 11))
    assert first.lead.prompt_length == 10
    assert first.lead.max_tokens == PLAIN.max_tokens


def test_what_chooses_and_guesses_is_made_at_the_first_token(made: Made) -> None:
    group = intake(Makers(made.sampler, made.drafter)).take(request(num_answers=2, seed=5), 0.0)
    assert (made.samplers, made.drafters) == ([], [])
    second = group.sequences[1]
    assert [second.choose(None, 0), second.choose(None, 0)] == [1, 2]  # type: ignore[arg-type]
    assert [params.seed for params in made.samplers] == [6]
    assert (second.guess(4), second.guess(4)) == (Guess(), Guess())
    assert made.drafters == ["r"]


def test_an_answer_that_goes_on_is_chosen_behind_what_was_written_of_it(made: Made) -> None:
    going_on = Request("r", prompt(1, 10, 3), replace(PLAIN, max_tokens=4), goes_on=True)
    group = intake(Makers(made.sampler)).take(going_on, 0.0)
    assert (group.prompt_length, group.lead.max_tokens) == (13, 4)
    assert group.lead.choose(None, 0) == 1  # type: ignore[arg-type]
    assert [script.accepted for script in made.scripts] == [[11, 12, 13]]


def test_an_answer_that_has_ended_makes_nothing_any_more(made: Made) -> None:
    group = intake(Makers(made.sampler)).take(request(), 0.0)
    group.lead.close()
    with pytest.raises(ValueError, match="without a sampler"):
        group.lead.choose(None, 0)  # type: ignore[arg-type]
    assert made.samplers == []


def test_a_search_has_one_sequence_at_first_and_neither_sampler_nor_drafter(made: Made) -> None:
    group = intake(Makers(made.sampler, made.drafter, made.search)).take(request(beam_width=3), 0.0)
    assert isinstance(group.beams, ScriptedBeams)
    assert len(group.sequences) == 1
    assert group.num_sequences == 3
    assert group.lead.guess(4) == Guess()
    assert (made.samplers, made.drafters, len(made.beams)) == ([], [], 1)


def test_without_a_prompt_there_is_nothing_to_continue(made: Made) -> None:
    with pytest.raises(BadRequest, match="empty"):
        intake(Makers(made.sampler)).take(request(0), 0.0)


@pytest.mark.parametrize("sampling", [{"num_answers": 0}, {"num_answers": 5}, {"beam_width": 5}, {"beam_width": 0}])
def test_no_more_answers_or_beams_than_can_run(made: Made, sampling: dict[str, int]) -> None:
    with pytest.raises(BadRequest, match="Ask for 1 to 4"):
        intake(Makers(made.sampler, None, made.search)).take(request(**sampling), 0.0)


def test_without_shared_prefixes_there_are_no_beams(made: Made) -> None:
    with pytest.raises(BadRequest, match="one beam only"):
        intake(Makers(made.sampler)).take(request(beam_width=2), 0.0)


def test_a_prompt_fits_with_a_token_for_each_answer(made: Made) -> None:
    taking = intake(Makers(made.sampler))
    assert taking.take(request(62, num_answers=2), 0.0).prompt_length == 62
    with pytest.raises(PromptTooLong, match=r"63 tokens long, and the context holds 64"):
        taking.take(request(63, num_answers=2), 0.0)


@pytest.mark.parametrize(
    "sampling", [{"grammar": "root ::= ("}, {"logit_bias": ((FakeModel.num_tokens, 1.0),)}, {"json_schema": "{"}]
)
def test_what_no_sampler_can_be_made_of_is_refused_at_once(made: Made, sampling: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        intake(Makers(made.sampler)).take(request(**sampling), 0.0)


def test_a_request_that_is_refused_counts_for_no_arrival(made: Made) -> None:
    taking = intake(Makers(made.sampler))
    with pytest.raises(BadRequest):
        taking.take(request(0), 0.0)
    assert taking.take(request(), 0.0).arrival == 1
