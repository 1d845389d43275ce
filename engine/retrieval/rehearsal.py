"""Rehearsal: artificial questions, searched for and read as all others are, and timed while no question is open.

The offline profiler has sweeps measured by it, alone and beside steps of the model (rehearsing.py); what a sweep costs
is learnt from them as from any other (cost.py).
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

# Words that are in most libraries, so that the index of words has something to do as well.
_TEXT = "Which date, amount and person are named in number {number} of what was agreed?"


@dataclass(frozen=True, slots=True)
class Searched:
    """So many batches of questions took `seconds` each; none where the library has nothing to find."""

    seconds: float
    num_batches: int


def rehearsed(
    searcher: Searcher,
    num_questions: int,
    least_seconds: float,
    is_wanted: Callable[[], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> Searched | None:
    """Searches for batches of questions and reads what was found, for so long at least; None where nothing is found.

    Args:
        searcher: Of the library.
        num_questions: Of a batch.
        least_seconds: After so long no other batch is begun.
        is_wanted: Asked between two batches.
        clock: Seconds.
    """
    begun, num_batches = clock(), 0
    while not num_batches or (clock() - begun < least_seconds and is_wanted()):
        # Words that were asked before would be found embedded.
        first = num_batches * num_questions
        queries = [Query(_TEXT.format(number=first + place)) for place in range(num_questions)]
        # And sentences that were read before would be, too.
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
