"""Candidates: the rows that a scan considers best, and which of them are best by their exact cosines.

Scores by codes and scores by int8 rows are not comparable, so the best of each kind are scored again: of those by code
as many as the codebook was calibrated for, of those by int8 a few more than are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.partitions.halves import widened
from engine.partitions.layout import PartitionDamaged
from engine.partitions.open_rows import View
from engine.partitions.packed import Documents, Mask, Numbers, row_id
from engine.partitions.partition import Partition
from engine.partitions.rows import Found, Vectors
from engine.partitions.scanners import Scanners

# int8 is off by less than 0.01 for unit vectors. A larger difference means that int8 rows and exact rows do not match.
TOLERANCE = 0.05
# How many pairs of query and row are gathered and multiplied at a time: few enough to stay in the cache, enough to be
# worth a thread. The 300 pairs of one question take 4 ms on two threads (which wait for the GIL) and 2 ms on one.
_PAIRS_AT_ONCE = 1024

Positions = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The best rows of one source: (q, k) each.

    Of all candidates of one `kind`, the best `pool` are scored exactly. Kind 0 means scores by int8 rows, any other
    number is the CRC of the codebook. `ids` are copied where their source may be gone later; None means they are in the
    file.
    """

    source: Partition | View
    positions: Positions
    scores: Scores
    kind: int
    pool: int
    ids: Numbers | None


