"""The lower tiers of the knowledge tree: nodes as bytes in RAM, and below that in files.

Nodes reach the disk, and come back, through memory. A node on disk is there with its whole path, so that it never
outlives what it depends on. A node is written once, in the background, by the files' own thread; from then on evicting
it from memory is free. No request waits for that: if memory is full of nodes that are not written yet, the least
valuable is not kept.

If the budget has no room for a whole path, for instance because a model's layers take all of it, nodes pass through
memory one at a time, and take no more of it than is free at that moment.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.generation.cache_files import CacheFile, CacheFiles, Transfer
from engine.generation.cache_format import CacheHeader
from engine.generation.found_files import FoundFiles
from engine.generation.knowledge_tree import KnowledgeTree, Node, path_of
from engine.generation.moves import Moves
from engine.generation.replacement import Policy, Shelf
from engine.generation.slabs import Blob, Slabs

# Once this share of a tier is used, nodes are written ahead, so that some can always leave at once.
WRITES_BEHIND_FROM = 0.75
# How many of the next candidates for eviction are considered.
LOOKS_AHEAD = 16
# How many found files are taken in at a time: a step must not wait for ten thousand of them.
FOUND_AT_ONCE = 64


class KeptBytes:
    """RAM and disk of one tree. Owned by the generation thread; only the files' own thread also touches bytes.

    `is_in_cells` reports on the tier above. `on_lost` is called with a node whose last copy is gone, `on_unwritten`
    with one that has no file, though it had or should have had one.
    """

    def __init__(
        self,
        tree: KnowledgeTree,
        slabs: Slabs,
        files: CacheFiles,
        policy: Policy,
        is_in_cells: Callable[[Node], bool],
        on_lost: Callable[[Node], None],
        on_unwritten: Callable[[Node], None],
        passing_room_bytes: Callable[[], int],
    ) -> None:
        self.ram: Shelf[Blob] = Shelf(policy)
        self.disk: Shelf[CacheFile] = Shelf(policy)
        self.disk_bytes = 0
        self.slabs, self.files = slabs, files
        # Once set, no new file is written.
        self.writes_nothing = False
        self._tree, self._is_in_cells = tree, is_in_cells
        self._on_lost, self._on_unwritten = on_lost, on_unwritten
        self._passing_room_bytes = passing_room_bytes
        self._moves = Moves()
        self._found = FoundFiles(tree, files, self._hold_file)
        files.share(tree.root.key, self)

    def __contains__(self, node: Node) -> bool:
        return node in self.ram or node in self.disk

    @property
    def num_writing(self) -> int:
        """Nodes that are on their way to the disk."""
        return self._moves.num_writing

    @property
    def is_busy(self) -> bool:
        """Whether the disk takes another node only after it has written one."""
        return self.num_writing > 0 and not self.can_write

    @property
    def can_write(self) -> bool:
        """Whether the disk takes another node now: it works, and not too many are on their way to it."""
        return self.takes_files and self._moves.has_room(max(self.slabs.budget_bytes, self.slabs.mapped_bytes))

    @property
    def takes_files(self) -> bool:
        """Whether the disk takes nodes at all, now or when it has written others."""
        return self.files.takes_more and not self.writes_nothing

    @property
    def is_passing(self) -> bool:
        """Whether anything takes memory on top of the budget."""
        return self.slabs.passing_bytes > 0

    def outgrows(self, node: Node, num_bytes: float) -> bool:
        """Returns whether the path of a node of `num_bytes` is too large for memory."""
        return num_bytes * node.end > self.slabs.budget_bytes * node.num_tokens

    def touch(self, node: Node) -> None:
        self.ram.touch(node)
        self.disk.touch(node)

    def is_reading(self, node: Node) -> bool:
        return self._moves.is_reading(node)

    def fetch(self, node: Node) -> bool:
        """Begins to read a pinned node if it is only on disk; returns whether it is in memory or on its way there."""
        if node in self.ram or self.is_reading(node):
            return True
        if node not in self.disk or node in self._moves:
            return False
        # A prompt waits for it, so anything that leaves for it is worth less.
        blob = self._room(self.disk[node].header.num_bytes, worth=float("inf"))
        # Making room may have revealed that the file is lost.
        if blob is None or node not in self.disk:
            if blob is not None:
                self.slabs.free(blob)
            return False
        self._moves.begin(node, blob, self.files.read(self.disk[node], blob.data, self._moves.ended))
        return True

    def store(self, node: Node, num_bytes: int, save: Callable[[NDArray[np.uint8]], bool]) -> bool:
        """Holds a pinned node in memory, written by `save`; returns False if only more valuable nodes could leave."""
        blob = self._room(num_bytes, self.ram.priority(node))
        if blob is None:
            if num_bytes <= self.slabs.budget_bytes:
                self.ram.refuse(node)
            return False
        if not save(blob.data):
            self.slabs.free(blob)
            return False
        self.ram.put(node, blob)
        return True

    def pass_on(self, node: Node, num_bytes: int, save: Callable[[NDArray[np.uint8]], bool]) -> bool:
        """Begins to write a node that is not in memory; returns False if it cannot, or its parents come first.

        This ignores the budget: only nodes that `outgrows` reports should go this way.
        """
        parent = node.parent
        has_path = parent is not None and (parent is self._tree.root or self.write(parent))
        if not (has_path and self._is_writable(node)) or num_bytes > self._passing_room_bytes():
            return False
        blob = self.slabs.pass_through(num_bytes)
        if blob is None:
            return False
        if not (save(blob.data) and self._write(node, blob)):
            self.slabs.free(blob)
            return False
        return True

    def may_pass(self, node: Node) -> bool:
        """Returns whether a node has to be read by `read_passing`, and can be now."""
        if node not in self.disk:
            return False
        num_bytes = self.disk[node].header.num_bytes
        return self.outgrows(node, num_bytes) and num_bytes <= self._passing_room_bytes()

    def read_passing(self, node: Node, use: Callable[[NDArray[np.uint8]], bool]) -> bool | None:
        """Reads a node that has a file and is not in memory, at once; returns what `use` returned for its bytes.

        Returns None if there is no room for that now, or the file cannot be read; a damaged one is removed.
        """
        if (passing := self._moves.blob_of(node)) is not None:
            return None if self._moves.is_reading(node) else use(passing.data)
        file = self.disk[node]
        num_bytes = file.header.num_bytes
        if num_bytes > self._passing_room_bytes() or (blob := self.slabs.pass_through(num_bytes)) is None:
            return None
        try:
            outcome = self.files.read_now(file, blob.data)
            if outcome == "moved":
                return use(blob.data)
        finally:
            self.slabs.free(blob)
        if outcome == "failed":
            self._lose_file(node)
        return None

    def write(self, node: Node) -> bool:
        """Begins to write a node in memory, and those of its path without a file; returns False if it cannot."""
        return all(
            each in self.disk or (each in self.ram and self._is_writable(each) and self._write(each, self.ram[each]))
            for each in path_of(node)
        )

    def write_behind(self) -> None:
        """Writes the node that is likely to leave next, and its path, once memory fills up."""
        if self.slabs.used_bytes < WRITES_BEHIND_FROM * self.slabs.budget_bytes or not self.can_write:
            return
        next_out = self.ram.victim(
            lambda node: self._is_free(node) and node not in self.disk and node.piece.has_tokens,
            among=LOOKS_AHEAD,
        )
        if next_out is not None:
            self.write(next_out[0])

    def collect(self) -> None:
        """Takes in what the files' thread has done since, and some of the files that it has found."""
        for transfer in self._moves.taken():
            self._arrived(transfer)
        self._found.take(FOUND_AT_ONCE)

    @property
    def has_found_more(self) -> bool:
        """Whether there are, or may still turn up, files that are not in the tree yet."""
        return not self._found.is_complete

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until a transfer has arrived, or for `seconds`; returns whether any is still under way."""
        if self._moves:
            self._moves.wait(seconds)
            self.collect()
        return bool(self._moves)

    def fit(self) -> None:
        """Evicts nodes until the budgets are met; pinned nodes stay, and so do others until they are written."""
        while self.files.is_over and (self.files.let_one_go(self) or self._make_disk_room()):
            pass
        while self.slabs.mapped_bytes > self.slabs.budget_bytes and (self._leave_spare() or self._begin_to_leave()):
            pass

    def let_one_go(self) -> bool:
        """Gives up the least valuable file among the next candidates; returns whether there was one."""
        return self._make_disk_room(LOOKS_AHEAD)

    def note_usage(self, node: Node) -> None:
        """Writes into a node's file how often it was used, and makes it more recent than those of its children."""
        if node in self.disk and (node.children or self.disk[node].header.frequency != node.frequency):
            self.files.note_usage(self.disk[node], node.frequency, node.cost_per_token)

    def remove(self, node: Node) -> None:
        """Gives up a node's memory and file, even if they are being transferred."""
        if node in self.disk:
            self.files.remove(self._drop_file(node))
        if node in self.ram:
            blob = self.ram.take(node)
            if node not in self._moves:
                self.slabs.free(blob)

    def close(self) -> None:
        """Frees all memory without waiting: complete files stay, transfers under way are abandoned."""
        self.collect()
        for move in self._moves.give_up():
            if not (move.transfer.is_read or move.transfer.succeeded):
                self.files.remove(move.transfer.file)
            if move.node not in self.ram:
                self.slabs.free(move.blob)
        for node in self.ram.nodes():
            self.slabs.free(self.ram.take(node))
        self.files.close_root(self._tree.root.key)

    def _hold_file(self, node: Node, file: CacheFile) -> None:
        self.disk.put(node, file)
        self.disk_bytes += file.num_bytes

    def _drop_file(self, node: Node, is_evicted: bool = False) -> CacheFile:
        file = self.disk.evict(node) if is_evicted else self.disk.take(node)
        self.disk_bytes -= file.num_bytes
        return file

    def _room(self, num_bytes: int, worth: float) -> Blob | None:
        if num_bytes > self.slabs.budget_bytes:
            return None
        while (blob := self.slabs.allocate(num_bytes)) is None:
            if not (self._leave_spare() or self._lose_one(worth)):
                return None
        return blob

    def _leave_spare(self) -> bool:
        """Evicts the next node that has another copy from memory; returns False if no near candidate has one."""
        spare = self.ram.victim(
            lambda node: self._is_free(node) and (node in self.disk or self._is_in_cells(node)), among=LOOKS_AHEAD
        )
        if spare is not None:
            self.slabs.free(self.ram.evict(spare[0]))
        return spare is not None

    def _lose_one(self, worth: float) -> bool:
        """Gives up the last copy of the next node that is worth no more than this; returns False if none is near."""
        # No node that is kept anywhere depends on it.
        lost = self.ram.victim(lambda node: self._is_free(node) and not node.children, among=LOOKS_AHEAD)
        if lost is None or lost[1] > worth:
            return False
        self.slabs.free(self.ram.evict(lost[0]))
        self._check(lost[0])
        return True

    def _begin_to_leave(self) -> bool:
        """Writes the next node, or gives it up if it cannot; returns False if others must be written first."""
        if not self.files.takes_more:
            return self._lose_one(float("inf"))
        next_out = self.ram.victim(self._is_free, among=LOOKS_AHEAD)
        if next_out is None or not self.can_write:
            return False
        return self.write(next_out[0]) or self._lose_one(float("inf"))

    def _make_disk_room(self, among: int | None = None) -> bool:
        victim = self.disk.victim(
            lambda node: self._is_free(node) and (node in self.ram or not node.children), among=among
        )
        if victim is None:
            return False
        self.files.remove(self._drop_file(victim[0], is_evicted=True))
        self._check(victim[0])
        return True

    def _is_writable(self, node: Node) -> bool:
        return node.piece.has_tokens and self.can_write

    def _write(self, node: Node, blob: Blob) -> bool:
        parent = node.parent
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
        transfer = self.files.write(header, blob.data, self._moves.ended)
        self._hold_file(node, transfer.file)
        self._moves.begin(node, blob, transfer)
        return True

    def _disk_room(self, node: Node, num_bytes: int) -> bool:
        if num_bytes > self.files.budget_bytes:
            return False
        # The nodes of its path must not leave to make room for it.
        path = path_of(node)
        for each in path:
            each.pins += 1
        while not (has_room := self.files.make_room(num_bytes)) and self.files.let_one_go(self):
            pass
        for each in path:
            each.pins -= 1
        return has_room

    def _arrived(self, transfer: Transfer) -> None:
        move = self._moves.end(transfer)
        node = move.node
        if node.is_gone:
            self.slabs.free(move.blob)
            return
        if transfer.is_read and transfer.succeeded:
            self.ram.put(node, move.blob)
        elif node not in self.ram:
            self.slabs.free(move.blob)
        if transfer.succeeded:
            node.piece = node.piece.bare()
        elif node in self.disk and not (transfer.is_read and transfer.outcome == "later"):
            self._lose_file(node)

    def _lose_file(self, node: Node) -> None:
        """Removes a node's unusable file; it is written again as soon as possible."""
        self.files.remove(self._drop_file(node))
        self._on_unwritten(node)
        self._check(node)

    def _is_free(self, node: Node) -> bool:
        """Returns whether no prompt waits for a node and its bytes are not being moved."""
        return not node.pins and node not in self._moves

    def _check(self, node: Node) -> None:
        if node not in self and not self._is_in_cells(node):
            self._on_lost(node)
