"""The reader: quotes the sentences that answer a question, from the passages found, in their own words.

It is always there: without a model its quotes are the answer, with one they appear before the first word. A
sentence scores by how close it is in meaning (cosine) and how much of what was asked it names (word overlap, rare
words counting more). Below a score at which most quotes would be wrong it says nothing at all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.core import Citation, Passage, Quote
from engine.embedder import Embedder
from engine.retrieval.sentences import quotable
from engine.retrieval.words import bare, is_mostly_latin, overlap, rarity, terms

MAX_QUOTES = 3
# Set so that 95 % of the questions that have an answer get a quote, on one half of a sample of SQuAD 2.0;
# tests/bench/retrieval_quality.py reports on the other half, and its --calibrate shows what to set.
MIN_SCORE = 0.40
MIN_SCORE_BY_WORDS = 0.28
MEANING_WEIGHT = 0.5

# A second quote must be nearly as good as the first.
_MIN_SHARE_OF_BEST = 0.75
# Sentences whose meaning is looked at: the best by words, and the first of the best passages.
_MAX_EMBEDDED = 16
_DEFINITION_BONUS = 0.3

_LINE_BREAK = re.compile(r"\n[ \t>]*")

_WHAT_IS = re.compile(r"(?:what|who)(?:\s+(?:is|are|was|were)|['’]s)\s+(?P<subject>[^?]{1,60}?)\s*\?*", re.IGNORECASE)
_X_IS = re.compile(r"(?P<subject>[^,;:.]{1,60}?)\s+(?:is|are|was|were|means|refers\s+to)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence `passages[passage].text[start:end]`, what it names, and how well it fits so far."""

    passage: int
    start: int
    end: int
    text: str
    terms: frozenset[str]
    score: float = 0.0


class Reader:
    """Reads with the embedder where it knows the language, with words alone where it does not."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def read(self, question: str, passages: Sequence[Passage]) -> tuple[Quote, ...]:
        """The best one to three sentences, best first; none when nothing found answers the question.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
        """
        min_score = MIN_SCORE if self._knows_language_of(question) else MIN_SCORE_BY_WORDS
        chosen = choose(self.scored(question, passages), min_score)
        return tuple(_quote(candidate, passages[candidate.passage]) for candidate in chosen)

    def scored(self, question: str, passages: Sequence[Passage]) -> list[Candidate]:
        """The sentences worth a closer look, each with how well it fits. Raises as `read` does."""
        by_words = scored_by_words(question, candidates(passages))
        return self._with_meaning(question, shortlist(by_words)) if self._knows_language_of(question) else by_words

    def _knows_language_of(self, question: str) -> bool:
        return is_mostly_latin(question) or not self._embedder.is_english_only

    def _with_meaning(self, question: str, listed: Sequence[Candidate]) -> list[Candidate]:
        if not listed:
            return []
        asked = self._embedder.embed_questions([question])[0]
        cosines = self._embedder.embed_documents([one.text for one in listed], is_urgent=True) @ asked
        return [
            replace(one, score=MEANING_WEIGHT * float(cosine) + (1.0 - MEANING_WEIGHT) * one.score)
            for one, cosine in zip(listed, cosines, strict=True)
        ]


def candidates(passages: Sequence[Passage]) -> list[Candidate]:
    """Every quotable sentence of the passages, in order; what two chunks or two copies share comes once."""
    found: dict[str, Candidate] = {}
    for index, passage in enumerate(passages):
        for sentence in quotable(passage.text, may_be_torn=passage.start > 0):
            words = passage.text[sentence.start : sentence.end]
            found.setdefault(bare(words), Candidate(index, sentence.start, sentence.end, words, terms(words)))
    return list(found.values())


def scored_by_words(question: str, sentences: Sequence[Candidate]) -> list[Candidate]:
    """Each with the share of the question's terms it names, by weight; what is rare among them weighs more.

    "X is …" counts more for "What is X?".
    """
    wanted = terms(question)
    weights = rarity(one.terms for one in sentences)
    unseen = math.log1p(len(sentences))

    def score(one: Candidate) -> float:
        return overlap(wanted, one.terms, weights, unseen) + _DEFINITION_BONUS * defines(question, one.text)

    return [replace(one, score=score(one)) for one in sentences]


def defines(question: str, sentence: str) -> bool:
    """Whether the question is "What is X?" and the sentence says "X is …"."""
    asked = _WHAT_IS.fullmatch(question.strip())
    said = _X_IS.match(sentence)
    return asked is not None and said is not None and terms(asked["subject"]) == terms(said["subject"])


def shortlist(by_words: Sequence[Candidate], limit: int = _MAX_EMBEDDED) -> list[Candidate]:
    """At most `limit` sentences: half of them the best by words, the rest as they stand in the best passages."""
    ranked = sorted(range(len(by_words)), key=lambda index: (-by_words[index].score, index))
    first = ranked[: limit // 2]
    rest = [index for index in range(len(by_words)) if index not in set(first)]
    return [by_words[index] for index in sorted(first + rest[: limit - len(first)])]


def choose(scored: Sequence[Candidate], min_score: float) -> list[Candidate]:
    """The best sentences, best first: one to three, or none when even the best is below `min_score`."""
    ranked = sorted(scored, key=lambda one: -one.score)
    if not ranked or ranked[0].score < min_score:
        return []
    floor = max(min_score, _MIN_SHARE_OF_BEST * ranked[0].score)
    return [one for one in ranked[:MAX_QUOTES] if one.score >= floor]


def extractive_answer(quotes: Sequence[Quote]) -> tuple[str, tuple[Citation, ...]]:
    """The answer that quotes make by themselves: each in quotation marks with its marker, and where the markers are."""
    text, citations = "", []
    for quote in quotes:
        text += f"{chr(10) * 2 if text else ''}“{_flat(quote.text)}” "
        citations.append(Citation(f"[{quote.passage + 1}]", quote.passage, len(text)))
        text += citations[-1].marker
    return text, tuple(citations)


def _quote(candidate: Candidate, passage: Passage) -> Quote:
    return Quote(
        text=candidate.text,
        passage=candidate.passage,
        document=passage.document,
        page=passage.page,
        place=passage.place,
        start=candidate.start,
        end=candidate.end,
        score=candidate.score,
    )


def _flat(text: str) -> str:
    """On one line; the marks that Markdown and mail put before each quoted line go."""
    return " ".join(_LINE_BREAK.sub(" ", text).split())
