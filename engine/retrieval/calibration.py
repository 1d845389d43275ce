"""Calibration: how likely it is that the best sentence answers the question, from signs that can be measured.

Two small logistic models, one for questions whose meaning the embedder can read, one for words alone. Their numbers
are fitted and their thresholds chosen by `python -m tests.bench.calibrate_reader`, on the first half of the articles
of SQuAD 2.0, COVID-QA and XQuAD-zh; retrieval_quality reports on the other half. The threshold is where 95 of 100
questions that the files answer keep their quotes: a quote that does not answer costs a glance, a missing one the
answer.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

_WORD = re.compile(r"[\w'’-]+")
_ASKS_FOR_NUMBER = re.compile(
    r"\b(?:how\s+(?:many|much|old|long|far|tall|large|big|fast|often)|when"
    r"|(?:what|which)\s+(?:percent|percentage|number|year|date|day)"
    r"|wie\s*viele?|wann|cuánt[oa]s?|cuándo)\b",
    re.IGNORECASE,
)
_ASKS_FOR_NAME = re.compile(r"\b(?:who|whom|whose|where|wer|wem|wo|quién|quiénes|dónde)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Strength:
    """How well the best passages of a search fit, each 0 to about 1.

    `words`: the best BM25 score for each term of the question, relative to what a term found nowhere else would
    give; `meaning`: the best cosine.
    """

    words: float = 0.0
    meaning: float = 0.0

    @classmethod
    def of(cls, best_words: float, best_meaning: float, num_terms: int, num_chunks: int) -> Strength:
        """From the best BM25 score and the best cosine of a search; `num_chunks` are those of the whole table."""
        most = max(1, num_terms) * math.log1p(max(1, num_chunks))
        return cls(min(1.0, best_words / most), best_meaning)


@dataclass(frozen=True, slots=True)
class Signs:
    """What speaks for a sentence.

    Its cosine to the question, the share of the question's terms that it names, the share of the question's names
    and numbers that its passage has, and how well the search went.
    """

    cosine: float
    overlap: float
    names: float
    strength: Strength

    def values(self) -> tuple[float, ...]:
        return (self.cosine, self.overlap, self.names, self.strength.words, self.strength.meaning)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model over `Signs.values`; a sentence is quoted from `threshold` on."""

    weights: tuple[float, ...]
    bias: float
    threshold: float

    def confidence(self, signs: Signs) -> float:
        """The probability, 0 to 1, that the files answer the question."""
        total = self.bias + sum(w * value for w, value in zip(self.weights, signs.values(), strict=True))
        return 1.0 / (1.0 + math.exp(-total))


# python -m tests.bench.calibrate_reader
BY_MEANING = Calibration(weights=(3.29, 1.61, 0.91, 1.88, 3.71), bias=-6.19, threshold=0.24)
BY_WORDS = Calibration(weights=(0.0, 5.36, 1.13, 6.33, 0.0), bias=-3.07, threshold=0.36)


def names_of(question: str) -> frozenset[str]:
    """The question's names and numbers, folded: capitalised words but the first, and words that begin with a digit."""
    words = _WORD.findall(question)
    return frozenset(
        word.casefold()
        for place, word in enumerate(words)
        if word[0].isdigit() or (place and word[0].isupper() and word != "I")
    )


def share_of_names(names: frozenset[str], text: str) -> float:
    """The share of `names` that a text has; one half where there are none to look for."""
    if not names:
        return 0.5
    words = {word.casefold() for word in _WORD.findall(text)}
    return len(names & words) / len(names)


def lacks_what_is_asked(question: str, names: frozenset[str], sentence: str) -> bool:
    """Whether the question asks for a number or a name, and the sentence has none that the question has not."""
    asked, words = _asked_for(question), _WORD.findall(sentence)
    if asked == "number":
        return not any(word[0].isdigit() and word.casefold() not in names for word in words)
    if asked == "name":
        return not any(word[0].isupper() and word.casefold() not in names for word in words[1:])
    return False


@lru_cache(maxsize=16)
def _asked_for(question: str) -> Literal["number", "name", ""]:
    """Looked at once for hundreds of sentences."""
    if _ASKS_FOR_NUMBER.search(question):
        return "number"
    return "name" if _ASKS_FOR_NAME.search(question) else ""
