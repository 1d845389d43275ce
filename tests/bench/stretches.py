"""Stretches of real documents that stand for answers, and whether what they were taken from was in evidence by then."""

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
    """What a document goes on with, and before it the words that are the question."""

    question: str
    text: str


def stretches(library: Library, count: int, num_tokens: int) -> Iterator[Stretch]:
    """A seeded choice, each with so many tokens of the embedder."""
    choose = random.Random(SEED + 3)
    long = [text for text in library.texts if len(text.offsets) >= QUESTION_TOKENS + num_tokens]
    for _ in range(count):
        text = choose.choice(long)
        start = choose.randint(QUESTION_TOKENS, len(text.offsets) - num_tokens)
        yield Stretch(text.between(start - QUESTION_TOKENS, start), text.between(start, start + num_tokens))


def found_sources(answer: Answer, has_source: HasSource) -> list[bool]:
    """Span by span, whether what it was taken from was in evidence when it was written; without spans of no source."""
    spans = [(start, answer.text[start : start + SPAN_CHARACTERS]) for start in _span_starts(answer.text)]
    return [
        any(is_source(passage.text, span) for passage in evidence_at(answer, start))
        for start, span in spans
        if has_source(span)
    ]


def evidence_at(answer: Answer, offset: int) -> Sequence[Passage]:
    """The passages that an answer rested on when `offset` characters of it had been told."""
    later = [refresh.first_passage for refresh in answer.refreshes if refresh.offset > offset]
    return answer.passages[: min(later, default=len(answer.passages))]


def _span_starts(text: str) -> range:
    """Of whole spans."""
    return range(0, len(text) - SPAN_CHARACTERS + 1, SPAN_CHARACTERS)
