"""Open rows: the newest chunks, searched in memory until there are enough of them to be sealed in a file.

They are kept in blocks of fixed size, so that adding rows never moves those that a sweep is reading. A sweep takes a
`View` of the present rows, which later changes do not affect. LanceDB has all of them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.partitions.buffers import Buffer, aligned
from engine.partitions.packed import Documents, Mask, Packed, empty, joined

ROWS_PER_BLOCK = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Rows at one moment; `alive` is a mask of those that were not removed, None means all."""

    packed: Packed
    alive: Mask | None

    def living(self) -> Packed:
        return self.packed if self.alive is None else self.packed.take(self.alive)


class OpenRows:
    """The rows of one shard number that are in no file yet. Guarded by the store's lock."""

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._blocks: list[_Block] = []

    def add(self, packed: Packed) -> None:
        """Appends rows."""
        taken = 0
        while taken < len(packed):
            if not self._blocks or self._blocks[-1].room == 0:
                self._blocks.append(_Block(self._dimensions))
            block = self._blocks[-1]
            portion = slice(taken, taken + block.room)
            taken += block.add(packed.take(portion))

    def kill(self, documents: Documents) -> None:
        """Marks the rows of these documents as removed."""
        for block in self._blocks:
            block.kill(documents)
        # A block without living rows is dropped even if it has room.
        self._blocks = [block for block in self._blocks if block.num_alive]

    def views(self) -> Sequence[View]:
        return [block.view() for block in self._blocks if block.num_alive]

    def living(self) -> Packed:
        """Returns a copy of all living rows."""
        return joined([empty(self._dimensions), *(view.living() for view in self.views())])

    @property
    def num_alive(self) -> int:
        return sum(block.num_alive for block in self._blocks)

    @property
    def num_bytes(self) -> int:
        return sum(block.num_bytes for block in self._blocks)


class _Block:
    def __init__(self, dimensions: int) -> None:
        self._columns = _columns(dimensions)
        self._used = 0
        self._alive: Mask | None = None

    @property
    def room(self) -> int:
        return ROWS_PER_BLOCK - self._used

    @property
    def num_alive(self) -> int:
        return self._used if self._alive is None else int(np.count_nonzero(self._alive))

    @property
    def num_bytes(self) -> int:
        """The memory that its rows have used so far."""
        return self._columns.num_bytes * self._used // ROWS_PER_BLOCK

    def add(self, packed: Packed) -> int:
        target = self._columns.take(slice(self._used, self._used + len(packed)))
        for name in packed.__slots__:
            getattr(target, name)[:] = getattr(packed, name)
        self._used += len(packed)
        if self._alive is not None:
            self._alive = np.append(self._alive, np.ones(len(packed), np.bool_))
        return len(packed)

    def kill(self, documents: Documents) -> None:
        dead = np.isin(self._columns.documents[: self._used], documents)
        if dead.any():
            # A new array, because existing views keep the old one.
            self._alive = ~dead if self._alive is None else self._alive & ~dead

    def view(self) -> View:
        return View(self._columns.take(slice(0, self._used)), self._alive)


def _columns(dimensions: int) -> Packed:
    """Allocates columns for a block's rows, in memory that returns to the system when no longer used."""
    wide, narrow = ROWS_PER_BLOCK * dimensions, aligned(8 * ROWS_PER_BLOCK)
    buffer = Buffer(4 * narrow + 3 * wide)

    def column(place: int, dtype: type[np.generic], shape: tuple[int, ...] = (ROWS_PER_BLOCK,)) -> NDArray:  # type: ignore[type-arg]
        return buffer.array(place, shape, dtype)

    matrix = (ROWS_PER_BLOCK, dimensions)
    return Packed(
        ids=column(0, np.uint64),
        documents=column(narrow, np.int64),
        keys=column(2 * narrow, np.uint64),
        scales=column(3 * narrow, np.float32),
        rows=column(4 * narrow, np.int8, matrix),
        exact=column(4 * narrow + wide, np.float16, matrix),
    )
