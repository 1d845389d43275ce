"""Slabs: an allocator of RAM for kept KV, mapped slab by slab and unmapped as soon as a slab is empty.

Each slab is as large as all previous ones together, within bounds: a keeper with little data, like most of several
models, maps little, and one with much data has few slabs. The size of a slab is a multiple of the blob that it was
mapped for: blobs of a model are similar in size, and if one were a little larger than half a slab, the other half would
be wasted. A blob is contiguous, so that llama.cpp can write and read it in place. The budget bounds, and the ledger
counts, what is mapped, including gaps. Data on its way to or from disk is outside the budget, in its own mapping.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.memory.ledger import Lease, Ledger
from engine.partitions.buffers import Buffer, aligned

LEAST_SLAB_BYTES, SLAB_BYTES = 2**20, 16 * 2**20


@dataclass(slots=True, eq=False)
class _Slab:
    """A mapping and its gaps (offset, size) in order, no two of which touch."""

    number: int
    buffer: Buffer
    is_passing: bool = False
    gaps: list[tuple[int, int]] = field(default_factory=list)

    @property
    def num_bytes(self) -> int:
        return self.buffer.capacity_bytes

    @property
    def is_empty(self) -> bool:
        return self.gaps == [(0, self.num_bytes)]


@dataclass(slots=True, eq=False)
class Blob:
    """Bytes in a slab. Made by `Slabs.allocate`, freed by `Slabs.free`."""

    data: NDArray[np.uint8]
    _slab: _Slab
    _offset: int
    _room: int = field(repr=False)

    @property
    def num_bytes(self) -> int:
        return int(self.data.nbytes)


class Slabs:
    """All slabs of a keeper; owned by one thread. At most `budget_bytes` are mapped."""

    def __init__(self, ledger: Ledger, budget_bytes: int = 0, slab_bytes: int = SLAB_BYTES) -> None:
        self.budget_bytes = budget_bytes
        self._slab_bytes = slab_bytes
        self._slabs: dict[int, _Slab] = {}
        # The gaps of all slabs, smallest first: size, number of the slab, offset.
        self._gaps: list[tuple[int, int, int]] = []
        self._num_made = 0
        self._ledger = ledger
        self._lease: Lease | None = None
        self.mapped_bytes = 0
        self.used_bytes = 0
        # Outside the budget, and counted neither as mapped nor as used.
        self.passing_bytes = 0

    @property
    def waste_bytes(self) -> int:
        """Bytes that are mapped but in no blob: the gaps, and padding for alignment."""
        return self.mapped_bytes - self.used_bytes

    def allocate(self, num_bytes: int) -> Blob | None:
        """Allocates `num_bytes` in one piece, or returns None if the budget has no contiguous room."""
        room = aligned(max(1, num_bytes))
        at = bisect_left(self._gaps, (room,))
        if at == len(self._gaps):
            if not self._map(room):
                return None
            at = bisect_left(self._gaps, (room,))
        size, number, offset = self._gaps[at]
        slab = self._slabs[number]
        self._close_gap(slab, offset, size)
        if size > room:
            self._open_gap(slab, offset + room, size - room)
        self.used_bytes += num_bytes
        return Blob(slab.buffer.array(offset, (num_bytes,), np.uint8), slab, offset, room)

    def pass_through(self, num_bytes: int) -> Blob | None:
        """Allocates outside the budget, to be freed as soon as possible; returns None if the system has no room."""
        # A slab of its own, without gaps for other blobs.
        slab = self._make(_pages(max(1, num_bytes)), is_passing=True)
        if slab is None:
            return None
        return Blob(slab.buffer.array(0, (num_bytes,), np.uint8), slab, 0, slab.num_bytes)

    def free(self, blob: Blob) -> None:
        """Frees a blob, and its slab if that is empty; the blob must not be read any more."""
        if blob._slab.is_passing:
            blob.data = blob.data[:0].copy()
            self._unmake(blob._slab)
            return
        self.used_bytes -= blob.num_bytes
        blob.data = blob.data[:0].copy()
        slab, offset, size = blob._slab, blob._offset, blob._room
        at = bisect_left(slab.gaps, (offset, 0))
        before, after = slab.gaps[max(0, at - 1) : at], slab.gaps[at : at + 1]
        if after and after[0][0] == offset + size:
            self._close_gap(slab, *after[0])
            size += after[0][1]
        if before and sum(before[0]) == offset:
            self._close_gap(slab, *before[0])
            offset, size = before[0][0], before[0][1] + size
        self._open_gap(slab, offset, size)
        if slab.is_empty:
            self._close_gap(slab, offset, size)
            self._unmake(slab)

    def _open_gap(self, slab: _Slab, offset: int, size: int) -> None:
        insort(slab.gaps, (offset, size))
        insort(self._gaps, (size, slab.number, offset))

    def _close_gap(self, slab: _Slab, offset: int, size: int) -> None:
        del slab.gaps[bisect_left(slab.gaps, (offset, size))]
        del self._gaps[bisect_left(self._gaps, (size, slab.number, offset))]

    def _map(self, room: int) -> bool:
        """Maps a slab for several blobs of this size, or as many as the budget allows; False if it allows none."""
        left = (self.budget_bytes - self.mapped_bytes) // _PAGE_BYTES * _PAGE_BYTES
        usual = min(self._slab_bytes, max(LEAST_SLAB_BYTES, self.mapped_bytes))
        size = _pages(max(1, min(usual, left) // room) * room)
        if size > left or (slab := self._make(size)) is None:
            return False
        self._open_gap(slab, 0, size)
        return True

    def _make(self, num_bytes: int, is_passing: bool = False) -> _Slab | None:
        try:
            slab = _Slab(self._num_made, Buffer(num_bytes), is_passing)
        except (OSError, MemoryError):
            # The system has less memory than the budget: treated as a smaller budget.
            return None
        self._num_made += 1
        self._slabs[slab.number] = slab
        self._mapped(slab, slab.num_bytes)
        return slab

    def _unmake(self, slab: _Slab) -> None:
        del self._slabs[slab.number]
        self._mapped(slab, -slab.num_bytes)

    def _mapped(self, slab: _Slab, change_bytes: int) -> None:
        if slab.is_passing:
            self.passing_bytes += change_bytes
        else:
            self.mapped_bytes += change_bytes
        held_bytes = self.mapped_bytes + self.passing_bytes
        if self._lease is None:
            self._lease = self._ledger.take("kv", "what was read, kept in memory", "ram", held_bytes)
        elif held_bytes:
            self._lease.resize(held_bytes)
        else:
            self._lease.release()
            self._lease = None


_PAGE_BYTES = 4096


def _pages(num_bytes: int) -> int:
    return -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES
