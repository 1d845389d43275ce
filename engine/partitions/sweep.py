"""A sweep: a batch of queries against all partitions, the resident ones first while the next cold one is read.

Every partition is scanned exactly, in int8; the best candidates of each query over all partitions are then scored again
with their exact vectors, which are gathered from the disk. Loading a partition costs as much as a dozen queries, so
all queries of a batch share each load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.partitions.kernels import Kernel
from engine.partitions.open_rows import View
from engine.partitions.packed import Documents, Mask, Numbers, row_id
from engine.partitions.partition import Partition, PartitionDamaged
from engine.partitions.prefetcher import Prefetcher, Reading
from engine.partitions.residency import Residency, Slot
from engine.partitions.rows import Found, Vectors

# int8 mistakes the order of near neighbours; among so many more than are wanted, the wanted ones are: twelve candidates
# for ten rows give a recall of 1.000 at 100,000 and at 1,000,000 vectors, and each costs 2 µs warm and 50 µs cold.
MARGIN = 20
# int8 is off by less than 0.01 for unit vectors. More means that rows and exact rows are not of one file.
TOLERANCE = 0.05
# Below this share it is cheaper to copy the wanted rows together than to scan them all.
_FEW = 1 / 8


@dataclass(frozen=True, slots=True, eq=False)
class Sealed:
    """A partition and which of its rows are still the table's; None means all."""

    partition: Partition
    alive: Mask | None

    def wanted(self, documents: Documents | None) -> Wanted | None:
        """Its rows in these documents; None where there is none, so that it need not even be read."""
        if documents is None:
            return Wanted(self.partition, self.alive)
        mask = self.partition.in_documents(documents)
        if mask is not None and self.alive is not None:
            mask &= self.alive
        return Wanted(self.partition, mask) if mask is not None and mask.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a sweep looks at in a partition."""

    partition: Partition
    mask: Mask | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rows as they were at one moment.

    `missing` are the numbers of the shards whose rows only LanceDB has, `open_numbers` of those that have rows in
    memory; `newest` is the number that new rows come with.
    """

    sealed: tuple[Sealed, ...]
    open: tuple[View, ...]
    missing: tuple[int, ...]
    open_numbers: tuple[int, ...] = ()
    newest: int = 0

    @property
    def outline_bytes(self) -> int:
        """What is in memory of every partition, resident or not."""
        return sum(
            sealed.partition.outline_bytes + (0 if sealed.alive is None else sealed.alive.nbytes)
            for sealed in self.sealed
        )


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found, and what it could not look at: damaged partitions' rows are not in `found`."""

    found: list[list[Found]]
    damaged: tuple[Partition, ...]
    num_loads: int
    num_skipped: int


