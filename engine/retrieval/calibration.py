"""Calibration: how likely it is that the best sentence answers the question, from signs that can be measured.

There are two small logistic models, one for questions in a language of the embedder, one for words alone. Their weights
and thresholds are fitted by `python -m tests.bench.calibrate_reader` on the first half of the articles of SQuAD 2.0,
COVID-QA and XQuAD-zh; retrieval_quality reports on the other half. The thresholds keep the quotes of 95 of 100
questions that the files answer, because a missing quote is worse than a superfluous one.
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

    `words`: the best BM25 score per term of the question, relative to the score of a term that occurs only once;
    `meaning`: the best cosine.
    """

    words: float = 0.0
    meaning: float = 0.0

    @classmethod
    def of(cls, best_words: float, best_meaning: float, num_terms: int, num_chunks: int) -> Strength:
        """Computes it from the best BM25 score and the best cosine; `num_chunks` is that of the whole table."""
        most = max(1, num_terms) * math.log1p(max(1, num_chunks))
        return cls(min(1.0, best_words / most), best_meaning)


@dataclass(frozen=True, slots=True)
class Signs:
    """The features of a sentence.

    Its cosine to the question, the share of the question's terms in it, the share of the question's names and numbers
    in its passage, and how well the search fits.
    """

    cosine: float
    overlap: float
    names: float
    strength: Strength

    def values(self) -> tuple[float, ...]:
        return (self.cosine, self.overlap, self.names, self.strength.words, self.strength.meaning)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic model over `Signs.values`; a sentence is quoted if its confidence reaches `threshold`."""

    weights: tuple[float, ...]
    bias: float
    threshold: float

    def confidence(self, signs: Signs) -> float:
        """Returns the probability, 0 to 1, that the files answer the question."""
        total = self.bias + sum(w * value for w, value in zip(self.weights, signs.values(), strict=True))
        return 1.0 / (1.0 + math.exp(-total))


# python -m tests.bench.calibrate_reader
BY_MEANING = Calibration(weights=(3.29, 1.61, 0.91, 1.88, 3.71), bias=-6.19, threshold=0.24)
BY_WORDS = Calibration(weights=(0.0, 5.36, 1.13, 6.33, 0.0), bias=-3.07, threshold=0.36)


def names_of(question: str) -> frozenset[str]:
    """Returns names and numbers, folded: capitalised words except the first, and words that begin with a digit."""
    words = _WORD.findall(question)
    return frozenset(
        word.casefold()
        for place, word in enumerate(words)
        if word[0].isdigit() or (place and word[0].isupper() and word != "I")
    )


def share_of_names(names: frozenset[str], text: str) -> float:
    """Returns the share of `names` that a text contains; 0.5 if there are no names."""
    if not names:
        return 0.5
    words = {word.casefold() for word in _WORD.findall(text)}
    return len(names & words) / len(names)


def lacks_what_is_asked(question: str, names: frozenset[str], sentence: str) -> bool:
    """Returns whether the question asks for a number or name, and the sentence has none besides the question's own."""
    asked, words = _asked_for(question), _WORD.findall(sentence)
    if asked == "number":
        return not any(word[0].isdigit() and word.casefold() not in names for word in words)
    if asked == "name":
        return not any(word[0].isupper() and word.casefold() not in names for word in words[1:])
    return False


@lru_cache(maxsize=16)
def _asked_for(question: str) -> Literal["number", "name", ""]:
    """Returns what a question asks for; cached, because it is needed for hundreds of sentences."""
    if _ASKS_FOR_NUMBER.search(question):
        return "number"
    return "name" if _ASKS_FOR_NAME.search(question) else ""
