"""Candidates: the rows that a scan holds for the best, and which of them are the best by their exact cosines.

Scores by codes and by int8 rows do not compare, so each kind sends its own best to be scored again: so many of those by
code as the codebook was calibrated for, and a few more than are wanted of those by int8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.partitions.halves import widened
from engine.partitions.layout import PartitionDamaged
from engine.partitions.open_rows import View
from engine.partitions.packed import Documents, Mask, Numbers, row_id
from engine.partitions.partition import Partition
from engine.partitions.rows import Found, Vectors

# int8 is off by less than 0.01 for unit vectors. More means that rows and exact rows are not of one file.
TOLERANCE = 0.05
# So many rows are gathered, and so many pairs of query and row multiplied, at a time: they stay in the cache.
_ROWS_AT_ONCE = 1024

Positions = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The best rows of one source: (q, k) each.

    `pool` of all candidates of one `kind` are scored exactly: kind 0 are scores by int8 rows, others by the codebook
    of that number. `ids` are kept where what they came from may be gone by the end; None means they are in the file.
    """

    source: Partition | View
    positions: Positions
    scores: Scores
    kind: int
    pool: int
    ids: Numbers | None


# Sources and which columns of all candidates are theirs.
_SideBySide = list[tuple[Candidates, slice]]


@dataclass(frozen=True, slots=True, eq=False)
class _Picked:
    """The rows of one source that are scored exactly: pair i is of `queries[i]` and `positions[rows[i]]`.

    `columns` say where the pairs stand among all candidates, `scores` what they were found with.
    """

    found: Candidates
    queries: Positions
    columns: Positions
    scores: Scores
    positions: Positions
    rows: Positions


class Rescoring:
    """Gives all candidates of a sweep their exact scores."""

    def __init__(self, queries: Vectors, candidates: list[Candidates]) -> None:
        self._queries, self._candidates = queries, candidates
        self.damaged: list[Partition] = []

    def ranked(self, limit: int) -> list[list[Found]]:
        """The `limit` best rows of each query.

        A partition that turns out to be damaged has none, and must not have kept those of others from being chosen.
        """
        num_damaged = -1
        while num_damaged != len(self.damaged):
            num_damaged = len(self.damaged)
            self._candidates = [found for found in self._candidates if found.source not in self.damaged]
            ranked = self._ranked(limit)
        return ranked

    def _ranked(self, limit: int) -> list[list[Found]]:
        if not self._candidates:
            return [[] for _ in self._queries]
        side_by_side = self._columns()
        chosen = self._chosen(side_by_side)
        exact = np.full(chosen.shape, -np.inf, np.float32)
        picked = [_picked(found, columns, chosen[:, columns]) for found, columns in side_by_side]
        for some, vectors in self._gathered([one for one in picked if len(one.rows)]):
            self._score(some, widened(vectors), exact)
        return self._named(side_by_side, exact, _best(exact, limit))

    # --- which ---

    def _columns(self) -> _SideBySide:
        """Where each source's candidates stand when all are side by side."""
        ends = np.cumsum([found.scores.shape[1] for found in self._candidates]).tolist()
        return [
            (found, slice(end - found.scores.shape[1], end)) for found, end in zip(self._candidates, ends, strict=True)
        ]

    def _chosen(self, side_by_side: _SideBySide) -> Mask:
        """(q, all): which candidates are to be scored exactly."""
        kinds: dict[int, _SideBySide] = {}
        for found, columns in side_by_side:
            kinds.setdefault(found.kind, []).append((found, columns))
        chosen = np.zeros((len(self._queries), side_by_side[-1][1].stop), np.bool_)
        for of_kind in kinds.values():
            scores = np.concatenate([found.scores for found, _ in of_kind], axis=1)
            mask, start = _best(scores, max(found.pool for found, _ in of_kind)), 0
            for found, columns in of_kind:
                end = start + found.scores.shape[1]
                chosen[:, columns] = mask[:, start:end]
                start = end
        return chosen

    # --- their scores ---

    def _gathered(self, picked: list[_Picked]) -> Iterator[tuple[list[_Picked], NDArray[np.float16]]]:
        """The rows of some sources after the others, as many as it takes to convert and multiply them at one go."""
        some, halves, is_cold = list[_Picked](), list[NDArray[np.float16]](), False
        for place, one in enumerate(picked):
            try:
                rows, was_cold = _halves(one)
            except PartitionDamaged:
                self._note_damage(one.found)
                continue
            if was_cold and not is_cold:
                _announce(picked[place + 1 :])
                is_cold = True
            some.append(one)
            halves.append(rows)
            if sum(map(len, halves)) >= _ROWS_AT_ONCE:
                yield some, np.concatenate(halves)
                some, halves = [], []
        if some:
            yield some, np.concatenate(halves)

    def _score(self, some: list[_Picked], vectors: Vectors, exact: Scores) -> None:
        """Writes exact cosines, but of sources that turn out to be damaged."""
        lengths = np.einsum("id,id->i", vectors, vectors)
        start = 0
        for one in some:
            of_one = slice(start, start + len(one.positions))
            start = of_one.stop
            cosines = self._cosines(vectors[of_one], one.rows, one.queries)
            if _agree(one, vectors[of_one], lengths[of_one], cosines):
                exact[one.queries, one.columns] = cosines
            else:
                self._note_damage(one.found)

    def _cosines(self, vectors: Vectors, rows: Positions, queries: Positions) -> Scores:
        """Of each pair by itself, so that it is the same whatever else is asked."""
        if len(self._queries) == 1:
            of_one: Scores = np.einsum("id,d->i", vectors, self._queries[0])[rows]
            return of_one
        cosines = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            pairs = slice(start, start + _ROWS_AT_ONCE)
            cosines[pairs] = np.einsum("id,id->i", vectors[rows[pairs]], self._queries[queries[pairs]])
        return cosines

    def _note_damage(self, found: Candidates) -> None:
        assert isinstance(found.source, Partition), "rows in memory have changed"
        self.damaged.append(found.source)

    # --- who they are ---

    def _named(self, side_by_side: _SideBySide, exact: Scores, best: Mask) -> list[list[Found]]:
        ids, documents = np.zeros(best.shape, np.uint64), np.zeros(best.shape, np.int64)
        for found, columns in side_by_side:
            queries, places = np.nonzero(best[:, columns])
            if len(queries):
                at, positions = (queries, places + columns.start), found.positions[queries, places]
                documents[at] = _documents(found.source, positions)
                ids[at] = found.ids[queries, places] if found.ids is not None else _ids(found.source, positions)
        return [
            _found(ids[query, of_query], documents[query, of_query], exact[query, of_query])
            for query, of_query in enumerate(best)
        ]


