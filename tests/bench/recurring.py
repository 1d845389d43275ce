"""Seeded questions over recurring documents: the passages of each, their order and their scores.

Every question has four of 200 documents, or a varying number of them. Popularity follows Zipf's law with an exponent
such that the most popular 3 % take 60 % of the places, as RAGCache observed for real questions. Retrieval returns
passages in no stable order: it depends on the question, not on the document. Tokens are random words of the bench
models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.generation.segment import Segment
from tests.bench.bench_model import BOS, plain_tokens

SEED = 20_240_418
DOCUMENTS, DOCUMENT_TOKENS, PER_QUESTION = 200, 256, 4
# Range of the number of passages, where it varies from question to question.
FEWEST_PER_QUESTION, MOST_PER_QUESTION = 2, 6
TOP_DOCUMENTS, TOP_SHARE = 6, 0.6
INSTRUCTION_TOKENS, QUESTION_TOKENS = 64, 16
# Passages that are all worth reading have similar scores.
_BEST_SCORE, _SCORE_SPREAD = 0.75, 0.25
# When a search of 0.8 s reports intermediate results, and the share of searches whose result is final at each stage.
STAGE_SECONDS = (0.2, 0.4, 0.6, 0.8)
SETTLED_BY_STAGE = (0.4, 0.25, 0.2, 0.15)
_CALIBRATION_QUESTIONS = 2_000


@dataclass(frozen=True, slots=True)
class Ask:
    """A question: the segments before its passages, the passages as found (best first), and its text."""

    before: tuple[Segment, ...]
    passages: tuple[Segment, ...]
    scores: tuple[float, ...]
    question: Segment

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Returns the prompt with the passages as found."""
        return (*self.before, *self.passages, self.question)


@dataclass(frozen=True, slots=True)
class Stage:
    """What a search has found after `seconds`."""

    seconds: float
    passages: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Search:
    stages: tuple[Stage, ...]


class Recurring:
    """The same questions for the same vocabulary."""

    def __init__(self, vocabulary: int) -> None:
        self._words = plain_tokens(vocabulary)
        self._instructions = Segment((BOS, *self._tokens(INSTRUCTION_TOKENS - 1, 1)), "instructions")

    @cached_property
    def exponent(self) -> float:
        """Returns the exponent of Zipf's law with which the most popular documents take their share of the places."""
        return zipf_exponent(DOCUMENTS, PER_QUESTION, TOP_DOCUMENTS, TOP_SHARE)

    def drawn(self, count: int) -> NDArray[np.int64]:
        """Returns (count, 4) documents by popularity rank, distinct within a question."""
        return draw(count, DOCUMENTS, PER_QUESTION, self.exponent, SEED)

    def top_share(self, count: int) -> float:
        """Returns the share of the places that the most popular 3 % take in the first `count` questions."""
        return float((self.drawn(count) < TOP_DOCUMENTS).mean())

    def stream(self, count: int) -> Iterator[Ask]:
        """Yields the questions; the first ones are the same for any count."""
        for number, documents in enumerate(self.drawn(count)):
            yield self._ask(("stream", number), [self._document(int(document)) for document in documents])

    def varying(self, count: int) -> Iterator[Ask]:
        """Yields questions like those of `stream`, each with 2 to 6 passages."""
        random = np.random.default_rng((SEED, 5))
        for number, documents in enumerate(draw(count, DOCUMENTS, MOST_PER_QUESTION, self.exponent, SEED + 5)):
            wanted = documents[: random.integers(FEWEST_PER_QUESTION, MOST_PER_QUESTION + 1)]
            yield self._ask(("varying", number), [self._document(int(document)) for document in wanted])

    def second_questions(self, number: int, count: int = 2) -> tuple[Ask, ...]:
        """Returns questions over four documents of their own: in one order, in the same again, and in another.

        With a larger `count`, the last is a further question in yet another order.
        """
        documents = [self._document(DOCUMENTS + number * PER_QUESTION + place) for place in range(PER_QUESTION)]
        orders = ((0, 1, 2, 3), (0, 1, 2, 3), (2, 0, 3, 1), (3, 1, 0, 2))[: count + 1]
        return tuple(
            self._ask(("second", number, place), [documents[index] for index in order])
            for place, order in enumerate(orders)
        )

    @staticmethod
    def arrivals(count: int, per_second: float) -> list[float]:
        """Returns arrival times of a Poisson process, in seconds."""
        gaps = np.random.default_rng((SEED, 4)).exponential(1 / per_second, count)
        return [float(seconds) for seconds in np.cumsum(gaps)]

    def turn(self, number: int, history: tuple[Segment, ...]) -> Ask:
        """Returns a turn of a chat: a new passage and a question, after everything said before."""
        passage = self._document(10 * DOCUMENTS + number)
        ask = self._ask(("turn", number), [passage])
        return Ask(history or ask.before, ask.passages, ask.scores, ask.question)

    def searches(self, count: int) -> Iterator[tuple[Ask, Search]]:
        """Yields questions with the stages of their search: until its result is final, one passage is a wrong one."""
        random = np.random.default_rng((SEED, 3))
        for number, ask in enumerate(self.stream(count)):
            settled = int(random.choice(len(STAGE_SECONDS), p=SETTLED_BY_STAGE))
            wrong = (*ask.passages[:-1], self._document(20 * DOCUMENTS + number))
            stages = (
                Stage(seconds, ask.passages if stage >= settled else wrong)
                for stage, seconds in enumerate(STAGE_SECONDS)
            )
            yield ask, Search(tuple(stages))

    def _ask(self, name: tuple[object, ...], passages: list[Segment]) -> Ask:
        seed = [SEED, *str(name).encode()]
        scores = _BEST_SCORE - _SCORE_SPREAD * np.sort(np.random.default_rng(seed).random(len(passages)))
        question = Segment(self._tokens(QUESTION_TOKENS, *seed))
        return Ask((self._instructions,), tuple(passages), tuple(scores.tolist()), question)

    def _document(self, number: int) -> Segment:
        return Segment(self._tokens(DOCUMENT_TOKENS, 2, number), "passage", frozenset((number,)))

    def _tokens(self, count: int, *seed: int) -> tuple[int, ...]:
        return tuple(np.random.default_rng((SEED, *seed)).choice(self._words, count).tolist())


def draw(questions: int, documents: int, per_question: int, exponent: float, seed: int) -> NDArray[np.int64]:
    """Returns (questions, per_question) distinct documents by Zipf's law; a larger exponent favours popular documents.

    Gumbel noise on the logarithms of the weights samples without replacement. The order within a question is drawn
    separately.
    """
    noise = np.random.default_rng((seed, 1)).gumbel(size=(questions, documents))
    order = np.argsort(-(noise - exponent * np.log(np.arange(1, documents + 1))), axis=1)[:, :per_question]
    return np.random.default_rng((seed, 2)).permuted(order, axis=1)


@lru_cache
def zipf_exponent(documents: int, per_question: int, top: int, share: float) -> float:
    """Returns the exponent with which the `top` most popular documents take `share` of the places (by bisection)."""
    low, high = 0.0, 4.0
    for _ in range(20):
        middle = (low + high) / 2
        drawn = draw(_CALIBRATION_QUESTIONS, documents, per_question, middle, SEED + 1)
        low, high = (middle, high) if (drawn < top).mean() < share else (low, middle)
    return (low + high) / 2
