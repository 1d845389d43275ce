"""Slabs: the RAM in which kept KV lies, taken from the system 16 MiB at a time and given back as soon as it is empty.

A blob is contiguous, so that llama.cpp can write and read it in place. What is mapped, not what is used of it, is
what the budget bounds and the ledger tells.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.memory.ledger import Lease, Ledger
from engine.partitions.buffers import Buffer, aligned

SLAB_BYTES = 16 * 2**20


@dataclass(slots=True, eq=False)
class _Slab:
    """A mapping and its gaps (offset, size) in order, none of which touches the next."""

    buffer: Buffer
    gaps: list[tuple[int, int]]

    @property
    def num_bytes(self) -> int:
        return self.buffer.capacity_bytes

    def gap_for(self, num_bytes: int) -> tuple[int, int] | None:
        """The smallest gap that is large enough."""
        return min((gap for gap in self.gaps if gap[1] >= num_bytes), key=lambda gap: gap[1], default=None)

    def take(self, gap: tuple[int, int], num_bytes: int) -> int:
        at = self.gaps.index(gap)
        offset, size = gap
        self.gaps[at : at + 1] = [(offset + num_bytes, size - num_bytes)] if size > num_bytes else []
        return offset

    def give_back(self, offset: int, num_bytes: int) -> None:
        at = bisect_left(self.gaps, (offset, 0))
        if at < len(self.gaps) and self.gaps[at][0] == offset + num_bytes:
            num_bytes += self.gaps.pop(at)[1]
        if at and sum(self.gaps[at - 1]) == offset:
            offset, before = self.gaps[at - 1]
            self.gaps[at - 1] = (offset, before + num_bytes)
        else:
            self.gaps.insert(at, (offset, num_bytes))

    @property
    def is_empty(self) -> bool:
        return self.gaps == [(0, self.num_bytes)]


@dataclass(slots=True, eq=False)
class Blob:
    """Bytes in a slab. Made by `Slabs.allocate`, ended by `Slabs.free`."""

    data: NDArray[np.uint8]
    _slab: _Slab
    _offset: int
    _room: int = field(repr=False)

    @property
    def num_bytes(self) -> int:
        return int(self.data.nbytes)


class Slabs:
    """All slabs of a keeper; one thread owns them. Not a byte more is mapped than `budget_bytes` says."""

    def __init__(self, ledger: Ledger, budget_bytes: int = 0, slab_bytes: int = SLAB_BYTES) -> None:
        self.budget_bytes = budget_bytes
        self._slab_bytes = slab_bytes
        self._slabs: list[_Slab] = []
        self._ledger = ledger
        self._lease: Lease | None = None
        self.mapped_bytes = 0
        self.used_bytes = 0

    @property
    def waste_bytes(self) -> int:
        """Mapped, but in no blob: the gaps, and what alignment takes."""
        return self.mapped_bytes - self.used_bytes

    def allocate(self, num_bytes: int) -> Blob | None:
        """`num_bytes` in one piece, or None where the budget has no room for them as things lie."""
        room = aligned(max(1, num_bytes))
        fitting = [(gap, slab) for slab in self._slabs if (gap := slab.gap_for(room)) is not None]
        if fitting:
            gap, slab = min(fitting, key=lambda each: each[0][1])
        else:
            new = self._map(room)
            if new is None:
                return None
            gap, slab = new.gaps[0], new
        offset = slab.take(gap, room)
        self.used_bytes += num_bytes
        return Blob(slab.buffer.array(offset, (num_bytes,), np.uint8), slab, offset, room)

    def free(self, blob: Blob) -> None:
        """Gives a blob's room back, and its slab to the system once that is empty; nothing of it is read any more."""
        self.used_bytes -= blob.num_bytes
        blob.data = blob.data[:0].copy()
        slab = blob._slab
        slab.give_back(blob._offset, blob._room)
        if slab.is_empty:
            self._slabs.remove(slab)
            self._mapped(-slab.num_bytes)

    def _map(self, room: int) -> _Slab | None:
        """A new slab: as large as slabs are, or as the blob or what is left of the budget makes it."""
        left = self.budget_bytes - self.mapped_bytes
        size = max(_pages(room), min(self._slab_bytes, left // _PAGE_BYTES * _PAGE_BYTES))
        if size > left:
            return None
        try:
            slab = _Slab(Buffer(size), [(0, size)])
        except (OSError, MemoryError):
            # The system has less than the budget says: as if that were smaller.
            return None
        self._slabs.append(slab)
        self._mapped(size)
        return slab

    def _mapped(self, change_bytes: int) -> None:
        self.mapped_bytes += change_bytes
        if self._lease is None:
            self._lease = self._ledger.take("kv", "what was read, kept in memory", "ram", self.mapped_bytes)
        elif self.mapped_bytes:
            self._lease.resize(self.mapped_bytes)
        else:
            self._lease.release()
            self._lease = None


_PAGE_BYTES = 4096


def _pages(num_bytes: int) -> int:
    return -(-num_bytes // _PAGE_BYTES) * _PAGE_BYTES
