"""Beam search: the likeliest of several answers written side by side, decided by pure functions of their logits.

Temperature and penalties are not used: beams are ranked by the model's log-probability of the whole answer, with logit
biases applied. The loop carries the decisions out on sequences that share cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core import FinishReason, SamplingParams
from engine.errors import DecodeFailed
from engine.generation.context import Context
from engine.generation.model import Model
from engine.generation.sampler import check_biases
from engine.generation.sequence import Branch, Hypothesis
from engine.generation.thinking import Thinking, Thoughts
from engine.generation.vocabulary import Vocabulary

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Beam:
    """The beginning of an answer, or all of it: what was written, and its log-probability.

    `parent` is the index of its parent in the previous step. `length` includes the token that ended it, `tokens` not.
    """

    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0
    parent: int = 0
    finish_reason: FinishReason | None = None
    last_token: int | None = None

    @property
    def length(self) -> int:
        return len(self.tokens) + (self.finish_reason == "stop")

    def score(self, length_penalty: float) -> float:
        """Returns a score comparable across lengths: a penalty of 0 favours short beams, 1 gives the mean per token."""
        return float(self.log_probability / max(1, self.length) ** length_penalty)


def next_beams(
    beams: Sequence[Beam], log_probabilities: Rows, width: int, ends: Callable[[tuple[int, ...], int], bool]
) -> tuple[list[Beam], list[Beam]]:
    """Returns the beams after one more token.

    Args:
        beams: Those that are being written, at most `width`.
        log_probabilities: Of every token after each beam: beams × tokens.
        width: How many go on.
        ends: Whether an answer (its tokens, and the next one) is complete with that token.

    Returns:
        Beams that go on, and beams that have ended with this token and were among the `width` best; best first.
    """
    going_on: list[Beam] = []
    ended: list[Beam] = []
    for rank, (parent, token, log_probability) in enumerate(_likeliest(beams, log_probabilities, 2 * width)):
        tokens = beams[parent].tokens
        if not ends(tokens, token):
            going_on.append(Beam((*tokens, token), log_probability, parent))
        elif rank < width:
            ended.append(Beam(tokens, log_probability, parent, "stop", token))
    return going_on[:width], ended


def best_of(beams: Sequence[Beam], width: int, length_penalty: float) -> list[Beam]:
    """Returns the best `width`, best first; equal ones keep their order."""
    return sorted(beams, key=lambda beam: -beam.score(length_penalty))[:width]


def is_over(beams: Sequence[Beam], ended: Sequence[Beam], width: int, length_penalty: float) -> bool:
    """Returns whether no unfinished beam scores better now than the worst of `width` that have ended."""
    if not beams or len(ended) < width:
        return not beams
    worst = best_of(ended, width, length_penalty)[-1].score(length_penalty)
    return worst >= max(beam.score(length_penalty) for beam in beams)


def log_softmax(logits: NDArray[np.float32]) -> Rows:
    """Returns log-probabilities, row by row."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


class Beams:
    """One search under way; the step loop owns it, as well as the sequences of its beams."""

    def __init__(
        self, model: Model, params: SamplingParams, vocabulary: Vocabulary, thinking: Thinking | None = None
    ) -> None:
        """Begins with nothing written. Raises BadRequest if a biased token is not in the model's vocabulary.

        `vocabulary` is the loop's own, which turns the result into text: the search makes it cache every token, since
        a search may end while the model is closed. With `thinking`, stop strings are those of the answer behind the
        thoughts.
        """
        check_biases(model, params)
        self._params, self._vocabulary, self._thinking = params, vocabulary, thinking
        self._beams = [Beam()]
        self._ended: list[Beam] = []
        self._stop = [text.encode("utf-8", "replace") for text in params.stop if text]

    def advance(self, context: Context, rows: Sequence[int]) -> Sequence[Branch]:
        """Returns the beams after this step, given the logits row of each last token; none once the search is over.

        Raises:
            DecodeFailed: The logits are not finite numbers.
        """
        params = self._params
        logits = np.stack([context.logits(row) for row in rows])
        if not np.isfinite(logits.max()):
            raise DecodeFailed("The model computed nothing that can be read.", "Its file may be damaged: get it again.")
        for token, bias in params.logit_bias:
            logits[:, token] += bias
        beams, ended = next_beams(self._beams, log_softmax(logits), params.beam_width, self._ends)
        self._ended = best_of([*self._ended, *ended], params.beam_width, params.length_penalty)
        if beams and len(beams[0].tokens) >= params.max_tokens:
            cut = [Beam(beam.tokens, beam.log_probability, beam.parent, "length") for beam in beams]
            self._ended, beams = best_of([*self._ended, *cut], params.beam_width, params.length_penalty), []
        self._beams = [] if is_over(beams, self._ended, params.beam_width, params.length_penalty) else beams
        return [Branch(beam.parent, beam.tokens[-1]) for beam in self._beams]

    def answers(self) -> Sequence[Hypothesis]:
        """Returns what was found, best first; unfinished beams count as cut off."""
        params = self._params
        found = best_of([*self._ended, *self._beams], params.beam_width, params.length_penalty)
        return [Hypothesis(beam.tokens, beam.finish_reason or "length", beam.last_token) for beam in found]

    def _ends(self, tokens: tuple[int, ...], token: int) -> bool:
        piece = self._vocabulary.piece(token)
        if piece is None:
            return True
        if not self._stop:
            return False
        # A text token has at least one byte, so this many tokens hold any stop string that ends here.
        longest = max(len(text) for text in self._stop)
        tail = b"".join(self._vocabulary.piece(before) or b"" for before in tokens[-longest:]) + piece
        if not any(text in tail for text in self._stop):
            return False
        if self._thinking is None:
            return True
        _, num_stopped = self._vocabulary.text((*tokens, token), self._params.stop, Thoughts(self._thinking))
        return num_stopped > 0


def _likeliest(beams: Sequence[Beam], log_probabilities: Rows, count: int) -> list[tuple[int, int, float]]:
    """Returns the likeliest continuations: parent, token and log-probability of the whole, best first."""
    totals = log_probabilities + np.array([[beam.log_probability] for beam in beams])
    flat = totals.ravel()
    cutoff = np.partition(flat, -count)[-count] if flat.size > count else -np.inf
    # In a tie the earlier beam and the smaller token win, so that the same logits always give the same beams.
    places = np.flatnonzero((flat >= cutoff) & np.isfinite(flat))
    places = places[np.argsort(-flat[places], kind="stable")][:count]
    return [(int(place // totals.shape[1]), int(place % totals.shape[1]), float(flat[place])) for place in places]
