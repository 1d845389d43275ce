"""The lower tiers of the knowledge tree: nodes as bytes in RAM, and below that in files.

Memory is the way to the disk and back. What lies below lies there with its whole path, so that a node never outlives
what it depends on. A node is written once: the first time it leaves, and ever after leaving is free.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.generation.cache_files import CacheFile, CacheFiles, Transfer
from engine.generation.cache_format import CacheHeader
from engine.generation.knowledge_tree import KnowledgeTree, Node, path_of
from engine.generation.replacement import Policy, Shelf
from engine.generation.slabs import Blob, Slabs

# Once so much of the memory is used, nodes are written ahead, so that making room need not wait for the disk.
_WRITES_BEHIND_FROM = 0.75
# Of those that are next to leave, so many are looked at.
_LOOKS_AHEAD = 32


@dataclass(slots=True, eq=False)
class _Move:
    """A node on its way to or from its file; `blob` is its room in memory, to be freed if the node is gone by then."""

    node: Node
    blob: Blob
    transfer: Transfer


class KeptBytes:
    """RAM and disk of one tree. Owned by the generation thread; only the files' own thread touches bytes beside it.

    `is_in_cells` tells of the tier above; `on_lost` is called with a node whose last copy has gone.
    """

    def __init__(
        self,
        tree: KnowledgeTree,
        slabs: Slabs,
        files: CacheFiles,
        policy: Policy,
        is_in_cells: Callable[[Node], bool],
        on_lost: Callable[[Node], None],
    ) -> None:
        self.ram: Shelf[Blob] = Shelf(policy)
        self.disk: Shelf[CacheFile] = Shelf(policy)
        self.slabs, self.files = slabs, files
        self._tree, self._is_in_cells, self._on_lost = tree, is_in_cells, on_lost
        self._moves: dict[Node, _Move] = {}
        self._ended: queue.SimpleQueue[Transfer] = queue.SimpleQueue()
        self._find_files()

    def __contains__(self, node: Node) -> bool:
        return node in self.ram or node in self.disk

    def touch(self, node: Node) -> None:
        self.ram.touch(node)
        self.disk.touch(node)

    def is_reading(self, node: Node) -> bool:
        move = self._moves.get(node)
        return move is not None and move.transfer.is_read

    def fetch(self, node: Node) -> bool:
        """Whether a pinned node's bytes are in memory, or on their way there from now on."""
        if node in self.ram or self.is_reading(node):
            return True
        if node not in self.disk:
            return False
        blob = self._room(self.disk[node].header.num_bytes)
        # Making room may have told that the file is lost.
        if blob is None or node not in self.disk:
            if blob is not None:
                self.slabs.free(blob)
            return False
        self._start(node, blob, self.files.read(self.disk[node], blob.data, self._ended))
        return True

    def store(self, node: Node, num_bytes: int, save: Callable[[NDArray[np.uint8]], bool]) -> bool:
        """Holds a pinned node in memory, written there by `save`; False where there is no room."""
        blob = self._room(num_bytes)
        if blob is None:
            return False
        if not save(blob.data):
            self.slabs.free(blob)
            return False
        self.ram.put(node, blob)
        return True

    def write(self, node: Node) -> bool:
        """Begins to write a node that is in memory, and what of its path has no file; False where that cannot be."""
        return all(each in self.disk or self._write(each) for each in path_of(node))

    def write_behind(self) -> None:
        """When memory fills up, writes what is likely to leave next, one node at a time."""
        if self._moves or self.slabs.used_bytes < _WRITES_BEHIND_FROM * self.slabs.budget_bytes:
            return
        if self.files.takes_more:
            next_out = self.ram.victim(lambda node: not node.pins and node not in self.disk, among=_LOOKS_AHEAD)
            if next_out is not None:
                self.write(next_out[0])

    def collect(self) -> None:
        """Takes in what the files' thread has done since."""
        while True:
            try:
                transfer = self._ended.get_nowait()
            except queue.Empty:
                return
            self._arrived(transfer)

    def wait(self) -> None:
        """Until nothing is on its way."""
        while self._moves:
            next(iter(self._moves.values())).transfer.ended.wait()
            self.collect()

    def fit(self) -> None:
        """Lets nodes leave until the budgets are kept; pinned ones stay."""
        while self.files.held_bytes > self.files.budget_bytes and self._make_disk_room():
            pass
        while self.slabs.mapped_bytes > self.slabs.budget_bytes and self._make_room():
            pass

    def note_usage(self, nodes: Iterable[Node]) -> None:
        """Writes into the nodes' files how often they were used."""
        for node in nodes:
            if node in self.disk:
                self.files.note_usage(self.disk[node], node.frequency, node.cost_per_token)

    def remove(self, node: Node) -> None:
        """Gives up a node's memory and file, whatever is going on with them."""
        if node in self.disk:
            self.files.remove(self.disk.take(node))
        if node in self.ram:
            blob = self.ram.take(node)
            if node not in self._moves:
                self.slabs.free(blob)

    def close(self) -> None:
        """Gives all memory back; the files stay."""
        self.wait()
        for node in self.ram.nodes():
            self.slabs.free(self.ram.take(node))
        self.files.close_root(self._tree.root.key)

    def _find_files(self) -> None:
        """The tree as the files tell it; a file whose path has a gap is of no use."""
        for file in self.files.open(self._tree.root.key):
            header = file.header
            parent = self._tree.get(header.parent)
            if parent is None or parent.end != header.start:
                self.files.remove(file)
                continue
            node = self._tree.add(parent, header.piece)
            node.frequency, node.cost_per_token, node.num_misses = header.frequency, header.cost_per_token, 1
            self.disk.put(node, file)

    def _room(self, num_bytes: int) -> Blob | None:
        if num_bytes > self.slabs.budget_bytes:
            return None
        while (blob := self.slabs.allocate(num_bytes)) is None:
            if not self._make_room():
                return None
        return blob

    def _make_room(self) -> bool:
        """Lets the next one leave memory; False where none can."""
        victim = self.ram.victim(self._may_leave)
        if victim is not None:
            self._leave_ram(victim[0])
            return True
        writing = next((move for move in self._moves.values() if not move.transfer.is_read), None)
        if writing is None:
            return False
        writing.transfer.ended.wait()
        self.collect()
        return True

    def _may_leave(self, node: Node) -> bool:
        """A node with children above that has no other copy stays, unless it can be written: they depend on it."""
        is_spare = node in self.disk or self._is_in_cells(node) or not node.children
        return not node.pins and (is_spare or self.files.takes_more)

    def _leave_ram(self, node: Node) -> None:
        if node not in self.disk and self.files.takes_more and self.write(node):
            self._moves[node].transfer.ended.wait()
            self.collect()
        if node in self.ram:
            self.slabs.free(self.ram.evict(node))
            self._check(node)

    def _make_disk_room(self) -> bool:
        victim = self.disk.victim(lambda node: not node.pins and (node in self.ram or not node.children))
        if victim is None:
            return False
        self.files.remove(self.disk.evict(victim[0]))
        self._check(victim[0])
        return True

    def _write(self, node: Node) -> bool:
        if node not in self.ram or not self.files.takes_more:
            return False
        blob, parent = self.ram[node], node.parent
        assert parent is not None
        header = CacheHeader(
            self._tree.root.key,
            parent.key,
            node.key,
            node.start,
            node.piece,
            blob.num_bytes,
            frequency=node.frequency,
            cost_per_token=node.cost_per_token,
        )
        if not self._disk_room(node, header.file_bytes):
            return False
        transfer = self.files.write(header, blob.data, self._ended)
        self.disk.put(node, transfer.file)
        self._start(node, blob, transfer)
        return True

    def _disk_room(self, node: Node, num_bytes: int) -> bool:
        if num_bytes > self.files.budget_bytes:
            return False
        # Its path must not leave to make room for it.
        path = path_of(node)
        for each in path:
            each.pins += 1
        while not (has_room := self.files.make_room(num_bytes)) and self._make_disk_room():
            pass
        for each in path:
            each.pins -= 1
        return has_room

    def _start(self, node: Node, blob: Blob, transfer: Transfer) -> None:
        node.pins += 1
        self._moves[node] = _Move(node, blob, transfer)

    def _arrived(self, transfer: Transfer) -> None:
        move = next(move for move in self._moves.values() if move.transfer is transfer)
        node = move.node
        del self._moves[node]
        node.pins -= 1
        if node.is_gone:
            self.slabs.free(move.blob)
            return
        if transfer.is_read and transfer.succeeded:
            self.ram.put(node, move.blob)
        elif transfer.is_read:
            self.slabs.free(move.blob)
        if not transfer.succeeded and node in self.disk:
            self.files.remove(self.disk.take(node))
            self._check(node)

    def _check(self, node: Node) -> None:
        if node not in self and not self._is_in_cells(node):
            self._on_lost(node)
