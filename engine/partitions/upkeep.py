"""Upkeep: the thread that seals, rewrites and rebuilds partition files while everything else goes on.

Nothing waits for it and nothing is lost with it: rows that are not sealed yet are in memory, and rows whose file is
being rebuilt are found by LanceDB. What fails is tried again after the next change, or a little later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from engine.errors import LibraryError
from engine.memory.ledger import Ledger
from engine.partitions.durable import dropped
from engine.partitions.files import drop_others, next_path
from engine.partitions.layout import Origin, PartitionDamaged
from engine.partitions.packed import Packed, Quantize, joined
from engine.partitions.partition import Partition
from engine.partitions.reconcile import Rows, rows_of
from engine.partitions.shards import Draft, Due, Shards
from engine.partitions.writing import write_partition

log = logging.getLogger(__name__)

_RETRY_SECONDS = 60.0


class Upkeep:
    """Carries out due work on files. Used by one thread at a time."""

    def __init__(
        self, shards: Shards, rows: Rows, folder: Path, origin: Origin, quantize: Quantize, ledger: Ledger
    ) -> None:
        self._shards, self._rows, self._folder, self._origin = shards, rows, folder, origin
        self._quantize, self._ledger = quantize, ledger
        # Replaced files that are still open, which the system keeps until they are closed.
        self.has_leftovers = False

    def carry_out(self, stop: threading.Event) -> int:
        """Does all due work, or as much as possible before `stop`; returns how many files changed.

        Raises:
            OSError: A file cannot be written; it stays due, and finished work is kept.
            LibraryError: The table, or a new file, cannot be read; the same holds.
        """
        done = self._carry_out_all(stop)
        self.drop_unused()
        return done

    def drop_unused(self) -> None:
        """Deletes files that belong to no shard. Raises OSError."""
        kept = {sealed.partition.path for sealed in self._shards.snapshot().sealed}
        self.has_leftovers = not drop_others(self._folder, kept)

    def _carry_out_all(self, stop: threading.Event) -> int:
        done = 0
        while due := self._shards.due():
            for chore in due:
                if stop.is_set():
                    return done
                done += self._carry_out(chore)
        return done

    def _carry_out(self, due: Due) -> int:
        draft = self._shards.begin(due)
        if draft is None:
            return 0
        try:
            partition = self._written(draft)
        except PartitionDamaged as error:
            log.warning("A partition is rewritten: %s", error)
            self._shards.abandon(draft)
            if draft.partition is not None:
                self._shards.mark_missing([draft.partition])
            return 0
        except BaseException:
            self._shards.abandon(draft)
            raise
        self._shards.finish(draft, partition)
        return 1

    def _written(self, draft: Draft) -> Partition | None:
        """Writes the new file of a shard; returns None if the shard is empty."""
        number, version = draft.due.number, self._rows.version
        rows = self._gathered(draft)
        if not len(rows):
            return None
        path = next_path(self._folder, number)
        lease = self._ledger.take("index", f"partition {number}, being written", "ram", rows.num_bytes, "loading")
        try:
            write_partition(path, rows, self._origin, number, version)
        finally:
            lease.release()
        return self._opened(path)

    def _opened(self, path: Path) -> Partition:
        """Opens a new file. Raises LibraryError for an unusable one, so that it is not rewritten at once."""
        try:
            return Partition.open(path, self._origin)
        except (PartitionDamaged, OSError) as error:
            # The next try uses another name.
            dropped(path)
            raise LibraryError(
                f"A part of the index cannot be read after it was written: {error}",
                "Check the disk with the data folder; it is tried again in a minute.",
            ) from error

    def _gathered(self, draft: Draft) -> Packed:
        if draft.due.chore == "rebuild":
            return rows_of(draft.due.number, self._rows, self._origin.dimensions, self._quantize)
        if draft.partition is None:
            return draft.rows
        kept = draft.partition.packed()
        return joined([kept if draft.alive is None else kept.take(draft.alive), draft.rows])


class Caretaker:
    """The thread: wakes when work may be due, and regularly after a failure."""

    def __init__(self, work: Callable[[threading.Event], bool]) -> None:
        """Prepares the thread.

        Args:
            work: Does what is due until the event is set; returns whether something is left to be tried again.
        """
        self._work = work
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="partitions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Wakes the thread, because work may be due."""
        self._woken.set()

    def stop(self) -> None:
        """Ends the thread after the current file. A second call does nothing."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_left = True
        while not self._stopping.is_set():
            self._woken.wait(_RETRY_SECONDS if is_left else None)
            self._woken.clear()
            if not self._stopping.is_set():
                is_left = self._attempt()

    def _attempt(self) -> bool:
        try:
            return self._work(self._stopping)
        except (OSError, LibraryError) as error:
            # The disk is full, say. LanceDB has every row, and rows in memory stay there.
            log.info("partitions will be written later: %s", error)
        except Exception:
            log.exception("the upkeep of the partitions met a fault of ours")
        return True
