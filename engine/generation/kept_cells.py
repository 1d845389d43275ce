"""The upper tier of the knowledge tree: nodes in KV cells, each under a sequence number of its own.

Every call of llama.cpp that the tree needs is in here: letting a sequence share a node's cells, and moving a node's
keys and values between cells and bytes. A part of a sequence is saved through a scratch sequence, and what is loaded is
bit for bit what was saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from engine.errors import NoCells
from engine.generation.cells import Cells, CellSequence
from engine.generation.context import Context
from engine.generation.knowledge_tree import Node
from engine.generation.replacement import Policy, Shelf


class KeptCells:
    """Nodes in cells, at most `budget_cells` tokens of them; half of the sequence numbers are left to prompts."""

    def __init__(self, context: Context, cells: Cells, policy: Policy) -> None:
        self.shelf: Shelf[CellSequence] = Shelf(policy)
        self.budget_cells = 0
        self.move(context, cells)

    def move(self, context: Context, cells: Cells) -> None:
        """Uses the cells of another context from now on; no node may be in cells now."""
        if len(self.shelf):
            raise ValueError(f"{len(self.shelf)} nodes lie in cells of the context before")
        self._context, self._cells = context, cells
        self._max_slots = context.num_sequences // 2

    def __contains__(self, node: Node) -> bool:
        return node in self.shelf

    @property
    def is_over(self) -> bool:
        return self.shelf.num_tokens > self.budget_cells

    @property
    def num_cells(self) -> int:
        """Cells of the whole context."""
        return self._cells.num_cells

    @property
    def num_free(self) -> int:
        """Free cells of the whole context."""
        return self._cells.num_free

    @property
    def num_free_slots(self) -> int:
        """Free sequence numbers of the whole context."""
        return self._cells.num_free_slots

    def has_room(self, num_tokens: int) -> bool:
        """Returns whether a node of `num_tokens` can be held without evicting another."""
        return (
            self.shelf.num_tokens + num_tokens <= self.budget_cells
            and len(self.shelf) < self._max_slots
            and self._cells.num_free_slots > self._cells.num_promised_slots
        )

    def frees_cells(self, node: Node) -> bool:
        """Returns whether cells become free when the node leaves: no running prompt shares all of them."""
        return self._cells.num_private(self.shelf[node]) > 0

    def hold(self, node: Node, sequence: CellSequence) -> None:
        """Shares the node's cells with a sequence that has read it; there is room.

        Raises:
            NoCells: No sequence number is free, or the sequence no longer has all of the node.
        """
        self._check_whole(node, sequence)
        own = self._cells.open(node.start)
        self._share(sequence, own, node)
        self.shelf.put(node, own)

    def lend(self, node: Node, sequence: CellSequence) -> None:
        """Lets a sequence that ends where the node begins continue with it."""
        self._share(self.shelf[node], sequence, node)

    def load(self, node: Node, state: NDArray[np.uint8], sequence: CellSequence, is_held: bool) -> bool:
        """Continues a sequence with saved bytes, holds the node if `is_held`; returns False if they do not fit.

        Raises:
            NoCells: Not enough cells, or no sequence number, are free; nothing has changed.
        """
        scratch = self._cells.open(node.start)
        try:
            self._cells.grow(scratch, node.num_tokens)
            is_loaded = self._context.load(state, scratch.slot)
            if is_loaded:
                self._share(scratch, sequence, node)
        except NoCells:
            self._close(scratch)
            raise
        if is_loaded and is_held:
            self.shelf.put(node, scratch)
        else:
            self._close(scratch)
        return is_loaded

    @contextmanager
    def slot_of(self, node: Node, sequence: CellSequence | None = None) -> Iterator[int]:
        """Yields the number of a sequence that holds the node and nothing else: its own, or a scratch one's.

        Raises:
            NoCells: No sequence number is free, or the sequence no longer has all of the node.
        """
        if node in self.shelf:
            yield self.shelf[node].slot
            return
        if sequence is None:
            raise ValueError("the node lies in no cells")
        self._check_whole(node, sequence)
        scratch = self._cells.open(node.start)
        try:
            self._share(sequence, scratch, node)
            yield scratch.slot
        finally:
            self._close(scratch)

    def state_bytes(self, slot: int) -> int:
        return self._context.state_bytes(slot)

    def save(self, slot: int, into: NDArray[np.uint8]) -> bool:
        """Saves the sequence's keys and values into `into`, of `state_bytes` bytes; returns whether it did."""
        return self._context.save(slot, into) == into.nbytes

    def evict(self, node: Node) -> None:
        """Frees a victim's cells."""
        self._close(self.shelf.evict(node))

    def release(self, node: Node) -> None:
        """Frees a node's cells, if it has any."""
        if node in self.shelf:
            self._close(self.shelf.take(node))

    def _check_whole(self, node: Node, sequence: CellSequence) -> None:
        if sequence.is_patchy or not self._context.has_window(sequence.slot, node.end, node.start):
            raise NoCells("What left the sliding window of some layers is not there any more.")

    def _share(self, source: CellSequence, target: CellSequence, node: Node) -> None:
        self._cells.share(source, target, node.start, node.end)
        self._context.copy(source.slot, target.slot, node.start, node.end)

    def _close(self, sequence: CellSequence) -> None:
        self._context.remove(sequence.slot)
        self._cells.close(sequence)
