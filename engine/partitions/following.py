"""Following: every change of the table reaches the rows in memory, also while those are being read again.

The table reports a change once it is durable. A change gives all rows of a document, so it can safely be applied twice:
changes that arrive while the table is being read are recorded, and applied to the result afterwards.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.memory.ledger import Ledger
from engine.partitions.packed import Documents, Packed, Quantize, packed_chunks
from engine.partitions.rows import ChunkRow
from engine.partitions.shards import Contents, Shards
from engine.partitions.snapshot import Snapshot

log = logging.getLogger(__name__)

# Reads all shards; returns them and the newest number.
Read = Callable[[], tuple[list[Contents], int]]


@dataclass(frozen=True, slots=True, eq=False)
class _Change:
    documents: Documents
    rows: Mapping[int, Packed]


class Following:
    """Applies the table's changes to `shards`; a `Follower` of the table."""

    def __init__(
        self, shards: Shards, quantize: Quantize, ledger: Ledger, wake: Callable[[], None], note: Callable[[], None]
    ) -> None:
        """Begins without rows.

        Args:
            shards: Kept in step with the table.
            quantize: Converts vectors to int8 rows.
            ledger: Records the size of the rows in memory.
            wake: Called when files may have to be written, or everything to be read again.
            note: Called when a job has ended, which is a good moment to save the state.
        """
        self._shards, self._quantize, self._wake, self._note = shards, quantize, wake, note
        self._lease = ledger.take("index", "newest passages", "ram", 0)
        self._changing, self._reading = threading.Lock(), threading.Lock()
        self._journal: list[_Change] | None = None
        # Whether a change was lost that the current read may have missed.
        self._has_lost_change = False
        self.is_in_step = False

    def read(self, read: Read) -> None:
        """Replaces all rows with the result of `read` and the changes that arrive meanwhile. Raises what `read` raises.

        If a change was lost meanwhile, it stays out of step, and `wake` has been called.
        """
        with self._reading:
            with self._changing:
                self._journal, self._has_lost_change = [], False
            try:
                contents, newest = read()
                with self._changing:
                    self._shards.replace(contents, newest)
                    for change in self._journal:
                        self._apply(change)
                    # Later changes are applied directly.
                    self._journal = None
                    self.is_in_step = not self._has_lost_change
                    self._account()
            finally:
                with self._changing:
                    self._journal = None

    def snapshot(self) -> Snapshot | None:
        """Returns all present rows; None while they are not in step with the table."""
        with self._changing:
            return self._shards.snapshot() if self.is_in_step else None

    def forget(self) -> None:
        """Releases all rows; changes are ignored until the next `read`."""
        with self._changing:
            self.is_in_step = False
            self._shards.replace([], 0)
            self._account()

    def close(self) -> None:
        self.forget()
        self._lease.release()

    # --- the table's changes, on the thread that made them ---

    def put(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        """Replaces all rows of these documents."""
        self._take(lambda: _Change(_numbers(documents), self._packed(documents)))

    def delete(self, document_ids: Collection[int]) -> None:
        """Removes all rows of these documents."""
        self._take(lambda: _Change(_numbers(document_ids), {}))

    def optimized(self) -> None:
        """Saves the state, because a job has ended."""
        self._note()
        self._wake()

    def _take(self, packed: Callable[[], _Change]) -> None:
        try:
            self._heed(packed)
        except Exception:
            # The rows are durable, so the writer must not fail; memory is read again from the table instead.
            log.exception("the partitions have lost step with the table")
            with self._changing:
                self.is_in_step, self._has_lost_change = False, True
            self._wake()
        if self._shards.due():
            self._wake()

    def _heed(self, packed: Callable[[], _Change]) -> None:
        with self._changing:
            if self._journal is not None:
                self._journal.append(packed())
            elif self.is_in_step:
                self._apply(packed())
                self._account()

    def _apply(self, change: _Change) -> None:
        self._shards.put(change.documents, change.rows)

    def _packed(self, documents: Mapping[int, Sequence[ChunkRow]]) -> dict[int, Packed]:
        by_shard: dict[int, list[ChunkRow]] = {}
        for chunks in documents.values():
            for chunk in chunks:
                by_shard.setdefault(chunk.shard, []).append(chunk)
        return {number: packed_chunks(chunks, self._quantize) for number, chunks in by_shard.items()}

    def _account(self) -> None:
        self._lease.resize(self._shards.open_bytes)

    def note_bytes(self) -> None:
        """Updates the ledger after rows have moved from memory to a file."""
        with self._changing:
            self._account()


def _numbers(document_ids: Collection[int]) -> Documents:
    return np.fromiter(document_ids, np.int64, len(document_ids))
