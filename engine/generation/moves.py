"""Tracks nodes of the knowledge tree that are moving to or from disk: their memory stays in place until they arrive."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass

from engine.generation.cache_files import Ended, Transfer
from engine.generation.knowledge_tree import Node
from engine.generation.slabs import Blob

# How many nodes are written at a time, and how much of the memory they may hold: a node being written cannot leave.
MAX_WRITING, WRITING_SHARE = 16, 1 / 4


@dataclass(slots=True, eq=False)
class Move:
    """A node on its way to or from its file; `blob` is its memory, which is freed if the node was dropped meanwhile."""

    node: Node
    blob: Blob
    transfer: Transfer


class Moves:
    """The moves under way; on the generation thread. The files' thread puts finished transfers into `ended`."""

    def __init__(self) -> None:
        self.ended: Ended = queue.SimpleQueue()
        self.num_writing = self._writing_bytes = 0
        self._of_node: dict[Node, Move] = {}
        self._of_transfer: dict[Transfer, Move] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._of_node

    def __len__(self) -> int:
        return len(self._of_node)

    def is_reading(self, node: Node) -> bool:
        move = self._of_node.get(node)
        return move is not None and move.transfer.is_read

    def blob_of(self, node: Node) -> Blob | None:
        """Returns the memory of a node that is being moved."""
        move = self._of_node.get(node)
        return None if move is None else move.blob

    def has_room(self, memory_bytes: int) -> bool:
        """Returns whether one more node may be written, given `memory_bytes` in all; one is always allowed."""
        is_little = self.num_writing < MAX_WRITING and self._writing_bytes < memory_bytes * WRITING_SHARE
        return is_little or not self.num_writing

    def begin(self, node: Node, blob: Blob, transfer: Transfer) -> None:
        self._count(transfer, blob, 1)
        self._of_node[node] = self._of_transfer[transfer] = Move(node, blob, transfer)

    def taken(self) -> Iterator[Transfer]:
        """Yields transfers that have arrived; `end` must be called for each."""
        while True:
            try:
                yield self.ended.get_nowait()
            except queue.Empty:
                return

    def end(self, transfer: Transfer) -> Move:
        """Forgets a move that is over, and returns it."""
        move = self._of_transfer.pop(transfer)
        del self._of_node[move.node]
        self._count(transfer, move.blob, -1)
        return move

    def wait(self, seconds: float | None) -> None:
        """Waits until the oldest transfer has arrived, or for `seconds`."""
        next(iter(self._of_transfer)).ended.wait(seconds)

    def give_up(self) -> list[Move]:
        """Ends all moves without waiting for them; returns those that had not arrived."""
        moves = list(self._of_transfer.values())
        for move in moves:
            move.transfer.is_unwanted = True
            self.end(move.transfer)
        return moves

    def _count(self, transfer: Transfer, blob: Blob, change: int) -> None:
        if not transfer.is_read:
            self.num_writing += change
            self._writing_bytes += change * blob.num_bytes
