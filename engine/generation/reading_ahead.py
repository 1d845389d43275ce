"""Reading ahead: a prompt is read while the search for its passages continues, with the passages found so far.

RAGCache's speculative pipelining (https://arxiv.org/abs/2404.12457, section 5.3): a guess that turns out right has been
read, or is being read, when the search ends. A wrong one becomes the next guess if both share what has been read; else
it is cancelled within a ubatch, and the segments that it has read completely are kept as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core import Passage, SamplingParams
from engine.generation.prompt import Prompt
from engine.generation.request import PromptRead, Request, StepEvent, TextWritten
from engine.generation.shared_prefill import ReadSoFar
from engine.generation.step_loop import StepLoop
from engine.inflight import QuestionInFlight

# More guesses than this, whose questions never came because their searches failed, are dropped.
MAX_GUESSES = 32
# No other id has this suffix. A number before it distinguishes a guess from the one that it replaced, for which the
# loop may still have an event.
_SUFFIX = "\0ahead"


@dataclass(slots=True, eq=False)
class Guess:
    """A question's prompt for the passages that it will probably have; `has_ended` once it is no longer being read."""

    in_flight: QuestionInFlight
    request_id: str
    passages: tuple[Passage, ...]
    prompt: Prompt
    has_ended: bool = False
    cached_tokens: int | None = None


class ReadingAhead:
    """The guesses of one loop; on the generation thread."""

    def __init__(self) -> None:
        self._guesses: dict[str, Guess] = {}
        self._num_begun = 0

    @property
    def is_busy(self) -> bool:
        """Whether a prompt is being read (from any thread)."""
        return not all(guess.has_ended for guess in list(self._guesses.values()))

    def reading(self) -> set[str]:
        """Returns the questions whose prompts are being read."""
        return {question_id for question_id, guess in self._guesses.items() if not guess.has_ended}

    def expects(self, question_id: str, passages: Sequence[Passage]) -> bool:
        """Returns whether the guess for a question has these passages."""
        guess = self._guesses.get(question_id)
        return guess is not None and guess.passages == tuple(passages)

    def read_so_far(self, loop: StepLoop, question_id: str) -> ReadSoFar:
        """Returns what has been read for a question so far; a prompt with another beginning could not use it."""
        guess = self._guesses.get(question_id)
        return loop.read_so_far(guess.request_id) if guess is not None and not guess.has_ended else ReadSoFar()

    def amend(self, loop: StepLoop, question_id: str, passages: Sequence[Passage], prompt: Prompt) -> Guess | None:
        """Turns a guess that is being read into this prompt, if both share what has been read; returns it, or None."""
        guess = self._guesses.get(question_id)
        if guess is None or guess.has_ended:
            return None
        if not loop.amend(_only_read(guess.request_id, prompt, guess.in_flight)):
            return None
        guess.passages, guess.prompt = tuple(passages), prompt
        return guess

    def begin(self, loop: StepLoop, in_flight: QuestionInFlight, passages: Sequence[Passage], prompt: Prompt) -> None:
        """Submits the prompt to be read, without writing an answer."""
        question = in_flight.question
        self.drop(loop, question.question_id)
        self._num_begun += 1
        request_id = f"{question.question_id}\0{self._num_begun}{_SUFFIX}"
        self._guesses[question.question_id] = Guess(in_flight, request_id, tuple(passages), prompt)
        loop.submit(_only_read(request_id, prompt, in_flight))
        read = [question_id for question_id, guess in self._guesses.items() if guess.has_ended]
        for forgotten in read[:-MAX_GUESSES]:
            self.drop(loop, forgotten)

    def settle(self, question_id: str, passages: Sequence[Passage]) -> Guess | None:
        """Returns the guess if it has these passages, and forgets it once it has been read."""
        guess = self._guesses.get(question_id)
        if guess is None or guess.passages != tuple(passages):
            return None
        if guess.has_ended:
            del self._guesses[question_id]
        return guess

    def hand_over(self, loop: StepLoop, request: Request) -> None:
        """Lets the question itself take over what is being read for it, if possible; then the guess is forgotten."""
        guess = self._guesses.get(request.request_id)
        if guess is not None and not guess.has_ended and loop.amend(request, guess.request_id):
            del self._guesses[request.request_id]

    def drop(self, loop: StepLoop, question_id: str) -> None:
        """Cancels a guess that is no longer needed; does nothing without one."""
        if (guess := self._guesses.pop(question_id, None)) is not None:
            loop.cancel(guess.request_id)

    def cancelled(self) -> list[str]:
        """Returns the cancelled questions that have a guess."""
        return [question_id for question_id, guess in self._guesses.items() if guess.in_flight.cancelled.is_set()]

    def clear(self) -> None:
        """Forgets all guesses, because the loop is gone."""
        self._guesses.clear()

    def take(self, event: StepEvent) -> str | None:
        """Takes in an event of a guess; returns its question if the reading has ended, otherwise None."""
        question_id = event.request_id.removesuffix(_SUFFIX).rpartition("\0")[0]
        guess = self._guesses.get(question_id)
        if guess is None or guess.request_id != event.request_id or isinstance(event, TextWritten):
            return None
        if isinstance(event, PromptRead):
            guess.cached_tokens = event.cached_tokens
            return None
        guess.has_ended = True
        return question_id


def _only_read(request_id: str, prompt: Prompt, in_flight: QuestionInFlight) -> Request:
    only_reading = SamplingParams(max_tokens=0, temperature=0.0)
    return Request(request_id, prompt.segments, only_reading, in_flight.question.priority)


def is_ahead(event: StepEvent) -> bool:
    """Returns whether an event belongs to a guess instead of a question."""
    return event.request_id.endswith(_SUFFIX)
