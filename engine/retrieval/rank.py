"""Ranking as pure functions: how rankings are joined, and which hits would only say the same again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from engine.partitions.rows import Hit
from engine.retrieval.words import bare

K = TypeVar("K", bound=Hashable)

# Chunks of one document share a few words at their seams; more than this share of the shorter one is a repetition.
_MAX_SHARED = 0.5


def reciprocal_rank_fusion(rankings: Sequence[Sequence[K]], k: float) -> list[tuple[K, float]]:
    """Joins rankings whose scores do not compare: each item scores the sum of 1 / (k + rank), rank from 1.

    A small `k` trusts the first ranks of each ranking more. Best first; equals in the order they were met.

    Source: Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet", SIGIR 2009.
    """
    scores: dict[K, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + rank)
    return sorted(scores.items(), key=lambda pair: -pair[1])


def distinct(hits: Iterable[Hit]) -> list[Hit]:
    """The hits without those that repeat a better one: the same words, or mostly the same span of a page."""
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


def _repeats(hit: Hit, other: Hit) -> bool:
    shared = min(hit.end, other.end) - max(hit.start, other.start)
    shorter = min(hit.end - hit.start, other.end - other.start)
    return shorter > 0 and shared > _MAX_SHARED * shorter
