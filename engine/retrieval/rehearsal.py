"""Rehearsal: artificial questions, searched for and read as all others are, and timed while no question is open.

The offline profiler uses it to measure sweeps, alone and during steps of the model (rehearsing.py); the cost model
learns from them as from all sweeps (cost.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.memory.ledger import Ledger
from engine.partitions.sweep import SweepPaused
from engine.retrieval.pauses import Pauses
from engine.retrieval.query import Query
from engine.retrieval.reader import Reader
from engine.retrieval.search import Searcher
from engine.retrieval.sentence_vectors import SentenceVectors

# These words occur in most libraries, so that the word index is used as well.
_TEXT = "Which date, amount and person are named in number {number} of what was agreed?"


@dataclass(frozen=True, slots=True)
class Searched:
    """`num_batches` batches of questions took `seconds` each."""

    seconds: float
    num_batches: int


def rehearsed(
    searcher: Searcher,
    num_questions: int,
    least_seconds: float,
    is_wanted: Callable[[], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> Searched | None:
    """Searches for batches of questions and reads the results; returns None if nothing is found or it is not wanted.

    Args:
        searcher: Searches the library.
        num_questions: The size of a batch.
        least_seconds: No further batch is started after this time.
        is_wanted: Whether to continue; asked between steps.
        clock: Returns seconds.
    """
    begun, num_batches = clock(), 0
    while not num_batches or (clock() - begun < least_seconds and is_wanted()):
        # Other numbers in each batch, because embedded questions are cached.
        first = num_batches * num_questions
        queries = [Query(_TEXT.format(number=first + place)) for place in range(num_questions)]
        # A new cache, because embedded sentences are cached as well.
        vectors = SentenceVectors(Ledger())
        found = False
        try:
            results = searcher.search(queries, Pauses(lambda: not is_wanted()))
        except SweepPaused:
            return None
        for query, result in zip(queries, results, strict=True):
            if not is_wanted():
                return None
            found = found or bool(result.passages)
            Reader(searcher.embedder, vectors).read(query.text, result.passages, result.strength)
        vectors.close()
        num_batches += 1
        if not found:
            return None
    return Searched((clock() - begun) / num_batches, num_batches)
