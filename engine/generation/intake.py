"""Turns a request into a group of sequences, or refuses it in a sentence before anything is computed for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.core import SamplingParams
from engine.errors import BadRequest, PromptTooLong
from engine.generation.groups import SequenceGroup
from engine.generation.model import Model
from engine.generation.request import Request
from engine.generation.sampler import check_sampler, params_of_answer
from engine.generation.segment import tokens_of
from engine.generation.sequence import BeamSearch, Drafter, RowSampler, TokenSequence
from engine.generation.streaming import TextStream
from engine.generation.thinking import Thinking, Thoughts
from engine.generation.vocabulary import Vocabulary

MakeSampler = Callable[[Model, SamplingParams], RowSampler]
MakeDrafter = Callable[[Request], Drafter | None]
MakeBeams = Callable[[Model, SamplingParams, Vocabulary, Thinking | None], BeamSearch]


@dataclass(frozen=True, slots=True)
class Makers:
    """What chooses the tokens of answers; without `drafter` nothing is drafted, without `beams` no beam is searched."""

    sampler: MakeSampler
    drafter: MakeDrafter | None = None
    beams: MakeBeams | None = None


class Intake:
    """Checks requests against the context, and makes the groups that the loop writes on."""

    def __init__(
        self, model: Model, makers: Makers, vocabulary: Vocabulary, num_cells: int, max_sequences: int
    ) -> None:
        self._model, self._makers, self._vocabulary = model, makers, vocabulary
        self._num_cells, self._max_sequences = num_cells, max_sequences
        self._num_arrived = 0

    def resize(self, num_cells: int, max_sequences: int) -> None:
        """Checks requests against another context from now on."""
        self._num_cells, self._max_sequences = num_cells, max_sequences

    def take(self, request: Request, now: float) -> SequenceGroup:
        """Makes the group of a request.

        Raises:
            PromptTooLong: It would not even fit alone.
            BadRequest: There is no prompt, or it cannot be sampled as requested.
        """
        self._check(request)
        beams = None
        if request.sampling.beam_width > 1 and self._makers.beams is not None:
            sequences = [_sequence(request, 0)]
            params = replace(request.sampling, max_tokens=sequences[0].max_tokens)
            beams = self._makers.beams(self._model, params, self._vocabulary, request.thinking)
        else:
            check_sampler(self._model, request.sampling)
            sequences = [self._answer(request, number) for number in range(request.sampling.num_answers)]
        self._num_arrived += 1
        return SequenceGroup(request, self._num_arrived, sequences, now, beams)

    def _check(self, request: Request) -> None:
        sampling = request.sampling
        wanted = (sampling.num_answers, sampling.beam_width)
        num_sequences = max(wanted)
        if not request.num_tokens:
            raise BadRequest("There is nothing to continue: the prompt is empty.")
        if min(wanted) < 1 or num_sequences > self._max_sequences:
            raise BadRequest(
                f"{min(wanted) if min(wanted) < 1 else num_sequences} answers or beams were asked for.",
                f"Ask for 1 to {self._max_sequences} of them.",
            )
        if sampling.beam_width > 1 and self._makers.beams is None:
            raise BadRequest(
                "This model cannot share what it has read, so it writes along one beam only.",
                "Ask without beams (“Beams” in the settings, or --beams), or choose another model.",
            )
        if request.num_tokens + num_sequences > self._num_cells:
            raise PromptTooLong(
                f"The question with its passages is {request.num_tokens:,} tokens long, and the context holds "
                f"{self._num_cells:,}.",
                "Ask with fewer passages, or raise the context length in the settings.",
            )

    def _answer(self, request: Request, number: int) -> TokenSequence:
        makers, params = self._makers, params_of_answer(request.sampling, number)
        sequence = _sequence(request, number)
        sequence.make_sampler = partial(makers.sampler, self._model, params)
        sequence.make_drafter = partial(makers.drafter, request) if makers.drafter is not None else None
        if request.goes_on:
            sequence.stream.go_on_behind(self._vocabulary.piece(token) or b"" for token in request.begun)
            sequence.make_sampler = partial(_behind, sequence.make_sampler, request.begun)
        if request.thinking is not None:
            has_form = bool(params.grammar or params.json_schema)
            # A form would keep models that begin to think by themselves from doing so.
            sequence.thoughts = Thoughts(request.thinking, begins=has_form and request.thinking.manner.is_sure)
            if has_form:
                freely = replace(params, grammar="", json_schema="")
                sequence.make_thinker = partial(makers.sampler, self._model, freely)
        return sequence


def _behind(make_sampler: Callable[[], RowSampler], begun: Sequence[int]) -> RowSampler:
    """Returns a sampler that knows what was written before it."""
    sampler = make_sampler()
    try:
        sampler.accept(begun)
    except BaseException:
        sampler.close()
        raise
    return sampler


def _sequence(request: Request, number: int) -> TokenSequence:
    tokens, sampling = tokens_of(request.segments), request.sampling
    max_tokens = sampling.max_tokens if request.thinking is None else request.thinking.most_tokens
    return TokenSequence(number, tokens, len(tokens), None, TextStream(sampling.stop), max_tokens)
