"""A sweep: a batch of queries against all partitions, the resident ones first while the next cold one is read.

A partition is scanned by its codes where it has any, else exactly in int8; the best candidates of each query over all
partitions are then scored again with their exact vectors, which are gathered from the disk. Loading a partition costs
as much as many queries, so all queries of a batch share each load.

A sweep of a library larger than memory takes seconds. If it is interrupted, by an error or because others
go first, its results are kept: the same sweep continues with the partitions that it has not seen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.partitions.codebook import Codebook
from engine.partitions.codes import Codes, CodesDamaged
from engine.partitions.kernels import NumpyKernel
from engine.partitions.layout import PartitionDamaged
from engine.partitions.packed import Documents
from engine.partitions.partition import Partition
from engine.partitions.prefetcher import Prefetcher, Reading
from engine.partitions.residency import Residency, Slot
from engine.partitions.rows import Found, Vectors
from engine.partitions.scanners import Scanners
from engine.partitions.snapshot import Snapshot, Wanted
from engine.partitions.walk import Walk

log = logging.getLogger(__name__)

# At most this many rows are compared without loading codes: 3 MB of them, and 16 ms for a batch of 16 queries.
_FEW_ROWS, _FEW_PAIRS = 4096, 65_536
# An interrupted sweep that has not continued after this many others is forgotten.
_MOST_BETWEEN = 64
# A script's sweep, a user's sweep, and one for a written answer may be interrupted at the same time.
_MOST_INTERRUPTED = 3


@dataclass(frozen=True, slots=True)
class Swept:
    """The results of a sweep, and what it could not read: rows of damaged partitions are not in `found`.

    `is_resumed`: some of its loads were made before it was interrupted.
    """

    found: list[list[Found]]
    damaged: tuple[Partition, ...]
    num_loads: int
    num_skipped: int
    has_lost_codes: bool = False
    is_resumed: bool = False


class SweepPaused(Exception):
    """Others go first; the same sweep, started again, continues where it was."""


class SweepForsaken(SweepPaused):
    """Raised by `should_pause` when the sweep will not be started again."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """The arguments of a sweep: only the same ones can continue from an interrupted sweep."""

    queries: Vectors
    limit: int
    documents: Documents | None
    cold_slack: float | None
    max_loads: int | None

    def is_same(self, other: _Asked) -> bool:
        mine, theirs = (self.limit, self.cold_slack, self.max_loads), (other.limit, other.cold_slack, other.max_loads)
        is_same_scope = (self.documents is None) == (other.documents is None) and (
            self.documents is None or np.array_equal(np.sort(self.documents), np.sort(other.documents))  # type: ignore[arg-type]
        )
        return mine == theirs and is_same_scope and np.array_equal(self.queries, other.queries)


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A sweep in progress: its snapshot, its results so far, and the partitions that it has not seen.

    `num_since` other sweeps have ended since it was interrupted.
    """

    asked: _Asked
    snapshot: Snapshot
    walk: Walk
    waiting: list[Wanted]
    num_left_out: int = 0
    num_loads: int = 0
    has_lost_codes: bool = False
    is_narrowed: bool = False
    num_since: int = 0

    def suits(self, asked: _Asked, snapshot: Snapshot) -> bool:
        """Whether it can continue for this request: it is the same, and so are the partitions."""
        return self.is_of(snapshot) and self.asked.is_same(asked)

    def is_of(self, snapshot: Snapshot) -> bool:
        """Whether the partitions are those of the snapshot."""
        before, now = self.snapshot, snapshot
        return before.missing == now.missing and _files(before) == _files(now)

    def rest(self) -> None:
        """Releases everything that may change until it continues."""
        self.walk.forget_views()
        self.snapshot = replace(self.snapshot, open=())
        self.num_since = 0

    def has_seen(self, parts: Collection[Wanted]) -> None:
        self.waiting = [part for part in self.waiting if part not in parts]


def _files(snapshot: Snapshot) -> set[Partition]:
    return {sealed.partition for sealed in snapshot.sealed}


