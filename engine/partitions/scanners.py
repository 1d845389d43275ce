"""Threads that scan codes and score candidates: one for each processor, because faiss and numpy use the caller's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from engine.own_cores import available_cores
from engine.partitions.codes import Codes, Positions, Scores
from engine.partitions.packed import Mask
from engine.partitions.rows import Vectors
from engine.yielding import threads_allowed

Item = TypeVar("Item")
Result = TypeVar("Result")

# Each part is asked for this many times its share of the best, plus some more. With rows in random order that is
# enough.
_SHARES, _MORE = 2, 16


class Scanners:
    """Used by the thread that sweeps. The threads start with the first scan."""

    def __init__(self) -> None:
        self.num_threads = available_cores()
        self._pool = ThreadPoolExecutor(self.num_threads, thread_name_prefix="scan")

    def best(
        self, parts: Sequence[tuple[Codes, Mask | None]], queries: Vectors, limit: int
    ) -> list[tuple[Positions, Scores]]:
        """Returns rows of each part that include the `limit` best of all parts for each query.

        Each part is first asked for a little more than its share, which takes three quarters of the time of asking for
        `limit`. A part that may have more of the best rows is asked again.

        Returns:
            Positions and scores of each part, (q, k) each, with −∞ where there is no row.
        """
        share = min(limit, _SHARES * -(-limit // max(1, len(parts))) + _MORE)
        found = self._scanned([(codes, mask, queries) for codes, mask in parts], share)
        if share == limit:
            return found
        enough = _last_that_counts([scores for _, scores in found], limit)
        # A part that returned fewer rows than asked for has no more.
        unsure = np.stack([(scores.shape[1] == share) & (_last(scores) > enough) for _, scores in found])
        places = np.flatnonzero(unsure.any(axis=1)).tolist()
        again = self._scanned([(*parts[place], queries[unsure[place]]) for place in places], limit)
        for place, deeper in zip(places, again, strict=True):
            found[place] = _replaced(found[place], unsure[place], deeper)
        return found

    def _scanned(
        self, asked: Sequence[tuple[Codes, Mask | None, Vectors]], limit: int
    ) -> list[tuple[Positions, Scores]]:
        """Returns `Codes.best` of each part, in order; if parts are few, queries are split among threads."""
        num_shares = -(-self.num_threads // max(1, len(asked)))
        shares = [_shares(queries, min(len(queries), num_shares)) for _, _, queries in asked]
        scans = [(*part[:2], share) for part, of_part in zip(asked, shares, strict=True) for share in of_part]
        done = iter(self.each(lambda scan: scan[0].best(scan[2], limit, scan[1]), scans))
        return [_joined([next(done) for _ in of_part]) for of_part in shares]

    def each(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Applies `work` to each item, and returns the results in order. Raises what `work` raises."""
        places, results = iter(range(len(items))), dict[int, Result]()

        def take_turns() -> None:
            # A future for each of twenty scans of half a millisecond would cost as much as two of them.
            for place in places:
                results[place] = work(items[place])

        # The caller works as well, so that one thread fewer has to wake up. A caller with low priority gets no helpers:
        # threads of the pool have normal priority, and one that it started would keep its low priority.
        num_helpers = min(threads_allowed() or self.num_threads, self.num_threads, len(items)) - 1
        turns = [self._pool.submit(take_turns) for _ in range(num_helpers)]
        try:
            take_turns()
        finally:
            wait(turns)
        for turn in turns:
            turn.result()
        return [results[place] for place in range(len(items))]

    def close(self) -> None:
        self._pool.shutdown()


def _shares(queries: Vectors, count: int) -> list[Vectors]:
    # Splitting takes 30 µs, and there may be many parts.
    return [queries] if count == 1 else np.array_split(queries, count)


def _joined(found: Sequence[tuple[Positions, Scores]]) -> tuple[Positions, Scores]:
    """Concatenates the results of shares of the queries."""
    if len(found) == 1:
        return found[0]
    return np.concatenate([positions for positions, _ in found]), np.concatenate([scores for _, scores in found])


def _last(scores: Scores) -> Scores:
    """Returns (q,): the worst score that was found; −∞ if nothing was."""
    return scores[:, -1] if scores.shape[1] else np.full(len(scores), -np.inf, np.float32)


def _last_that_counts(scores: Sequence[Scores], limit: int) -> Scores:
    """Returns (q,): the score of the `limit`-th best row; −∞ if there are fewer."""
    every = np.concatenate(scores, axis=1)
    if every.shape[1] < limit:
        return np.full(len(every), -np.inf, np.float32)
    last: Scores = np.partition(every, -limit, axis=1)[:, -limit]
    return last


def _replaced(
    found: tuple[Positions, Scores], queries: Mask, deeper: tuple[Positions, Scores]
) -> tuple[Positions, Scores]:
    """Returns what was found, with the deeper results for some queries."""
    (positions, scores), width = found, deeper[1].shape[1]
    more = ((0, 0), (0, width - scores.shape[1]))
    positions, scores = np.pad(positions, more), np.pad(scores, more, constant_values=-np.inf)
    positions[queries], scores[queries] = deeper
    return positions, scores
