"""Recall of evidence while an answer is written, by how often its text is searched for again.

An answer quotes its sources, so the passage that the next 64 tokens come from is known. Recall is the share of spans
whose source is in evidence when they are written.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tests.bench.real_library import SEED, Library, Text, source_finder
from tests.bench.vectors import Vectors

WINDOW_TOKENS = 128
SPAN_TOKENS, SPANS = 64, 8
QUESTION_PASSAGES, PASSAGES_PER_REFRESH = 6, 2
SHARES = (0.1, 0.5, 1.0)
POLICIES = ("none", "once", "periodic")

Rank = Callable[[int], Sequence[int]]


def recalls_by_policy(
    library: Library, vectors: Vectors, embed: Callable[[Sequence[str]], Vectors], num_answers: int
) -> dict[str, dict[float, float]]:
    """Returns recall by policy and by the share of the library that is searched."""
    answers = list(_answers(library, num_answers))
    sources_of = source_finder(library.chunks)
    questions = [text.between(end - WINDOW_TOKENS, end) for text, start in answers for end in _window_ends(start)]
    scores = (embed(questions) @ vectors.T).reshape(num_answers, SPANS, -1)
    recalls: dict[str, dict[float, float]] = {policy: {} for policy in POLICIES}
    for share in SHARES:
        is_searched = np.isin(library.documents, _searched(library, share))
        found: dict[str, list[bool]] = {policy: [] for policy in POLICIES}
        for (text, start), of_answer in zip(answers, scores, strict=True):
            rankings = np.argsort(-np.where(is_searched, of_answer, -np.inf), axis=1, kind="stable")
            ranked = [ranking[is_searched[ranking]].tolist() for ranking in rankings]
            spans = [text.between(start + SPAN_TOKENS * k, start + SPAN_TOKENS * (k + 1)) for k in range(SPANS)]
            wanted = [sources_of(span) for span in spans]
            for policy in POLICIES:
                evidence = evidence_by_span(policy, ranked.__getitem__, library.followers)
                found[policy] += [bool(had & source) for had, source in zip(evidence, wanted, strict=True) if source]
        for policy in POLICIES:
            recalls[policy][share] = sum(found[policy]) / len(found[policy])
    return recalls


def _answers(library: Library, count: int) -> Iterator[tuple[Text, int]]:
    """Yields a text and the token at which the answer begins; the tokens before it are the question."""
    choose = random.Random(SEED + 1)
    needed = WINDOW_TOKENS + SPAN_TOKENS * SPANS
    long = [text for text in library.texts if len(text.offsets) >= needed]
    for _ in range(count):
        text = choose.choice(long)
        yield text, choose.randint(WINDOW_TOKENS, len(text.offsets) - SPAN_TOKENS * SPANS)


def _window_ends(start: int) -> list[int]:
    """Returns where each span's query window ends: a span before it begins, so that searches are 64 tokens stale."""
    return [start, *(start + SPAN_TOKENS * (span - 1) for span in range(1, SPANS))]


def _searched(library: Library, share: float) -> list[int]:
    """Returns the documents that are searched; those of a smaller share are among those of a larger one."""
    order = random.Random(SEED + 2).sample(range(len(library.texts)), len(library.texts))
    return order[: max(1, round(share * len(order)))]


def evidence_by_span(policy: str, ranked: Rank, followers: Sequence[int | None]) -> list[set[int]]:
    """Returns the passages in evidence during each span; `ranked(span)` are those its window finds, best first.

    All policies take the same number in total. Passages already in evidence are skipped, and a new passage brings the
    one that follows it.
    """
    later = PASSAGES_PER_REFRESH * (SPANS - 1)
    first = QUESTION_PASSAGES + (later if policy == "none" else 0)
    evidence = set(ranked(0)[:first])
    by_span = []
    for span in range(SPANS):
        if span and policy != "none":
            room = PASSAGES_PER_REFRESH if policy == "periodic" else later * (span == 1)
            evidence |= set(fresh(ranked(span), evidence, followers, room))
        by_span.append(set(evidence))
    return by_span


def fresh(ranking: Sequence[int], evidence: set[int], followers: Sequence[int | None], room: int) -> list[int]:
    """Returns the best new passages and those that follow them, at most `room`."""
    taken: list[int] = []
    for passage in ranking:
        for one in (passage, followers[passage]):
            if len(taken) >= room:
                return taken
            if one is not None and one not in evidence and one not in taken:
                taken.append(one)
    return taken
