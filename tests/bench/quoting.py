"""Answers for the drafting bench: real paragraphs as numbered tokens, answers that quote them, and others that do not.

A model of random weights writes nothing meaningful, so its tokens are given: words are numbered by first appearance,
and repetitions in the text become repetitions in the tokens. Without the shared data, sentences consist of made-up
words with English frequencies.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.squad import read_squad

SQUAD = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "qa" / "squad" / "dev-v1.1.json"
# Vocabularies contain short words whole and long ones in pieces.
_PIECE = re.compile(r"\w{1,6}|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?]) ")
# Determines which answer quotes what.
SEED = 11
Sentence = tuple[int, ...]
Paragraph = tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A prompt, what of it can be quoted, and the answer's tokens; an empty answer lets the model sample freely."""

    prompt: tuple[int, ...]
    quotable: tuple[int, ...]
    answer: tuple[int, ...] = ()


class Library:
    """Paragraphs to read and quote, and prose from other paragraphs."""

    def __init__(self, tokens: range, seed: int) -> None:
        self._pick = random.Random(seed)
        texts = list(read_squad(SQUAD).paragraphs) if SQUAD.exists() else list(_made_up(seed))
        numbers: dict[str, int] = {}
        self._paragraphs = [
            tuple(tuple(_numbered(sentence, numbers, tokens)) for sentence in _SENTENCE_END.split(text))
            for text in self._pick.sample(texts, min(400, len(texts)))
        ]

    def quoting(self, num_tokens: int, num_passages: int = 5) -> Recorded:
        """Returns an answer that alternates a few words of its own with a sentence of a passage."""
        passages = self._paragraphs_of(num_passages)
        long_ones = [sentence for passage in passages for sentence in passage if len(sentence) >= 20]
        answer: list[int] = []
        while len(answer) < num_tokens:
            answer += self._prose(self._pick.randint(4, 10))
            answer += self._pick.choice(long_ones)
        return Recorded(self._prompt(passages), _flat(passages), tuple(answer[:num_tokens]))

    def prose(self, num_tokens: int, num_passages: int = 5) -> Recorded:
        """Returns an answer that quotes nothing: sentences from paragraphs outside the passages."""
        passages = self._paragraphs_of(num_passages)
        return Recorded(self._prompt(passages), _flat(passages), self._prose(num_tokens))

    def free(self, num_passages: int = 5) -> Recorded:
        """Returns a prompt without an answer: the model samples freely."""
        passages = self._paragraphs_of(num_passages)
        return Recorded(self._prompt(passages), _flat(passages))

    def _paragraphs_of(self, count: int) -> list[Paragraph]:
        half = len(self._paragraphs) // 2
        return self._pick.sample(self._paragraphs[:half], count)

    def _prose(self, num_tokens: int) -> tuple[int, ...]:
        half, words = len(self._paragraphs) // 2, list[int]()
        while len(words) < num_tokens:
            words += _flat([self._pick.choice(self._paragraphs[half:])])
        return tuple(words[:num_tokens])

    def _prompt(self, passages: Sequence[Paragraph]) -> tuple[int, ...]:
        return (*_flat(passages), *self._prose(20))


def _flat(paragraphs: Sequence[Paragraph]) -> tuple[int, ...]:
    return tuple(token for paragraph in paragraphs for sentence in paragraph for token in sentence)


def _numbered(text: str, numbers: dict[str, int], tokens: range) -> Iterator[int]:
    for piece in _PIECE.findall(text):
        yield tokens[numbers.setdefault(piece, len(numbers)) % len(tokens)]


def _made_up(seed: int) -> Iterator[str]:
    """Yields paragraphs whose words follow English frequencies (Zipf's law)."""
    words = np.random.default_rng(seed).zipf(1.2, size=400 * 120) % 20_000
    for paragraph in words.reshape(400, 120):
        yield ". ".join(" ".join(f"w{word}" for word in sentence) for sentence in paragraph.reshape(5, 24)) + "."
