"""Candidates: the rows that a scan holds for the best, and which of them are the best by their exact cosines.

Scores by codes and by int8 rows do not compare, so each kind sends its own best to be scored again: so many of those by
code as the codebook was calibrated for, and a few more than are wanted of those by int8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.partitions.layout import PartitionDamaged
from engine.partitions.open_rows import View
from engine.partitions.packed import Documents, Mask, Numbers, row_id
from engine.partitions.partition import Partition
from engine.partitions.rows import Found, Vectors

# int8 is off by less than 0.01 for unit vectors. More means that rows and exact rows are not of one file.
TOLERANCE = 0.05
# So many pairs of query and row are multiplied at a time: 25 MB of them.
_PAIRS_AT_ONCE = 16_384

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
        chosen = self._chosen()
        exact, documents = np.full(chosen.shape, -np.inf, np.float32), np.zeros(chosen.shape, np.int64)
        for found, columns in self._columns():
            self._score(found, chosen[:, columns], exact[:, columns], documents[:, columns])
        best = _best(exact, limit)
        ids = self._ids(best)
        return [
            _found(ids[query, of_query], documents[query, of_query], exact[query, of_query])
            for query, of_query in enumerate(best)
        ]

    def _columns(self) -> list[tuple[Candidates, slice]]:
        """Where each source's candidates stand when all are side by side."""
        ends = np.cumsum([found.scores.shape[1] for found in self._candidates]).tolist()
        return [
            (found, slice(end - found.scores.shape[1], end)) for found, end in zip(self._candidates, ends, strict=True)
        ]

    def _chosen(self) -> Mask:
        """(q, all): which candidates are to be scored exactly."""
        kinds: dict[int, list[tuple[Candidates, slice]]] = {}
        for found, columns in self._columns():
            kinds.setdefault(found.kind, []).append((found, columns))
        chosen = np.zeros((len(self._queries), self._columns()[-1][1].stop), np.bool_)
        for of_kind in kinds.values():
            scores = np.concatenate([found.scores for found, _ in of_kind], axis=1)
            mask, start = _best(scores, max(found.pool for found, _ in of_kind)), 0
            for found, columns in of_kind:
                end = start + found.scores.shape[1]
                chosen[:, columns] = mask[:, start:end]
                start = end
        return chosen

    def _score(self, found: Candidates, chosen: Mask, exact: Vectors, documents: Documents) -> None:
        """Writes exact cosines and documents where `chosen` says so, unless the source turns out to be damaged."""
        queries, columns = np.nonzero(chosen)
        if not len(queries):
            return
        positions, inverse = np.unique(found.positions[queries, columns], return_inverse=True)
        try:
            vectors = _exact(found.source, positions)
            cosines = self._cosines(vectors, inverse, queries)
            if not _agree(found, positions, vectors, cosines, found.scores[queries, columns]):
                raise PartitionDamaged("exact rows and int8 rows are not of one file")
        except PartitionDamaged as error:
            if isinstance(found.source, View):
                raise AssertionError("rows in memory have changed") from error
            self.damaged.append(found.source)
            return
        exact[queries, columns] = cosines
        documents[queries, columns] = _documents(found.source, positions)[inverse]

    def _cosines(self, vectors: Vectors, rows: Positions, queries: Positions) -> Scores:
        """Of each pair by itself, so that it is the same whatever else is asked."""
        cosines = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _PAIRS_AT_ONCE):
            some = slice(start, start + _PAIRS_AT_ONCE)
            cosines[some] = np.einsum("id,id->i", vectors[rows[some]], self._queries[queries[some]])
        return cosines

    def _ids(self, best: Mask) -> Numbers:
        ids = np.zeros(best.shape, np.uint64)
        for found, columns in self._columns():
            queries, places = np.nonzero(best[:, columns])
            positions = found.positions[queries, places]
            if found.ids is not None:
                ids[:, columns][queries, places] = found.ids[queries, places]
            elif isinstance(found.source, Partition) and len(positions):
                ids[:, columns][queries, places] = found.source.ids_of(positions)
        return ids


def _agree(found: Candidates, positions: Positions, vectors: Vectors, cosines: Scores, scores: Scores) -> bool:
    """Whether what was scored again is what was found. Written so that what is no number disagrees as well."""
    if found.kind == 0:
        return bool(np.all(np.abs(cosines - scores) <= TOLERANCE))
    # Codes promise too little of a single row; but vectors are one long, and else as the int8 rows say.
    odd = ~(np.abs(np.einsum("id,id->i", vectors, vectors) - 1) <= TOLERANCE)
    if not odd.any() or isinstance(found.source, View):
        return True
    return bool(np.all(np.abs(vectors[odd] - found.source.int8_of(positions[odd])) <= TOLERANCE))


def _exact(source: Partition | View, positions: Positions) -> Vectors:
    if isinstance(source, View):
        return source.packed.exact[positions].astype(np.float32)
    vectors = source.exact(positions)
    source.forget_pages()
    return vectors


def _documents(source: Partition | View, positions: Positions) -> Documents:
    return source.packed.documents[positions] if isinstance(source, View) else source.documents_of(positions)


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
