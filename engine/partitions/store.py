"""The partition store: finds the rows nearest to a question; every dense search of the application uses it.

LanceDB has every row; the store keeps their vectors in a form that is searched some twenty times as fast: the newest
rows in memory, the others in sealed partitions, as many of them resident as the budget allows. It follows the table, so
whatever is written there is found here, and where something is missing or damaged LanceDB answers instead.

Threads: `search` is the retrieval thread's. The table's changes arrive on the index thread (`Following`), the files
are maintained on a thread of their own (`Caretaker`), budget and mode may be set on any thread. `Shards` is what they
share, under its lock; a search works on a snapshot of it. Residency belongs to the holder of `_sweeping`; its
bound may be set on any thread, and a search applies it whenever it comes to another partition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from engine.memory.heap import trim_heap
from engine.memory.ledger import Ledger
from engine.partitions.coding import Coding
from engine.partitions.following import Following
from engine.partitions.integrity import check
from engine.partitions.kernels import NumpyKernel
from engine.partitions.layout import Origin
from engine.partitions.packed import Quantize
from engine.partitions.partition import Partition
from engine.partitions.prefetcher import Prefetcher
from engine.partitions.reconcile import Note, Rows, load
from engine.partitions.residency import Residency
from engine.partitions.rows import Found, Sweep, Vectors
from engine.partitions.shards import Shards
from engine.partitions.snapshot import Snapshot
from engine.partitions.sweep import Sweeper, Swept
from engine.partitions.table import Follower
from engine.partitions.upkeep import Caretaker, Upkeep

log = logging.getLogger(__name__)

IndexMode = Literal["resident", "on_disk"]


class Table(Rows, Protocol):
    """What the store needs of LanceDB (`engine.partitions.table.ChunkTable`)."""

    def follow(self, follower: Follower) -> None: ...

    def nearest(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        shards: Collection[int] | None = None,
        *,
        is_exact: bool = True,
    ) -> list[list[Found]]: ...

    def index_vectors(self) -> None: ...

    def drop_vector_index(self) -> None: ...


class PartitionStore:
    """The vectors of all chunks. Opening it reads what a search needs; `close` releases everything."""

    def __init__(
        self,
        table: Table,
        folder: Path,
        origin: Origin,
        kernel: NumpyKernel,
        quantize: Quantize,
        ledger: Ledger,
        budget_bytes: int,
        mode: IndexMode = "resident",
    ) -> None:
        """Opens the files in `folder` and follows the table.

        Args:
            table: What the files are a cache of.
            folder: Used only by the store; created if missing.
            origin: Identifies the table's rows.
            kernel: Scans rows.
            quantize: Converts vectors to rows for it.
            ledger: Records every byte.
            budget_bytes: The most memory for the index; the newest rows are in memory regardless.
            mode: Where the index lives.

        Raises:
            LibraryError: The table cannot be read.
        """
        self._table, self._folder, self._origin = table, folder, origin
        self._quantize = quantize
        self._budget_bytes, self._mode = budget_bytes, mode
        # The limit for partitions that the plan sets; None means by the budget.
        self._partition_bytes: int | None = None
        # The bounds for which memory was already released.
        self._heeded = self._bounds
        self._num_loads, self._is_closed = 0, False
        self.on_sweep: Callable[[Sweep], None] = lambda sweep: None
        self.cold_slack: float | None = None
        self._outline_lease = ledger.take("index", "outline of the partitions", "ram", 0)
        self._disk_lease = ledger.take("index", "partitions", "disk", 0)
        self._sweeping, self._looking_after = threading.Lock(), threading.Lock()
        self._shards = Shards(origin.dimensions)
        self._prefetcher, self._residency = Prefetcher(), Residency(ledger)
        self._sweeper = Sweeper(kernel, self._prefetcher, self._residency)
        self._coding = Coding(folder, origin, ledger)
        self._upkeep = Upkeep(self._shards, table, folder, origin, quantize, ledger)
        self._caretaker = Caretaker(self._look_after)
        self._following = Following(self._shards, quantize, ledger, self._caretaker.wake, self._write_note)
        if mode == "resident":
            try:
                self._read()
            except OSError as error:
                log.warning("The partitions cannot be used yet; LanceDB answers alone: %s", error)
        table.follow(self._following)

    def start(self) -> None:
        """Starts maintaining the files in the background."""
        self._prefetcher.start()
        self._caretaker.start()
        self._caretaker.wake()

    def close(self) -> None:
        """Ends the upkeep, saves the state for the next start, and releases all memory. A second call does nothing."""
        self._caretaker.stop()
        with self._looking_after, self._sweeping:
            if self._is_closed:
                return
            # From here on, a thread that gets one of the locks finds the store closed, and leaves the ledger alone.
            self._is_closed = True
            self._write_note()
            self._residency.clear()
            self._following.close()
            for lease in (self._outline_lease, self._disk_lease):
                lease.release()
        self._prefetcher.close()
        self._sweeper.close()

    # --- searching, on the retrieval thread ---

    def search(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        max_loads: int | None = None,
        should_pause: Callable[[], bool] = lambda: False,
    ) -> list[list[Found]]:
        """For each of the (q, d) unit vectors the `limit` rows with the largest cosine, best first.

        Args:
            vectors: float32; q = 0 gives an empty list.
            limit: At most this many rows for each.
            document_ids: Only rows of these documents; None means all.
            max_loads: The most partitions to read that are not in memory, the likeliest first; None for all.
            should_pause: Asked between partitions that have to be read.

        Raises:
            LibraryError: The index cannot be read.
            SweepPaused: Others go first; the same search continues where it was.
        """
        if not len(vectors) or limit < 1 or (document_ids is not None and not document_ids):
            return [[] for _ in vectors]
        try:
            with self._sweeping:
                if not self._following.is_in_step:
                    return self._table.nearest(vectors, limit, document_ids, is_exact=self._mode == "resident")
                return self._searched(vectors, limit, document_ids, max_loads, should_pause)
        finally:
            self._heed_bounds()

    def _searched(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None,
        max_loads: int | None,
        should_pause: Callable[[], bool],
    ) -> list[list[Found]]:
        started = time.perf_counter()
        snapshot = self._shards.snapshot()
        self._allot(snapshot)
        documents = None if document_ids is None else np.fromiter(document_ids, np.int64, len(document_ids))
        swept = self._sweeper.sweep(snapshot, vectors, limit, documents, self.cold_slack, max_loads, should_pause)
        seconds = time.perf_counter() - started
        self._num_loads += swept.num_loads
        missing = self._missing(snapshot, swept)
        if missing:
            rest = self._table.nearest(vectors, limit, document_ids, missing)
            return [_merged(here, there, limit) for here, there in zip(swept.found, rest, strict=True)]
        num_sealed, is_bounded = len(snapshot.sealed), max_loads is not None
        if swept.is_resumed:
            # Its total time is not known.
            return swept.found
        self.on_sweep(Sweep(swept.num_loads, len(vectors), num_sealed, swept.num_skipped, seconds, is_bounded))
        return swept.found

    def _missing(self, snapshot: Snapshot, swept: Swept) -> set[int]:
        """The shards that LanceDB must answer for; damaged ones are queued for repair."""
        if swept.has_lost_codes:
            self._caretaker.wake()
        if swept.damaged:
            log.warning("Damaged partitions are rewritten: %s", [part.path.name for part in swept.damaged])
            self._shards.mark_missing(swept.damaged)
            self._caretaker.wake()
        return {*snapshot.missing, *(part.number for part in swept.damaged)}

    # --- budget and mode, from any thread ---

    def set_budget_bytes(self, budget_bytes: int) -> None:
        """What the index may take in memory. Never blocks, as `set_partition_bytes`."""
        self._budget_bytes = budget_bytes
        self._heed_bounds()

    def set_partition_bytes(self, num_bytes: int) -> None:
        """Sets what partitions may take in addition to what is always in memory; overrides the budget.

        Never blocks: a smaller room gives memory back at once; while a sweep is under way, as it comes to another
        partition, and all of it as soon as it has ended. Nothing once it is closed.
        """
        self._partition_bytes = num_bytes
        self._heed_bounds()

    @property
    def _bounds(self) -> tuple[int, int | None]:
        return self._budget_bytes, self._partition_bytes

    def _heed_bounds(self) -> None:
        """Releases what exceeds the bound of partitions; a holder of `_sweeping` does so after releasing it."""
        while not self._is_closed and self._heeded != self._bounds:
            if not self._sweeping.acquire(blocking=False):
                # The sweep in progress applies it when it makes room for a partition.
                self._residency.budget_bytes = self._room_of_partitions(self._shards.snapshot())
                return
            try:
                if not self._is_closed:
                    self._heeded = self._bounds
                    self._allot(self._shards.snapshot())
                    self._residency.fit()
                    trim_heap()
            finally:
                self._sweeping.release()

    def set_mode(self, mode: IndexMode) -> None:
        """Sets where the index lives; the change happens in the background, while searches continue."""
        if mode != self._mode:
            self._mode = mode
            self._caretaker.wake()

    @property
    def index_bytes(self) -> int:
        """What the whole index would take in memory."""
        snapshot = self._shards.snapshot()
        blocks = sum(sealed.partition.resident_bytes for sealed in snapshot.sealed)
        return blocks + self._shards.open_bytes + snapshot.outline_bytes + self._coding.num_bytes

    @property
    def partition_bytes(self) -> tuple[int, ...]:
        """What each sealed partition would take in memory."""
        return tuple(sealed.partition.resident_bytes for sealed in self._shards.snapshot().sealed)

    @property
    def num_cold(self) -> int:
        """Partitions that are not in memory, and are read during a search."""
        return max(0, len(self._shards.snapshot().sealed) - len(self._residency.numbers))

    def counters(self) -> dict[str, float]:
        """For the Memory page."""
        num_sealed, num_resident = len(self._shards.snapshot().sealed), len(self._residency.numbers)
        return {
            "partitions": float(num_sealed),
            "partitions_resident": float(num_resident),
            "partitions_resident_ratio": num_resident / num_sealed if num_sealed else 1.0,
            "partition_loads": float(self._num_loads),
        }

    def _allot(self, snapshot: Snapshot) -> None:
        """Gives partitions the budget minus what is always in memory."""
        self._outline_lease.resize(snapshot.outline_bytes + self._coding.num_bytes)
        self._residency.budget_bytes = self._room_of_partitions(snapshot)

    def _room_of_partitions(self, snapshot: Snapshot) -> int:
        budget_bytes, planned = self._bounds
        others = self._shards.open_bytes + snapshot.outline_bytes + self._coding.num_bytes
        return max(0, budget_bytes - others) if planned is None else planned

    # --- maintaining the files ---

    def maintain(self) -> None:
        """Does everything that is due, now; does nothing once the store is closed.

        Raises:
            OSError: A file cannot be written; nothing is lost, and it is tried again.
            LibraryError: The table cannot be read or indexed; likewise.
        """
        self._look_after(threading.Event())

    def check_integrity(self) -> None:
        """Compares every row with the table's; to be called while nothing is written.

        Raises:
            LibraryError: What disagrees.
        """
        if self._following.is_in_step:
            check(self._shards.snapshot(), self._table)

    def _look_after(self, stop: threading.Event) -> bool:
        with self._looking_after:
            if self._is_closed:
                return False
            if self._mode == "on_disk":
                self._move_to_disk()
            else:
                self._move_to_memory(stop)
            self._following.note_bytes()
            self._disk_lease.resize(sum(partition.total_disk_bytes for partition in self._sealed()))
        return bool(self._shards.due()) or self._upkeep.has_leftovers

    def _move_to_memory(self, stop: threading.Event) -> None:
        if not self._following.is_in_step:
            self._read()
        self._table.drop_vector_index()
        changed = self._upkeep.carry_out(stop)
        if changed + self._coding.carry_out(self._sealed(), stop):
            trim_heap()

    def _move_to_disk(self) -> None:
        """Releases all files and memory once LanceDB's vector index replaces them."""
        self._table.index_vectors()
        with self._sweeping:
            self._following.forget()
            self._sweeper.forget()
            self._residency.clear()
            self._outline_lease.resize(0)
        self._heed_bounds()
        trim_heap()
        self._upkeep.drop_unused()
        self._coding.drop_unused(())

    def _read(self) -> None:
        self._following.read(lambda: load(self._table, self._folder, self._origin, self._quantize))
        self._coding.attach(self._sealed())
        trim_heap()

    def _sealed(self) -> list[Partition]:
        return [sealed.partition for sealed in self._shards.snapshot().sealed]

    def _write_note(self) -> None:
        """Saves the state, so that the next start need not compare every row. To be called while nothing is written."""
        snapshot = self._following.snapshot()
        if snapshot is None:
            return
        try:
            Note.of(snapshot, self._table).write(self._folder)
        except OSError as error:
            log.info("how the partitions stand could not be noted: %s", error)


def _merged(here: list[Found], there: list[Found], limit: int) -> list[Found]:
    """Merges two results; a row that is in both counts once."""
    rows = {found.row_id: found for found in (*there, *here)}
    return sorted(rows.values(), key=lambda found: (-found.score, found.row_id))[:limit]
