"""Saves KV from cells to lower tiers: copied to memory, or through it to disk if memory has no room for its path.

A node is saved together with the missing part of its path, because a node is useless without its path.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.errors import NoCells
from engine.generation.cells import CellSequence
from engine.generation.kept_bytes import LOOKS_AHEAD, WRITES_BEHIND_FROM, KeptBytes
from engine.generation.kept_cells import KeptCells
from engine.generation.knowledge_tree import Node, path_of


class Saving:
    """Saves nodes from the upper tier of a knowledge tree to the lower ones.

    `cell_bytes` is the size of one token, according to the last saved node; 0 before the first.
    """

    def __init__(self, cells: KeptCells, kept: KeptBytes, now: Callable[[], float]) -> None:
        self._cells, self._kept, self._now = cells, kept, now
        self.cell_bytes = 0.0

    def save(self, node: Node, sequence: CellSequence | None = None) -> bool:
        """Saves a node, and the missing part of its path, to a lower tier; returns False if there is no room now.

        Args:
            node: A node in cells; its path is there too, as far as it is not in a lower tier.
            sequence: Holds those of these nodes that have no cells of their own.
        """
        path = path_of(node)
        for each in path:
            each.pins += 1
        try:
            return all(each in self._kept or self._save_one(each, sequence) for each in path)
        except NoCells:
            return False
        finally:
            for each in path:
                each.pins -= 1

    def save_by_waiting(self, node: Node, sequence: CellSequence | None, ends_at: float) -> bool:
        """Saves like `save`, waiting until the disk takes another node if only the disk has room."""
        while self._outgrows(node) and self._kept.is_busy and self.wait(ends_at):
            if node.is_gone:
                return False
            if self.save(node, sequence):
                return True
        return False

    def save_behind(self) -> None:
        """Saves the node that is likely to be evicted next when cells fill up, if memory has no room for its path."""
        if self._kept.slabs.budget_bytes >= self.cell_bytes * self._cells.num_cells:
            # Memory has room for any path; looking at nodes would take much of the time of a scheduling decision.
            return
        shelf = self._cells.shelf
        if shelf.num_tokens < WRITES_BEHIND_FROM * self._cells.budget_cells or not self._kept.can_write:
            return
        next_out = shelf.victim(
            lambda node: not node.pins and node not in self._kept and self._outgrows(node), among=LOOKS_AHEAD
        )
        if next_out is not None:
            self.save(next_out[0])

    def wait(self, ends_at: float) -> bool:
        """Waits for a transfer to or from disk; returns False if the time is over."""
        left = ends_at - self._now()
        if left > 0:
            self._kept.wait(left)
        return left > 0

    def _outgrows(self, node: Node) -> bool:
        return self._kept.outgrows(node, self.cell_bytes * node.num_tokens)

    def _save_one(self, node: Node, sequence: CellSequence | None) -> bool:
        if sequence is None and node not in self._cells:
            # Its KV is missing, so its descendants cannot be saved either.
            return False
        with self._cells.slot_of(node, sequence) as slot:
            num_bytes = self._cells.state_bytes(slot)
            self.cell_bytes = num_bytes / node.num_tokens

            def copy(into: NDArray[np.uint8]) -> bool:
                return self._cells.save(slot, into)

            passes = self._kept.takes_files and self._kept.outgrows(node, num_bytes)
            return (passes and self._kept.pass_on(node, num_bytes, copy)) or self._kept.store(node, num_bytes, copy)
