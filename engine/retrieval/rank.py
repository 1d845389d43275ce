"""Ranking as pure functions: how rankings are merged, which hits are near-duplicates, and which add most.

The words (BM25) and the meaning (cosine) of a question are joined by a weighted sum. Measured on the sets of
tests/bench/retrieval_quality.py, that puts the right passage first more often than reciprocal rank fusion, which
forgets how far ahead a first rank is (SQuAD, 800 questions, R@1: .819, fusion with k = 10 .769, BM25 alone .796).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from engine.partitions.rows import Found, Hit
from engine.retrieval.words import bare

# BM25 scores are scaled so that this score per term counts as 1, or the best score if that is higher.
FULL_SCORE_PER_TERM = 2.0
# Some models give cosines that are close together; those of a ranking are then stretched to this range.
MIN_COSINE_SPREAD = 0.15

# The weight of a file's name, relative to 1 for the words and the meaning of its text together. With two words of each
# text as its name (XQuAD-de, 400 questions), R@1 is .880 without names, .885 with .1 and .868 with .25.
NAME_WEIGHT = 0.1
# A file whose name fits this well, or nearly as well as the best one, must be among the passages.
SURELY_NAMED, NEARLY_AS_WELL = 0.3, 0.8
# With fewer passages, no place is reserved for it.
_MIN_PLACES = 3

# Adjacent chunks overlap a little; an overlap of more than this share of the shorter one is a repetition.
_MAX_SHARED = 0.5


def fused(
    by_words: Sequence[Found], by_meaning: Sequence[Found], num_terms: int, words_weight: float
) -> list[tuple[Found, float]]:
    """Merges both rankings to one score per row, 0 to about 1, best first; ties in the order of their ids.

    A row that is missing in one ranking gets 0 for its words, or the cosine of the last ranked row. If one ranking is
    empty, only the other counts.
    """
    rows = {row.row_id: row for row in (*by_words, *by_meaning)}
    words, meaning = _word_shares(by_words, num_terms), _meaning_shares(by_meaning)
    weight = words_weight if by_meaning else 1.0
    least = min(meaning.values(), default=0.0)
    scores = {id_: weight * words.get(id_, 0.0) + (1.0 - weight) * meaning.get(id_, least) for id_ in rows}
    return [(rows[id_], scores[id_]) for id_ in sorted(scores, key=lambda id_: (-scores[id_], id_))]


def averaged(rankings: Sequence[Sequence[tuple[Found, float]]]) -> list[tuple[Found, float]]:
    """Merges several rankings by the mean score of each row, best first; ties in the order of their ids.

    A row that is missing in a ranking gets the lowest score there. So a row that is far ahead in one ranking only stays
    before rows that are far down in all.
    """
    rows = {row.row_id: row for ranking in rankings for row, _ in ranking}
    totals = dict.fromkeys(rows, 0.0)
    for ranking in rankings:
        scores = {row.row_id: score for row, score in ranking}
        least = min(scores.values(), default=0.0)
        for id_ in totals:
            totals[id_] += scores.get(id_, least)
    return [(rows[id_], totals[id_] / len(rankings)) for id_ in sorted(rows, key=lambda id_: (-totals[id_], id_))]


def lifted(ranking: Sequence[tuple[Found, float]], named: Mapping[int, float]) -> list[tuple[Found, float]]:
    """Raises the scores of rows whose documents' names fit; `named` says how well, 0 to 1, by document."""
    if not named:
        return list(ranking)
    scored = [(row, score + NAME_WEIGHT * named.get(row.document_id, 0.0)) for row, score in ranking]
    return sorted(scored, key=lambda one: (-one[1], one[0].row_id))


def surely_named(named: Mapping[int, float]) -> frozenset[int]:
    """Returns the documents whose names fit well enough to be among the passages."""
    best = max(named.values(), default=0.0)
    least = max(SURELY_NAMED, NEARLY_AS_WELL * best)
    return frozenset(document_id for document_id, strength in named.items() if strength >= least)


def read_first(ranking: Sequence[tuple[Found, float]], count: int, named: Collection[int]) -> list[tuple[Found, float]]:
    """Returns the first `count` rows, and the best row of the `named` documents if none is among them."""
    first = list(ranking[:count])
    if not named or any(row.document_id in named for row, _ in first):
        return first
    return first + [one for one in ranking[count:] if one[0].document_id in named][:1]


def with_place_for(hits: Sequence[Hit], named: Collection[int], count: int) -> list[Hit]:
    """Moves a hit of the `named` documents to the last of the first `count` places, if none is among them.

    Scores stay at their positions, so that they fall from first to last.
    """
    at = next((place for place, hit in enumerate(hits) if hit.document_id in named), None)
    if count < _MIN_PLACES or at is None or at < count:
        return list(hits)
    order = [*hits[: count - 1], hits[at], *hits[count - 1 : at], *hits[at + 1 :]]
    return [replace(hit, score=place.score) for hit, place in zip(order, hits, strict=True)]


def distinct(hits: Iterable[Hit]) -> list[Hit]:
    """Removes hits that repeat a better one: the same words, or mostly the same span of a page."""
    kept: list[Hit] = []
    texts: set[str] = set()
    spans: dict[tuple[int, int | None], list[Hit]] = {}
    for hit in hits:
        words = bare(hit.text)
        on_page = spans.setdefault((hit.document_id, hit.page), [])
        if words in texts or any(_repeats(hit, other) for other in on_page):
            continue
        texts.add(words)
        on_page.append(hit)
        kept.append(hit)
    return kept


def diverse(scores: Sequence[float], terms: Sequence[Collection[str]], count: int, diversity: float) -> list[int]:
    """Selects `count` items by maximal marginal relevance: the score minus the similarity to earlier items.

    `scores` fall from first to last; `diversity` 0 keeps their order, 1 counts novelty alone. The similarity of two
    texts is the Jaccard index of their terms. Off by default: at .2, nDCG@10 on Cranfield falls from .429 to .418, and
    R@5 on SQuAD and COVID-QA gains nothing.

    Source: Carbonell and Goldstein, "The use of MMR, diversity-based reranking", SIGIR 1998.
    """
    if not diversity:
        return list(range(min(count, len(scores))))
    sets = [frozenset(of_one) for of_one in terms]
    alike, chosen, left = [0.0] * len(scores), list[int](), list(range(len(scores)))
    while left and len(chosen) < count:
        best = max(left, key=lambda index: (1.0 - diversity) * scores[index] - diversity * alike[index])
        left.remove(best)
        chosen.append(best)
        for index in left:
            alike[index] = max(alike[index], _jaccard(sets[index], sets[best]))
    return chosen


def _word_shares(by_words: Sequence[Found], num_terms: int) -> dict[str, float]:
    best = max((row.score for row in by_words), default=0.0)
    full = max(best, FULL_SCORE_PER_TERM * num_terms)
    return {row.row_id: row.score / full for row in by_words} if full > 0 else {}


def _meaning_shares(by_meaning: Sequence[Found]) -> dict[str, float]:
    if not by_meaning:
        return {}
    best, last = by_meaning[0].score, by_meaning[-1].score
    stretch = max(1.0, MIN_COSINE_SPREAD / (best - last)) if best > last else 1.0
    return {row.row_id: best - stretch * (best - row.score) for row in by_meaning}


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = len(first | second)
    return len(first & second) / union if union else 0.0


def _repeats(hit: Hit, other: Hit) -> bool:
    shared = min(hit.end, other.end) - max(hit.start, other.start)
    shorter = min(hit.end - hit.start, other.end - other.start)
    return shorter > 0 and shared > _MAX_SHARED * shorter
