"""The reader: quotes the sentences that answer a question, verbatim from the passages found.

It always runs: without a model its quotes are the answer, with one they appear before the first word. A
sentence scores by how close it is in meaning (cosine), how much of what was asked it names (word overlap, rare words
counting more), how well its passage was found, and whether it has a number or name where one is asked for. Whether
the best one is quoted at all is a calibrated decision (calibration.py): below it, the answer is "not found".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from engine.core import Citation, Passage, Quote
from engine.embedder import Embedder
from engine.retrieval.calibration import (
    BY_MEANING,
    BY_WORDS,
    Signs,
    Strength,
    lacks_what_is_asked,
    names_of,
    share_of_names,
)
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.sentences import quotable
from engine.retrieval.words import bare, is_mostly_latin, overlap, rarity, terms

MAX_QUOTES = 3
# Fitted like the calibration, to predict which sentence contains the correct answer.
MEANING_WEIGHT, OVERLAP_WEIGHT, PASSAGE_WEIGHT = 0.27, 0.44, 0.29
LACK_PENALTY = 0.09

# A second quote must be nearly as good as the first.
_MIN_SHARE_OF_BEST = 0.75
# How many sentences are embedded: half of them the best by words, the rest in the order of the best passages.
# More of them do not find the correct answer more often (SQuAD, COVID-QA), and each takes milliseconds.
_MAX_EMBEDDED = 8
_DEFINITION_BONUS = 0.3

_LINE_BREAK = re.compile(r"\n[ \t>]*")

_WHAT_IS = re.compile(
    r"(?:what|who)(?:\s+(?:is|are|was|were)|['’]s)\s++(?P<subject>[^?\s][^?]{0,59}?)\s*+\?*+", re.IGNORECASE
)
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
    overlap: float = 0.0
    cosine: float = 0.0


class Reader:
    """Reads with the embedder where it knows the language, with words alone where it does not."""

    def __init__(self, embedder: Embedder, vectors: SentenceVectors) -> None:
        self._embedder, self._vectors = embedder, vectors

    def read(
        self,
        question: str,
        passages: Sequence[Passage],
        strength: Strength,
        listed: Sequence[Candidate] | None = None,
    ) -> tuple[Quote, ...]:
        """The best one to three sentences, best first; none when nothing found answers the question.

        Args:
            question: What was asked.
            passages: What was found.
            strength: How well.
            listed: The result of `listed` for them, if it was called before.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
        """
        ranked = sorted(self.scored(question, passages, listed), key=lambda one: -one.score)
        if not ranked:
            return ()
        calibration = BY_MEANING if self._knows_language_of(question) else BY_WORDS
        if calibration.confidence(signs(question, ranked[0], passages, strength)) < calibration.threshold:
            return ()
        return tuple(_quote(candidate, passages[candidate.passage]) for candidate in choose(ranked))

    def scored(
        self, question: str, passages: Sequence[Passage], listed: Sequence[Candidate] | None = None
    ) -> list[Candidate]:
        """The sentences worth a closer look, each with how well it fits. Raises as `read` does."""
        listed = self.listed(question, passages) if listed is None else listed
        return self._with_meaning(question, listed) if self._knows_language_of(question) else list(listed)

    def listed(self, question: str, passages: Sequence[Passage]) -> list[Candidate]:
        """The sentences worth a closer look, each with how well it fits by words."""
        # Passages of a document that is read through are not sorted by score.
        found = sorted(candidates(passages), key=lambda one: -passages[one.passage].score)
        by_words = scored_by_words(question, found, [passage.score for passage in passages])
        return shortlist(by_words) if self._knows_language_of(question) else by_words

    def embedded_ahead(self, questions: Sequence[tuple[str, Sequence[Candidate]]]) -> Iterator[None]:
        """Embeds the texts needed for several questions together, which is faster.

        Each yield is a place to let other searches go first. Raises as `read` does.
        """
        readable = [(question, listed) for question, listed in questions if self._knows_language_of(question)]
        self._embedder.embed_questions([question for question, _ in readable])
        yield from self._vectors.embedded_ahead(self._embedder, [one.text for _, listed in readable for one in listed])

    def _knows_language_of(self, question: str) -> bool:
        return is_mostly_latin(question) or not self._embedder.is_english_only

    def _with_meaning(self, question: str, listed: Sequence[Candidate]) -> list[Candidate]:
        if not listed:
            return []
        asked = self._embedder.embed_questions([question])[0]
        cosines = self._vectors.of(self._embedder, [one.text for one in listed]) @ asked
        return [
            replace(one, score=MEANING_WEIGHT * float(cosine) + one.score, cosine=float(cosine))
            for one, cosine in zip(listed, cosines, strict=True)
        ]


def signs(question: str, best: Candidate, passages: Sequence[Passage], strength: Strength) -> Signs:
    """The signals for the best sentence, as input of the calibration."""
    names = share_of_names(names_of(question), passages[best.passage].text)
    return Signs(best.cosine, best.overlap, names, strength)


def candidates(passages: Sequence[Passage]) -> list[Candidate]:
    """Every quotable sentence of the passages, in order; what two chunks or two copies share comes once."""
    found: dict[str, Candidate] = {}
    for index, passage in enumerate(passages):
        for sentence in quotable(passage.text, may_be_torn=passage.start > 0):
            words = passage.text[sentence.start : sentence.end]
            found.setdefault(bare(words), Candidate(index, sentence.start, sentence.end, words, terms(words)))
    return list(found.values())


def scored_by_words(question: str, sentences: Sequence[Candidate], passage_scores: Sequence[float]) -> list[Candidate]:
    """Scores each sentence by the weighted share of the question's terms in it; rare terms weigh more.

    The score also includes that of the passage, a bonus for "X is …" if the question is "What is X?", and a penalty if
    the question asks for a number or a name and the sentence has none.
    """
    wanted, names = terms(question), names_of(question)
    weights = rarity(one.terms for one in sentences)
    unseen = math.log1p(len(sentences))

    def scored(one: Candidate) -> Candidate:
        share = overlap(wanted, one.terms, weights, unseen)
        score = OVERLAP_WEIGHT * (share + _DEFINITION_BONUS * defines(question, one.text))
        score += PASSAGE_WEIGHT * passage_scores[one.passage]
        score -= LACK_PENALTY * lacks_what_is_asked(question, names, one.text)
        return replace(one, score=score, overlap=share)

    return [scored(one) for one in sentences]


def defines(question: str, sentence: str) -> bool:
    """Whether the question is "What is X?" and the sentence says "X is …"."""
    asked = _subject_asked(question)
    said = _X_IS.match(sentence) if asked is not None else None
    return said is not None and asked == terms(said["subject"])


@lru_cache(maxsize=16)
def _subject_asked(question: str) -> frozenset[str] | None:
    """The X of "What is X?", determined once for hundreds of sentences; None for other questions."""
    asked = _WHAT_IS.fullmatch(question.strip())
    return terms(asked["subject"]) if asked is not None else None


def shortlist(by_words: Sequence[Candidate], limit: int = _MAX_EMBEDDED) -> list[Candidate]:
    """At most `limit` sentences: half of them the best by words, the rest as they stand in the best passages."""
    ranked = sorted(range(len(by_words)), key=lambda index: (-by_words[index].score, index))
    first = ranked[: limit // 2]
    rest = [index for index in range(len(by_words)) if index not in set(first)]
    return [by_words[index] for index in sorted(first + rest[: limit - len(first)])]


def choose(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The best sentence and at most two more that are nearly as good; `ranked` is best first."""
    floor = _MIN_SHARE_OF_BEST * ranked[0].score
    return [ranked[0], *(one for one in ranked[1:MAX_QUOTES] if one.score >= floor)]


def extractive_answer(quotes: Sequence[Quote]) -> tuple[str, tuple[Citation, ...]]:
    """The extractive answer: each quote in quotation marks with its marker, and the positions of the markers."""
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
    """A text in one line, without the marks that Markdown and mail put before each quoted line."""
    return " ".join(_LINE_BREAK.sub(" ", text).split())
