"""Tracks which sequences hold which KV cells: free and used cells always add up, whatever is shared.

llama.cpp's unified cache is paged by the token, and a bitset in every cell names the sequences that share it (vLLM's
block table with blocks of one token; https://arxiv.org/abs/2309.06180). It does not report how many cells are taken,
so they are counted here. The cell numbers are our own, but assigned as llama.cpp assigns its own, the first free one,
so they show closely enough how scattered a sequence is (see gathering.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.errors import NoCells

# A gap of this many cells or more counts as a whole, because the processor's prefetching does not bridge it.
FAR_CELLS = 24


@dataclass(slots=True, eq=False)
class CellSequence:
    """A sequence number of the context, and the cells it holds for consecutive positions from `start` on.

    Made by `Cells.open` and changed by `Cells` only. `num_gaps` counts how often the cells that it took by itself jump;
    short jumps count in part, and shared cells not at all. `is_patchy`: in layers with a sliding window it has only the
    cells that tokens at its end attend to, because it was saved and loaded.
    """

    slot: int
    start: int = 0
    cells: list[int] = field(default_factory=list)
    num_gaps: float = 0.0
    is_patchy: bool = False

    @property
    def num_cells(self) -> int:
        """Cells held, including shared ones."""
        return len(self.cells)

    @property
    def end(self) -> int:
        """The position after the last one held."""
        return self.start + len(self.cells)


class Cells:
    """Counts cells and hands out sequence numbers; owned by the generation thread, together with its `Context`.

    `num_promised_slots` of the free sequence numbers are reserved for admitted requests: kept KV takes none of these.
    """

    def __init__(self, num_cells: int, num_slots: int) -> None:
        self.num_cells, self.num_slots = num_cells, num_slots
        self._holders: NDArray[np.int32] = np.zeros(num_cells, np.int32)
        # A heap: the first is given out next.
        self._free = list(range(num_cells))
        self._free_slots = list(range(num_slots - 1, -1, -1))
        self.num_promised_slots = 0

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_cells - len(self._free)

    @property
    def num_free_slots(self) -> int:
        return len(self._free_slots)

    def num_private(self, sequence: CellSequence) -> int:
        """Returns how many cells closing this sequence would free."""
        return int((self._holders[sequence.cells] == 1).sum()) if sequence.cells else 0

    def num_distinct(self, sequences: Iterable[CellSequence]) -> int:
        """Returns how many cells these sequences hold together, counting shared ones once."""
        held = np.zeros(self.num_cells, np.bool_)
        for sequence in sequences:
            held[sequence.cells] = True
        return int(held.sum())

    def shared_end(self, sequences: Sequence[CellSequence]) -> int:
        """Returns the position up to which the first of `sequences` shares its cells with sequences outside these."""
        first = sequences[0]
        ours = np.zeros(self.num_cells, np.int32)
        for sequence in sequences:
            ours[sequence.cells] += 1
        is_shared = self._holders[first.cells] > ours[first.cells]
        return first.start + (len(first.cells) if is_shared.all() else int(is_shared.argmin()))

    def open(self, start: int = 0) -> CellSequence:
        """Returns a new, empty sequence; `start` is the position of a part that is loaded by itself.

        Raises:
            NoCells: All sequence numbers are taken.
        """
        if not self._free_slots:
            raise NoCells("Too many answers are being written at once.", "Ask again when one of them has ended.")
        return CellSequence(self._free_slots.pop(), start)

    def grow(self, sequence: CellSequence, num_cells: int) -> None:
        """Takes `num_cells` more after the last position.

        Raises:
            NoCells: Fewer are free; nothing has changed.
        """
        if num_cells > len(self._free):
            raise NoCells("The context is full.", "Start a new chat or raise the context length in the settings.")
        if num_cells == 1:
            # Every token of every answer takes this branch.
            cell = heapq.heappop(self._free)
            self._holders[cell] = 1
            if sequence.cells:
                sequence.num_gaps += _gap(sequence.cells[-1], cell)
            sequence.cells.append(cell)
            return
        taken = [heapq.heappop(self._free) for _ in range(num_cells)]
        self._holders[taken] = 1
        sequence.num_gaps += _gaps([*sequence.cells[-1:], *taken])
        sequence.cells += taken

    def share(self, source: CellSequence, target: CellSequence, start: int, end: int) -> None:
        """Lets `target` also hold what `source` has at the positions `start`…`end`; no cell is taken.

        `target` is empty, or ends at `start`.
        """
        if not target.cells:
            target.start = start
        if target.end != start or not source.start <= start <= end <= source.end:
            raise ValueError(f"{start}…{end} of {source} does not follow {target}")
        target.is_patchy = target.is_patchy or source.is_patchy
        shared = source.cells[start - source.start : end - source.start]
        if shared:
            self._holders[shared] += 1
            target.cells += shared

    def trim(self, sequence: CellSequence, end: int) -> None:
        """Releases every position from `end` on."""
        keep = max(0, end - sequence.start)
        gone = sequence.cells[keep:]
        if gone:
            # Gaps of shared cells were not counted, so there may be none left to subtract.
            sequence.num_gaps = max(0.0, sequence.num_gaps - _gaps(sequence.cells[max(0, keep - 1) :])) if keep else 0.0
            del sequence.cells[keep:]
            self._holders[gone] -= 1
            for cell in gone:
                if self._holders[cell] == 0:
                    heapq.heappush(self._free, cell)

    def close(self, sequence: CellSequence) -> None:
        """Releases all cells and the sequence number."""
        self.trim(sequence, sequence.start)
        self._free_slots.append(sequence.slot)

    def check_integrity(self, sequences: Iterable[CellSequence]) -> None:
        """Checks, for tests, that these sequences, and no others, hold every cell that is not free.

        Raises:
            AssertionError: A cell leaked, or is both held and free.
        """
        holders = np.zeros(self.num_cells, np.int32)
        for sequence in sequences:
            np.add.at(holders, np.array(sequence.cells, np.intp), 1)
        if not np.array_equal(holders, self._holders):
            raise AssertionError(f"{int(self._holders.sum())} holds are counted, and {int(holders.sum())} are there")
        if set(self._free) != set(np.flatnonzero(holders == 0).tolist()):
            raise AssertionError("what is free is not what nobody holds")


def _gaps(cells: Sequence[int]) -> float:
    return sum(map(_gap, cells, cells[1:]))


def _gap(before: int, cell: int) -> float:
    """Returns 1 if a cell is far from the one before, 0 if next to it, and a share of 1 in between."""
    return min(1.0, abs(cell - before - 1) / FAR_CELLS)