@dataclass(frozen=True, slots=True, eq=False)
class _SideBySide:
    """All candidates of a sweep, (q, all): `sources` has each column's source, `starts` each source's first column.

    `kinds` has the kind of each source.
    """

    positions: Positions
    scores: Scores
    sources: Positions
    starts: Positions
    kinds: Positions

    @classmethod
    def of(cls, candidates: list[Candidates]) -> _SideBySide:
        widths = np.array([found.scores.shape[1] for found in candidates])
        return cls(
            np.concatenate([found.positions for found in candidates], axis=1),
            np.concatenate([found.scores for found in candidates], axis=1),
            np.repeat(np.arange(len(candidates)), widths),
            np.cumsum(widths) - widths,
            np.array([found.kind for found in candidates], np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Pairs of query and row, sorted by source and row; all arrays have p entries.

    `columns` are the columns of the pairs among all candidates.
    """

    queries: Positions
    columns: Positions
    sources: Positions
    positions: Positions

    @classmethod
    def of(cls, everything: _SideBySide, chosen: Mask) -> _Pairs:
        queries, columns = np.nonzero(chosen)
        sources, positions = everything.sources[columns], everything.positions[queries, columns]
        return cls(queries, columns, sources, positions).take(np.argsort((sources << 32) | positions))

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, where: Any) -> _Pairs:
        return _Pairs(self.queries[where], self.columns[where], self.sources[where], self.positions[where])

    def is_first(self) -> Mask:
        """Returns a mask of the pairs that are the first of their row."""
        first = np.ones(len(self), np.bool_)
        first[1:] = (self.positions[1:] != self.positions[:-1]) | (self.sources[1:] != self.sources[:-1])
        return first

    def by_source(self) -> Iterator[tuple[int, slice]]:
        """Yields each source and the slice of its pairs."""
        begins = [0, *(np.flatnonzero(np.diff(self.sources)) + 1).tolist(), len(self)]
        for begin, end in pairwise(begins if len(self) else []):
            yield int(self.sources[begin]), slice(begin, end)


class Rescoring:
    """Gives all candidates of a sweep their exact scores."""

    def __init__(self, queries: Vectors, candidates: list[Candidates], scanners: Scanners) -> None:
        self._queries, self._candidates, self._scanners = queries, candidates, scanners
        self._is_cold = False
        # A dictionary keeps the order and can be written from several threads.
        self._damaged: dict[Partition, None] = {}

    @property
    def damaged(self) -> tuple[Partition, ...]:
        return tuple(self._damaged)

    def ranked(self, limit: int) -> list[list[Found]]:
        """Returns the `limit` best rows of each query.

        Rows of a partition that turns out to be damaged are dropped, and the choice is repeated without them.
        """
        num_damaged = -1
        while num_damaged != len(self.damaged):
            num_damaged = len(self.damaged)
            self._candidates = [found for found in self._candidates if found.source not in self.damaged]
            ranked = self._ranked(limit)
        return ranked

    def _ranked(self, limit: int) -> list[list[Found]]:
        """Ranks once; the result is invalid if this finds damage."""
        if not self._candidates:
            return [[] for _ in self._queries]
        everything = _SideBySide.of(self._candidates)
        pairs = _Pairs.of(everything, self._chosen(everything))
        exact = np.full(everything.scores.shape, -np.inf, np.float32)
        pieces = [slice(start, start + _PAIRS_AT_ONCE) for start in range(0, len(pairs), _PAIRS_AT_ONCE)]
        cosines = self._scanners.each(lambda piece: self._scored(everything, pairs, piece), pieces)
        if cosines:
            exact[pairs.queries, pairs.columns] = np.concatenate(cosines)
        return self._named(everything, exact, _best(exact, limit))

    def _chosen(self, everything: _SideBySide) -> Mask:
        """Returns a mask (q, all) of the candidates to be scored exactly."""
        chosen = np.zeros(everything.scores.shape, np.bool_)
        kinds = everything.kinds[everything.sources]
        for kind in np.unique(everything.kinds).tolist():
            pool = max(found.pool for found in self._candidates if found.kind == kind)
            of_kind = np.flatnonzero(kinds == kind)
            chosen[:, of_kind] = _best(everything.scores[:, of_kind], pool)
        return chosen

    # --- exact scores ---

    def _scored(self, everything: _SideBySide, pairs: _Pairs, piece: slice) -> Scores:
        """Returns exact cosines of a piece of the pairs, and checks them against the first scores; on any thread."""
        some = pairs.take(piece)
        is_first = some.is_first()
        distinct, rows = some.take(is_first), np.cumsum(is_first) - 1
        vectors = widened(self._gathered(distinct, pairs))
        cosines = self._cosines(vectors, rows, some.queries)
        by_int8 = everything.kinds[some.sources] == 0
        found = everything.scores[some.queries, some.columns]
        # Written so that NaN counts as a difference, too.
        for source in np.unique(some.sources[by_int8 & ~(np.abs(cosines - found) <= TOLERANCE)]).tolist():
            self._note_damage(source)
        # A score by code is too rough to check a single row by. Exact vectors have unit length; others must equal the
        # int8 row.
        odd = ~(np.abs(np.einsum("id,id->i", vectors, vectors) - 1) <= TOLERANCE)
        odd &= ~by_int8[is_first]
        if odd.any():
            self._compare(distinct.take(odd), vectors[odd])
        return cosines

    def _gathered(self, rows: _Pairs, pairs: _Pairs) -> NDArray[np.float16]:
        """Returns the exact rows. If reading is slow, the system is told which rows of later sources will be read."""
        halves = np.zeros((len(rows), self._queries.shape[1]), np.float16)
        for source, place in rows.by_source():
            try:
                halves[place], was_cold = _halves(self._candidates[source].source, rows.positions[place])
            except PartitionDamaged:
                self._note_damage(source)
                continue
            if was_cold and not self._is_cold:
                self._is_cold = True
                self._announce(pairs.take(pairs.is_first()), after=source)
        return halves

    def _cosines(self, vectors: Vectors, rows: Positions, queries: Positions) -> Scores:
        """Computes each pair separately, so that its score does not depend on the rest of the batch."""
        if len(self._queries) == 1:
            of_one: Scores = np.einsum("id,d->i", vectors, self._queries[0])[rows]
            return of_one
        of_pairs: Scores = np.einsum("id,id->i", vectors[rows], self._queries[queries])
        return of_pairs

    def _compare(self, rows: _Pairs, vectors: Vectors) -> None:
        """Notes damage where vectors differ from the int8 rows of the same partitions."""
        for source, place in rows.by_source():
            partition = self._partition(source)
            try:
                differences = np.abs(vectors[place] - partition.int8_of(rows.positions[place]))
            except PartitionDamaged:
                self._note_damage(source)
                continue
            if not np.all(differences <= TOLERANCE):
                self._note_damage(source)

    def _announce(self, rows: _Pairs, after: int) -> None:
        for number, place in rows.by_source():
            source = self._candidates[number].source
            if number > after and isinstance(source, Partition):
                source.announce(rows.positions[place])

    def _partition(self, source: int) -> Partition:
        partition = self._candidates[source].source
        assert isinstance(partition, Partition), "rows in memory have changed"
        return partition

    def _note_damage(self, source: int) -> None:
        self._damaged[self._partition(source)] = None

    # --- ids and documents ---

    def _named(self, everything: _SideBySide, exact: Scores, best: Mask) -> list[list[Found]]:
        ids, documents = np.zeros(best.shape, np.uint64), np.zeros(best.shape, np.int64)
        pairs = _Pairs.of(everything, best)
        for source, place in pairs.by_source():
            found, at = self._candidates[source], (pairs.queries[place], pairs.columns[place])
            documents[at] = _documents(found.source, pairs.positions[place])
            try:
                if found.ids is None:
                    ids[at] = _ids(found.source, pairs.positions[place])
                else:
                    ids[at] = found.ids[pairs.queries[place], pairs.columns[place] - everything.starts[source]]
            except PartitionDamaged:
                self._note_damage(source)
        return [
            _found(ids[query, of_query], documents[query, of_query], exact[query, of_query])
            for query, of_query in enumerate(best)
        ]


def _halves(source: Partition | View, positions: Positions) -> tuple[NDArray[np.float16], bool]:
    """Returns the rows, and whether reading them was slow."""
    if isinstance(source, View):
        return source.packed.exact[positions], False
    halves = source.halves(positions)
    source.forget_pages()
    return halves


def _documents(source: Partition | View, positions: Positions) -> Documents:
    return source.packed.documents[positions] if isinstance(source, View) else source.documents_of(positions)


def _ids(source: Partition | View, positions: Positions) -> Numbers:
    return source.packed.ids[positions] if isinstance(source, View) else source.ids_of(positions)


def _best(scores: Scores, count: int) -> Mask:
    """Returns a mask of the (q, n) scores that are among the `count` best of their row, and finite."""
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