class Sweeper:
    """Carries out sweeps, one at a time; remembers the last interrupted ones."""

    def __init__(self, kernel: NumpyKernel, prefetcher: Prefetcher, residency: Residency) -> None:
        self._kernel, self._prefetcher, self._residency = kernel, prefetcher, residency
        self._scanners = Scanners()
        # The latest one comes last.
        self._interrupted: list[_UnderWay] = []

    def close(self) -> None:
        self.forget()
        self._scanners.close()

    def forget(self) -> None:
        """Forgets interrupted sweeps."""
        self._interrupted.clear()

    def sweep(
        self,
        snapshot: Snapshot,
        queries: Vectors,
        limit: int,
        documents: Documents | None = None,
        cold_slack: float | None = None,
        max_loads: int | None = None,
        should_pause: Callable[[], bool] = lambda: False,
    ) -> Swept:
        """The `limit` nearest rows for each of the (q, d) queries, best first.

        An interrupted sweep continues when it is requested again and the partitions are the same.

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
            max_loads: The most cold partitions to read, the nearest to the queries; None for all.
            should_pause: Asked after each partition that was read: at least one is read between two pauses.

        Raises:
            SweepPaused: Others go first.
            SweepForsaken: `should_pause` raised it; nothing of the sweep is kept.
        """
        asked = _Asked(queries, limit, documents, cold_slack, max_loads)
        interrupted = next((one for one in self._interrupted if one.suits(asked, snapshot)), None)
        if interrupted is not None:
            self._interrupted.remove(interrupted)
        under_way = interrupted or self._begun(asked, snapshot)
        for view in snapshot.open:
            under_way.walk.scan_view(view, documents)
        try:
            found = self._found(under_way, should_pause)
        except SweepForsaken:
            raise
        except BaseException:
            under_way.rest()
            self._interrupted = [*self._interrupted, under_way][-_MOST_INTERRUPTED:]
            raise
        self._let_go_of_the_forsaken(snapshot)
        walk = under_way.walk
        num_skipped = walk.num_skipped + under_way.num_left_out
        return Swept(
            found,
            tuple(walk.damaged),
            under_way.num_loads,
            num_skipped,
            under_way.has_lost_codes,
            is_resumed=interrupted is not None,
        )

    def _let_go_of_the_forsaken(self, snapshot: Snapshot) -> None:
        """Forgets interrupted sweeps that cannot continue, or have not for long; called at the end of a sweep."""
        for one in self._interrupted:
            one.num_since += 1
        self._interrupted = [one for one in self._interrupted if one.num_since < _MOST_BETWEEN and one.is_of(snapshot)]

    def _begun(self, asked: _Asked, snapshot: Snapshot) -> _UnderWay:
        """Starts a sweep; partitions of which few rows are wanted are not loaded."""
        queries, documents = asked.queries, asked.documents
        wanted = [part for sealed in snapshot.sealed if (part := sealed.wanted(documents)) is not None]
        self._residency.keep_only({sealed.partition for sealed in snapshot.sealed})
        self._residency.note_use(part.partition for part in wanted)
        coded = [part for part in wanted if part.partition.codes is not None]
        num_coded = sum(part.num_rows for part in coded)
        walk = Walk(self._kernel, self._scanners, queries, asked.limit, num_coded)
        if documents is not None and num_coded <= min(_FEW_ROWS, _FEW_PAIRS // len(queries)):
            for part in coded:
                walk.look_at(part)
            wanted = [part for part in wanted if part not in coded]
        left_out = self._left_out(wanted, queries, asked.max_loads)
        waiting = [part for part in wanted if part not in left_out]
        return _UnderWay(asked, snapshot, walk, waiting, len(left_out))

    def _left_out(self, wanted: Sequence[Wanted], queries: Vectors, max_loads: int | None) -> list[Wanted]:
        """The cold partitions beyond the `max_loads` whose centroids are nearest to a query."""
        if max_loads is None:
            return []
        cold = [part for part in wanted if self._residency.slot_of(part.partition) is None]
        return sorted(cold, key=lambda part: -float((queries @ part.partition.centroid).max()))[max_loads:]

    def _found(self, sweep: _UnderWay, should_pause: Callable[[], bool]) -> list[list[Found]]:
        """The ranked results. If ranking finds damage, only those scanned together with it are scanned again."""
        while True:
            self._walk_sealed(sweep, should_pause)
            found = sweep.walk.ranked()
            sweep.waiting = sweep.walk.cut_short()
            if not sweep.waiting:
                return found

    def _walk_sealed(self, sweep: _UnderWay, should_pause: Callable[[], bool]) -> None:
        """Scans resident partitions, then the others as they arrive."""
        wanted = sweep.waiting
        slots = {part: slot for part in wanted if (slot := self._residency.slot_of(part.partition)) is not None}
        cold = _Cold([part for part in wanted if part not in slots], self._residency, self._prefetcher)
        try:
            self._scan_resident(sweep, slots, cold)
            if not sweep.is_narrowed and len(sweep.asked.queries) == 1:
                cold.pending = sweep.walk.likely(cold.pending, sweep.asked.cold_slack)
                sweep.waiting, sweep.is_narrowed = cold.waiting, True
            _scan_cold(sweep, cold, should_pause)
        finally:
            cold.cancel()
            self._residency.fit()
            sweep.num_loads += cold.num_loads
            sweep.has_lost_codes |= cold.has_lost_codes

    def _scan_resident(self, sweep: _UnderWay, slots: Mapping[Wanted, Slot], cold: _Cold) -> None:
        """Scans what is in memory, while the first cold partition is read as soon as there is room for it."""
        # The least used first: its room is the first to be reused.
        resident = sorted(slots, key=lambda part: self._residency.use_of(part.partition.number))
        cold.begin(needed=list(slots.values()))
        _scan_codes(sweep.walk, [(part, slots[part]) for part in resident])
        in_int8 = [part for part in resident if slots[part].codes is None]
        sweep.has_seen([part for part in resident if part not in in_int8])
        for place, part in enumerate(in_int8):
            cold.begin(needed=[slots[other] for other in in_int8[place:]])
            sweep.walk.scan_block(part, slots[part].block())
            sweep.has_seen([part])


def _scan_cold(sweep: _UnderWay, cold: _Cold, should_pause: Callable[[], bool]) -> None:
    """Scans partitions as they arrive, each while the next one is read. Raises SweepPaused."""
    while (arrival := cold.next()) is not None:
        part, slot = arrival
        if slot is None:
            sweep.walk.damaged.append(part.partition)
        else:
            cold.begin(needed=[slot])
            if slot.codes is None:
                sweep.walk.scan_block(part, slot.block())
            else:
                _scan_codes(sweep.walk, [(part, slot)])
        sweep.has_seen([part])
        if sweep.waiting and should_pause():
            raise SweepPaused


def _scan_codes(walk: Walk, resident: Sequence[tuple[Wanted, Slot]]) -> None:
    """Scans the partitions that have codes, all of one codebook at a time."""
    by_book: dict[Codebook, list[tuple[Wanted, Codes]]] = {}
    for part, slot in resident:
        if slot.of_codes is not None and slot.codes is not None:
            by_book.setdefault(slot.of_codes.book, []).append((part, slot.codes))
    for book, parts in by_book.items():
        walk.scan_codes(book, parts)


class _Cold:
    """The partitions that are still to be read, at most one of which is being read."""

    def __init__(self, pending: list[Wanted], residency: Residency, prefetcher: Prefetcher) -> None:
        self.pending, self.num_loads, self.has_lost_codes = pending, 0, False
        self._residency, self._prefetcher = residency, prefetcher
        self._reading: tuple[Wanted, Slot, Reading] | None = None

    @property
    def waiting(self) -> list[Wanted]:
        """Those that have not arrived, including the one that is being read; a new list."""
        return [*([] if self._reading is None else self._reading[:1]), *self.pending]

    def begin(self, needed: Sequence[Slot], *, at_any_cost: bool = False) -> None:
        """Starts reading the next one if there is room in addition to the `needed` slots."""
        if self._reading is not None or not self.pending:
            return
        part = self.pending[0]
        try:
            slot = self._residency.make_room(part.partition, needed, at_any_cost=at_any_cost)
        except (OSError, MemoryError):
            if at_any_cost:
                raise
            # The partition read before is scanned first, so that it need not be read again.
            return
        if slot is not None:
            del self.pending[0]
            self._reading = part, slot, self._prefetcher.read(slot.fill)

    def next(self) -> tuple[Wanted, Slot | None] | None:
        """Waits for the next one; its slot is None if it could not be read. None when all have arrived."""
        self.begin([], at_any_cost=True)
        if self._reading is None:
            return None
        part, slot, reading = self._reading
        try:
            reading.wait()
        except PartitionDamaged:
            self._residency.drop(slot)
            return part, None
        except CodesDamaged as error:
            self._read_rows_instead(part, slot, error)
        except BaseException:
            self._residency.drop(slot)
            raise
        else:
            slot.loaded()
            self.num_loads += 1
            return part, slot
        finally:
            self._reading = None
        return self.next()

    def _read_rows_instead(self, part: Wanted, slot: Slot, error: CodesDamaged) -> None:
        log.warning("Codes are rebuilt, and int8 rows searched until then: %s", error)
        self._residency.drop(slot)
        part.partition.codes, self.has_lost_codes = None, True
        self.pending.insert(0, part)

    def cancel(self) -> None:
        if self._reading is not None:
            _, slot, reading = self._reading
            reading.cancel()
            self._residency.drop(slot)
            self._reading = None
