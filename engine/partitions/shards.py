"""Shards: which rows are where now, in sealed files, in memory, or in LanceDB alone; changed under one lock.

Chunks are numbered as they arrive, and about fifty thousand share a shard number. Rows with the newest number are open,
in memory; the others are sealed. A document that is rewritten or removed leaves dead rows in sealed files; when a fifth
of a file is dead, it is rewritten. This module only decides what is to be done to the files; others carry it out.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from engine.partitions.open_rows import OpenRows
from engine.partitions.packed import Documents, Mask, Packed, empty
from engine.partitions.partition import Partition
from engine.partitions.snapshot import Sealed, Snapshot

# The share of dead and late rows at which a file is rewritten.
REWRITE_SHARE = 0.2

Chore = Literal["seal", "rewrite", "rebuild", "drop"]


@dataclass(frozen=True, slots=True)
class Due:
    """Work that is due on the file of a shard."""

    chore: Chore
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The state of a shard when the store opens: its file, which of its rows are alive, and rows in memory."""

    number: int
    partition: Partition | None = None
    alive: Mask | None = None
    rows: Packed | None = None
    is_missing: bool = False


@dataclass(slots=True, eq=False)
class Draft:
    """A file that is being written. `rows` are added to those of the old file; a rebuild reads all from LanceDB."""

    due: Due
    partition: Partition | None
    alive: Mask | None
    rows: Packed
    killed: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Shard:
    number: int
    partition: Partition | None = None
    alive: Mask | None = None
    open: OpenRows | None = None
    # Rows that are being written to a file: still searched, but none are added.
    sealing: OpenRows | None = None
    is_missing: bool = False
    draft: Draft | None = None

    @property
    def num_alive_in_file(self) -> int:
        if self.partition is None:
            return 0
        return self.partition.count if self.alive is None else int(np.count_nonzero(self.alive))

    @property
    def num_open(self) -> int:
        return sum(rows.num_alive for rows in (self.open, self.sealing) if rows is not None)

    @property
    def open_bytes(self) -> int:
        return sum(rows.num_bytes for rows in (self.open, self.sealing) if rows is not None)

    def kill(self, documents: Documents) -> None:
        for rows in (self.open, self.sealing):
            if rows is not None:
                rows.kill(documents)
        if self.draft is not None:
            self.draft.killed.update(documents.tolist())
        if self.partition is not None:
            self.alive = without(self.partition, self.alive, documents)

    def chore(self, newest: int) -> Chore | None:
        """Returns what is due; None if nothing is, or work is in progress."""
        if self.draft is not None:
            return None
        if self.is_missing:
            return "rebuild"
        if self.partition is None:
            return "seal" if self.num_open and self.number != newest else None
        if not self.num_alive_in_file and not self.num_open:
            return "drop"
        stale = self.partition.count - self.num_alive_in_file + self.num_open
        return "rewrite" if stale >= REWRITE_SHARE * self.partition.count else None


class Shards:
    """Every row of the table, by shard number. Calls are short and safe from any thread."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._lock = threading.Lock()
        self._shards: dict[int, _Shard] = {}
        self._newest = 0

    # --- rows --------------------------------------------------------------------------------------

    def replace(self, contents: Iterable[Contents], newest: int) -> None:
        """Replaces everything with these shards."""
        with self._lock:
            self._shards = {content.number: self._begun(content) for content in contents}
            self._newest = newest

    def put(self, documents: Documents, rows: Mapping[int, Packed]) -> None:
        """Replaces all rows of these documents with `rows`, by shard number."""
        with self._lock:
            self._kill(documents)
            for number, packed in rows.items():
                shard = self._shards.setdefault(number, _Shard(number))
                shard.open = shard.open or OpenRows(self._dimensions)
                shard.open.add(packed)
            if rows:
                self._newest = max(rows)

    def kill(self, documents: Documents) -> None:
        """Removes all rows of these documents."""
        with self._lock:
            self._kill(documents)

    def snapshot(self) -> Snapshot:
        """Returns everything that can be searched, at this moment."""
        with self._lock:
            shards = self._shards.values()
            return Snapshot(
                sealed=tuple(Sealed(shard.partition, shard.alive) for shard in shards if shard.partition is not None),
                open=tuple(
                    view
                    for shard in shards
                    for rows in (shard.open, shard.sealing)
                    if rows is not None
                    for view in rows.views()
                ),
                missing=tuple(shard.number for shard in shards if shard.is_missing),
                open_numbers=tuple(shard.number for shard in shards if shard.num_open),
                newest=self._newest,
            )

    @property
    def open_bytes(self) -> int:
        """The memory of open rows."""
        with self._lock:
            return sum(shard.open_bytes for shard in self._shards.values())

    # --- files -------------------------------------------------------------------------------------

    def due(self) -> tuple[Due, ...]:
        """Returns the due work on files, oldest shard first."""
        with self._lock:
            chores = ((shard.chore(self._newest), shard.number) for shard in self._shards.values())
            return tuple(sorted((Due(chore, number) for chore, number in chores if chore), key=lambda due: due.number))

    def begin(self, due: Due) -> Draft | None:
        """Starts work on a file, and returns what goes into it; None if it is no longer due."""
        with self._lock:
            shard = self._shards.get(due.number)
            if shard is None or shard.chore(self._newest) != due.chore:
                return None
            shard.open, shard.sealing = None, shard.open
            taken = shard.sealing if due.chore != "rebuild" else None
            rows = taken.living() if taken is not None else empty(self._dimensions)
            shard.draft = Draft(due, shard.partition, shard.alive, rows)
            return shard.draft

    def finish(self, draft: Draft, partition: Partition | None) -> None:
        """Uses the written file (None if the shard is now empty), and releases its rows in memory."""
        with self._lock:
            shard = self._shards.get(draft.due.number)
            if shard is None or shard.draft is not draft:
                return
            shard.draft = shard.sealing = None
            shard.partition, shard.alive, shard.is_missing = partition, None, False
            if partition is not None:
                shard.alive = without(partition, None, np.fromiter(draft.killed, np.int64))
            elif shard.open is None:
                del self._shards[shard.number]

    def abandon(self, draft: Draft) -> None:
        """Restores the state from before `begin`, because the file was not written."""
        with self._lock:
            shard = self._shards.get(draft.due.number)
            if shard is None or shard.draft is not draft:
                return
            shard.draft, taken = None, shard.sealing
            shard.sealing = None
            if taken is not None and shard.open is not None:
                taken.add(shard.open.living())
            shard.open = taken or shard.open

    def mark_missing(self, partitions: Collection[Partition]) -> None:
        """Marks files as unusable; LanceDB answers for their rows until they are rewritten."""
        with self._lock:
            for shard in self._shards.values():
                if shard.partition in partitions:
                    shard.partition, shard.alive, shard.is_missing = None, None, True

    def _kill(self, documents: Documents) -> None:
        for shard in self._shards.values():
            shard.kill(documents)

    def _begun(self, content: Contents) -> _Shard:
        shard = _Shard(content.number, content.partition, content.alive, is_missing=content.is_missing)
        if content.rows is not None and len(content.rows):
            shard.open = OpenRows(self._dimensions)
            shard.open.add(content.rows)
        return shard


def without(partition: Partition, alive: Mask | None, documents: Documents) -> Mask | None:
    """Returns the mask of living rows without those of these documents. A new array, because snapshots keep the old."""
    dead = partition.in_documents(documents) if len(documents) else None
    if dead is None:
        return alive
    return ~dead if alive is None else alive & ~dead