def _picked(found: Candidates, columns: slice, chosen: Mask) -> _Picked:
    queries, places = np.nonzero(chosen)
    if len(chosen) == 1:
        # Nothing is there twice, and 20 µs a partition count when there is but one question.
        places = places[np.argsort(found.positions[0, places])]
        positions, rows = found.positions[0, places], np.arange(len(places))
    else:
        positions, rows = np.unique(found.positions[queries, places], return_inverse=True)
    return _Picked(found, queries, places + columns.start, found.scores[queries, places], positions, rows)


def _agree(one: _Picked, vectors: Vectors, lengths: Scores, cosines: Scores) -> bool:
    """Whether what was scored again is what was found. Written so that what is no number disagrees as well."""
    if one.found.kind == 0:
        return bool(np.all(np.abs(cosines - one.scores) <= TOLERANCE))
    # Codes promise too little of a single row; but vectors are one long, and else as the int8 rows say.
    odd = ~(np.abs(lengths - 1) <= TOLERANCE)
    if not odd.any() or isinstance(one.found.source, View):
        return True
    return bool(np.all(np.abs(vectors[odd] - one.found.source.int8_of(one.positions[odd])) <= TOLERANCE))


def _halves(one: _Picked) -> tuple[NDArray[np.float16], bool]:
    """The rows, and whether they came slowly."""
    source = one.found.source
    if isinstance(source, View):
        return source.packed.exact[one.positions], False
    halves = source.halves(one.positions)
    source.forget_pages()
    return halves


def _announce(picked: list[_Picked]) -> None:
    for one in picked:
        if isinstance(one.found.source, Partition):
            one.found.source.announce(one.positions)


def _documents(source: Partition | View, positions: Positions) -> Documents:
    return source.packed.documents[positions] if isinstance(source, View) else source.documents_of(positions)


def _ids(source: Partition | View, positions: Positions) -> Numbers:
    return source.packed.ids[positions] if isinstance(source, View) else source.ids_of(positions)


def _best(scores: Scores, count: int) -> Mask:
    """Which of the (q, n) scores are among the `count` best of their row, and finite."""
    chosen = np.zeros(scores.shape, np.bool_)
    if scores.shape[1] > count:
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        np.put_along_axis(chosen, best, True, axis=1)
    else:
        chosen[:] = True
    return chosen & np.isfinite(scores)


def _found(ids: Numbers, documents: Documents, scores: NDArray[Any]) -> list[Found]:
    rows = [
        Found(row_id(id_), document, score)
        for id_, document, score in zip(ids.tolist(), documents.tolist(), scores.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.score, row.row_id))
