"""Stretches of real documents that stand for answers, and whether their source was in evidence in time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.core import Answer, Passage
from tests.bench.real_library import SEED, Library, is_source

# About as many as 64 tokens have.
SPAN_CHARACTERS = 256
QUESTION_TOKENS = 128

HasSource = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A continuation of a document, and the words before it as its question."""

    question: str
    text: str


def stretches(library: Library, count: int, num_tokens: int) -> Iterator[Stretch]:
    """Yields a seeded choice of stretches of `num_tokens` tokens of the embedder."""
    choose = random.Random(SEED + 3)
    long = [text for text in library.texts if len(text.offsets) >= QUESTION_TOKENS + num_tokens]
    for _ in range(count):
        text = choose.choice(long)
        start = choose.randint(QUESTION_TOKENS, len(text.offsets) - num_tokens)
        yield Stretch(text.between(start - QUESTION_TOKENS, start), text.between(start, start + num_tokens))


def found_sources(answer: Answer, has_source: HasSource) -> list[bool]:
    """Returns for each span with a known source whether the source was in evidence when the span was written."""
    spans = [(start, answer.text[start : start + SPAN_CHARACTERS]) for start in _span_starts(answer.text)]
    return [
        any(is_source(passage.text, span) for passage in evidence_at(answer, start))
        for start, span in spans
        if has_source(span)
    ]


def evidence_at(answer: Answer, offset: int) -> Sequence[Passage]:
    """Returns the passages that the answer had when `offset` characters of it were written."""
    later = [refresh.first_passage for refresh in answer.refreshes if refresh.offset > offset]
    return answer.passages[: min(later, default=len(answer.passages))]


def _span_starts(text: str) -> range:
    """Returns the starts of whole spans."""
    return range(0, len(text) - SPAN_CHARACTERS + 1, SPAN_CHARACTERS)