class Sweeper:
    """Carries sweeps out, one at a time."""

    def __init__(self, kernel: Kernel, prefetcher: Prefetcher, residency: Residency) -> None:
        self._kernel, self._prefetcher, self._residency = kernel, prefetcher, residency

    def sweep(
        self,
        snapshot: Snapshot,
        queries: Vectors,
        limit: int,
        documents: Documents | None = None,
        cold_slack: float | None = None,
    ) -> Swept:
        """The `limit` nearest rows for each of the (q, d) queries, best first.

        Args:
            snapshot: Where to look.
            queries: Unit vectors, at least one.
            limit: At least 1.
            documents: Only rows of these documents; None means all.
            cold_slack: Leaves out cold partitions that are unlikely to hold a better row for a single query than
                those found already: ones whose centroid's cosine plus `cold_slack` times their radius is too low.
                None reads all. At 1 nothing is lost, and nothing is left out either: partitions in the order of
                arrival are much alike. Measured on SQuAD's paragraphs, a quarter of 20 partitions resident: at 0.4
                recall@10 is .995 and 2 % of the cold ones are left out, at 0.35 .96 and 7 %, at 0.3 .90 and 17 %.
        """
        wanted = [part for sealed in snapshot.sealed if (part := sealed.wanted(documents)) is not None]
        self._residency.keep_only({sealed.partition for sealed in snapshot.sealed})
        self._residency.note_use(part.partition for part in wanted)
        walk = _Walk(self._kernel, queries, limit + max(MARGIN, limit // 4))
        for view in snapshot.open:
            walk.scan_view(view, documents)
        num_loads = self._walk_sealed(walk, wanted, cold_slack if len(queries) == 1 else None, limit)
        self._residency.fit()
        return Swept(walk.ranked(limit), tuple(walk.damaged), num_loads, walk.num_skipped)

    def _walk_sealed(self, walk: _Walk, wanted: Sequence[Wanted], cold_slack: float | None, limit: int) -> int:
        """Scans resident partitions, then the others as they arrive; returns how many were read."""
        slots = {part: slot for part in wanted if (slot := self._residency.slot_of(part.partition)) is not None}
        # The least used first: its room is the first to be read into.
        resident = sorted(slots, key=lambda part: self._residency.use_of(part.partition.number))
        cold = _Cold([part for part in wanted if part not in slots], self._residency, self._prefetcher)
        try:
            for place, part in enumerate(resident):
                cold.begin(needed=[slots[other] for other in resident[place:]])
                walk.scan_block(part, slots[part])
            cold.pending = walk.likely(cold.pending, limit, cold_slack)
            while (arrival := cold.next()) is not None:
                part, slot = arrival
                if slot is None:
                    walk.damaged.append(part.partition)
                    continue
                cold.begin(needed=[slot])
                walk.scan_block(part, slot)
        finally:
            cold.cancel()
        return cold.num_loads


class _Cold:
    """The partitions that are still to be read, of which one at most is being read."""

    def __init__(self, pending: list[Wanted], residency: Residency, prefetcher: Prefetcher) -> None:
        self.pending, self.num_loads = pending, 0
        self._residency, self._prefetcher = residency, prefetcher
        self._reading: tuple[Wanted, Slot, Reading] | None = None

    def begin(self, needed: Sequence[Slot], *, at_any_cost: bool = False) -> None:
        """Begins to read the next one if there is room beside the slots that are `needed`."""
        if self._reading is not None or not self.pending:
            return
        part = self.pending[0]
        slot = self._residency.make_room(part.partition, needed, at_any_cost=at_any_cost)
        if slot is not None:
            del self.pending[0]
            self._reading = part, slot, self._prefetcher.read(part.partition, slot.buffer)

    def next(self) -> tuple[Wanted, Slot | None] | None:
        """The next one, when it is there: with no slot where it could not be read. None when all have come."""
        self.begin([], at_any_cost=True)
        if self._reading is None:
            return None
        part, slot, reading = self._reading
        try:
            reading.wait()
        except PartitionDamaged:
            self._residency.drop(slot)
            return part, None
        finally:
            self._reading = None
        slot.loaded()
        self.num_loads += 1
        return part, slot

    def cancel(self) -> None:
        if self._reading is not None:
            _, slot, reading = self._reading
            reading.cancel()
            self._residency.drop(slot)
            self._reading = None


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """The best rows of one source: (q, k) each. The ids are kept, because the block may be gone by the end."""

    source: Partition | View
    positions: NDArray[np.int64]
    ids: Numbers
    scores: NDArray[np.float32]


class _Walk:
    """One sweep's queries and what they have found so far."""

    def __init__(self, kernel: Kernel, queries: Vectors, pool: int) -> None:
        self._kernel, self._pool = kernel, pool
        self._queries: Vectors = np.ascontiguousarray(queries, dtype=np.float32)
        self._candidates: list[_Candidates] = []
        self.damaged: list[Partition] = []
        self.num_skipped = 0

    def scan_view(self, view: View, documents: Documents | None) -> None:
        mask = view.alive
        if documents is not None:
            within = np.isin(view.packed.documents, documents)
            mask = within if mask is None else within & mask
        packed = view.packed
        self._scan(view, packed.ids, packed.rows, packed.scales, mask)

    def scan_block(self, part: Wanted, slot: Slot) -> None:
        block = slot.block()
        self._scan(part.partition, block.ids, block.rows, block.scales, part.mask)

    def _scan(
        self,
        source: Partition | View,
        ids: Numbers,
        rows: NDArray[np.int8],
        scales: NDArray[np.float32],
        mask: Mask | None,
    ) -> None:
        chosen = None
        if mask is not None and (count := int(np.count_nonzero(mask))) < len(rows) * _FEW:
            if not count:
                return
            chosen, mask = np.flatnonzero(mask), None
            rows, scales = rows[chosen], scales[chosen]
        positions, scores = self._kernel.scan(rows, scales, self._queries, min(self._pool, len(rows)), mask)
        positions = positions if chosen is None else chosen[positions]
        self._candidates.append(_Candidates(source, positions, ids[positions], scores))

    def likely(self, cold: list[Wanted], limit: int, slack: float | None) -> list[Wanted]:
        """Those that may hold a row better than the `limit` best so far; all of them where `slack` is None."""
        scores = np.concatenate([found.scores[0] for found in self._candidates]) if self._candidates else np.zeros(0)
        if slack is None or len(scores) < limit:
            return cold
        enough = float(np.partition(scores, -limit)[-limit])
        query = self._queries[0]
        kept = [
            part
            for part in cold
            if float(query @ part.partition.centroid) + slack * part.partition.header.radius >= enough
        ]
        self.num_skipped = len(cold) - len(kept)
        return kept

    def ranked(self, limit: int) -> list[list[Found]]:
        """The best rows of each query by their exact cosine.

        A partition that turns out to be damaged has none, and must not have kept those of others from being chosen.
        """
        num_damaged = -1
        while num_damaged != len(self.damaged):
            num_damaged = len(self.damaged)
            self._candidates = [found for found in self._candidates if found.source not in self.damaged]
            ranked = self._rescored(limit)
        return ranked

    def _rescored(self, limit: int) -> list[list[Found]]:
        if not self._candidates:
            return [[] for _ in self._queries]
        scores = np.concatenate([found.scores for found in self._candidates], axis=1)
        ids = np.concatenate([found.ids for found in self._candidates], axis=1)
        exact, documents = np.full(scores.shape, -np.inf, np.float32), np.zeros(scores.shape, np.int64)
        chosen = _best(scores, self._pool)
        start = 0
        for found in self._candidates:
            columns = slice(start, start + found.scores.shape[1])
            self._score(found, chosen[:, columns], exact[:, columns], documents[:, columns])
            start = columns.stop
        order = np.argsort(-exact, axis=1, kind="stable")[:, :limit]
        return [
            _found(ids[query, best], documents[query, best], exact[query, best]) for query, best in enumerate(order)
        ]

    def _score(self, found: _Candidates, chosen: Mask, exact: Vectors, documents: Documents) -> None:
        """Writes exact cosines and documents where `chosen` says so, unless the source turns out to be damaged."""
        queries, columns = np.nonzero(chosen)
        if not len(queries):
            return
        positions, inverse = np.unique(found.positions[queries, columns], return_inverse=True)
        try:
            vectors = _exact(found.source, positions)
            cosines = np.einsum("id,id->i", vectors[inverse], self._queries[queries])
            # Written so that what is no number disagrees as well.
            if not np.all(np.abs(cosines - found.scores[queries, columns]) <= TOLERANCE):
                raise PartitionDamaged("exact rows and int8 rows are not of one file")
        except PartitionDamaged as error:
            if isinstance(found.source, View):
                raise AssertionError("rows in memory have changed") from error
            self.damaged.append(found.source)
            return
        exact[queries, columns] = cosines
        documents[queries, columns] = _documents(found.source, positions)[inverse]


def _exact(source: Partition | View, positions: NDArray[np.int64]) -> Vectors:
    if isinstance(source, View):
        return source.packed.exact[positions].astype(np.float32)
    vectors = source.exact(positions)
    source.forget_pages()
    return vectors


def _documents(source: Partition | View, positions: NDArray[np.int64]) -> Documents:
    return source.packed.documents[positions] if isinstance(source, View) else source.documents_of(positions)


def _best(scores: NDArray[np.float32], count: int) -> Mask:
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
        if score > -np.inf
    ]
    return sorted(rows, key=lambda row: (-row.score, row.row_id))
