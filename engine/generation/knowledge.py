"""The keeper of KV: the knowledge tree over cells, RAM and disk, behind the interface of keeping.py.

A prompt's beginning is found as a path of nodes, pinned, and given to its sequence: shared if it is in cells, loaded if
it is in bytes. What had to be computed becomes nodes as soon as the prompt is read: in cells, where it costs nothing
while the sequence runs, otherwise in memory. Everything here runs on the generation thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile

from engine.errors import NoCells
from engine.generation.cache_files import CacheFiles
from engine.generation.cells import Cells, CellSequence
from engine.generation.context import Context
from engine.generation.cut_prompts import CutPrompts
from engine.generation.keeping import Found
from engine.generation.kept_bytes import KeptBytes
from engine.generation.kept_cells import KeptCells
from engine.generation.knowledge_figures import HitCounts, Home, KnowledgeFigures
from engine.generation.knowledge_tree import KnowledgeTree, Node, Piece, below
from engine.generation.prefill_profile import PrefillProfile
from engine.generation.replacement import Policy, pgdsf
from engine.generation.saving import Saving
from engine.generation.segment import Segment
from engine.generation.slabs import Slabs
from engine.generation.trail import KeptTrail
from engine.generation.whole_kept import WholeCells, WholePrompts
from engine.generation.write_back import WriteBack
from engine.memory.ledger import Ledger

# Cells are emptied to memory only if that has this many times the room of what is in them.
ROOM_TO_SPARE = 4
# The longest wait for the disk in total at the end of an answer, if its KV finds no other room.
WAITS_SECONDS = 1.0


class KnowledgeKeeper:
    """A `keeping.Keeper` of KV. Close it before its context; budgets are 0 until they are set."""

    def __init__(
        self,
        root: bytes,
        context: Context,
        cells: Cells,
        ledger: Ledger,
        files: CacheFiles,
        policy: Policy = pgdsf,
        passing_room_bytes: Callable[[], int] = lambda: 0,
        *,
        keeps_whole: bool = False,
    ) -> None:
        """Starts with what the files hold under `root` (fingerprint.py).

        `passing_room_bytes` returns how much memory nodes that pass through it may take now, whatever the budgets are.
        `keeps_whole`: sequences are kept and found as a whole only (whole_kept.py).
        """
        self.tree, self.keeps_whole = KnowledgeTree(root), keeps_whole
        self._cells = (WholeCells if keeps_whole else KeptCells)(context, cells, policy)
        self._slabs = Slabs(ledger)
        self._files = files
        self._bytes = KeptBytes(
            self.tree,
            self._slabs,
            files,
            policy,
            is_in_cells=self._cells.__contains__,
            on_lost=self._drop_if_lost,
            on_unwritten=lambda node: self._write_back.add(node),
            passing_room_bytes=passing_room_bytes,
        )
        self._saving = Saving(self._cells, self._bytes, files.now)
        self._write_back = WriteBack(self._bytes, files, policy, self._saving.save)
        self._prompts = WholePrompts(self.tree) if keeps_whole else CutPrompts()
        self._holds: dict[int, Found] = {}
        self._from_disk: set[Node] = set()
        self._profile = PrefillProfile()
        self._counts = HitCounts()

    def set_budgets(self, cells: int, ram_bytes: int) -> None:
        """Bounds tokens in cells and bytes in memory; the excess leaves. The bound of files is shared by all models."""
        self._slabs.budget_bytes = ram_bytes
        self._cells.budget_cells = cells
        self._catch_up()

    def fit(self) -> None:
        """Evicts what exceeds a bound by now, which others may have lowered."""
        self._catch_up()

    @property
    def has_room(self) -> bool:
        return self._cells.budget_cells > 0 or self._slabs.budget_bytes > 0 or self._files.budget_bytes > 0

    def peek(self, segments: Sequence[Segment]) -> int:
        path = self.tree.walk(self._prompts.pieces_of(segments))
        return path[-1].end if path else 0

    def trail(self) -> KeptTrail | None:
        """Returns the start of all kept prompts, to follow by segment; None if only whole sequences are kept."""
        return KeptTrail(self.tree.root, self._prompts.cut) if isinstance(self._prompts, CutPrompts) else None

    def find(self, segments: Sequence[Segment]) -> Found:
        self._catch_up()
        walked, path = self.tree.walk(self._prompts.pieces_of(segments)), list[Node]()
        # All at once, so that making room for one does not evict the next.
        for node in walked:
            node.pins += 1
        for node in walked:
            if node.is_gone or not (node in self._cells or self._fetch(node) or self._bytes.may_pass(node)):
                break
            path.append(node)
        for node in walked[len(path) :]:
            node.pins -= 1
        return self._held(path)

    def is_ready(self, found: Found) -> bool:
        self._bytes.collect()
        return not any(self._bytes.is_reading(node) for node in found.path)

    def read_by_now(self, found: Found) -> Found:
        if self._holds.pop(id(found), None) is None:
            return found
        path = list(takewhile(lambda node: not self._bytes.is_reading(node), found.path))
        for node in found.path[len(path) :]:
            node.pins -= 1
        return self._held(path)

    def restore(self, found: Found, sequence: CellSequence) -> int:
        self._catch_up()
        for node in found.path:
            try:
                if node.is_gone or not self._give(node, sequence):
                    break
            except NoCells:
                break
        return sequence.num_cells

    def keep(
        self,
        segments: Sequence[Segment],
        sequence: CellSequence,
        seconds: float,
        computed_tokens: int,
        *,
        can_wait: bool = True,
    ) -> None:
        self._catch_up()
        cached_tokens = sum(len(segment.tokens) for segment in segments) - computed_tokens
        self._profile.note(cached_tokens, computed_tokens, seconds)
        # No request should wait before its first token.
        ends_at = self._files.now() + (WAITS_SECONDS if can_wait and not computed_tokens else 0.0)
        node, path = self.tree.root, list[Node]()
        for piece in self._prompts.pieces_to_keep(segments, sequence.end, computed_tokens):
            if node.end + piece.num_tokens > sequence.end:
                break
            node = self._node_of(node, piece)
            node.pins += 1
            path.append(node)
            self._note_miss(node, cached_tokens, computed_tokens)
            if not self._take_in(node, sequence, ends_at):
                break
        for node in reversed(path):
            node.pins -= 1
            self._drop_if_lost(node)

    def hold(self, segments: Sequence[Segment], sequence: CellSequence) -> None:
        if self.keeps_whole:
            return
        self._catch_up()
        node = self.tree.root
        for piece in self._prompts.pieces_of(segments):
            if node.end + piece.num_tokens > sequence.end:
                return
            node = self._node_of(node, piece)
            if node not in self._cells and self._cells.has_room(node.num_tokens):
                with suppress(NoCells):
                    self._cells.hold(node, sequence)
            if node not in self._cells and node not in self._bytes:
                self._drop_if_lost(node)
                return

    def let_go(self, found: Found) -> None:
        if self._holds.pop(id(found), None) is not None:
            for node in found.path:
                node.pins -= 1
            self._catch_up()

    def free_cells(self, num_cells: int) -> int:
        before = self._cells.num_free
        while self._cells.num_free < before + num_cells and self._leave_cells(frees=True):
            pass
        return self._cells.num_free - before

    def free_slots(self, num_slots: int) -> int:
        before = self._cells.num_free_slots
        while self._cells.num_free_slots < before + num_slots and self._leave_cells():
            pass
        return self._cells.num_free_slots - before

    def spare_cells(self) -> None:
        if self._slabs.budget_bytes <= ROOM_TO_SPARE * self._cells.shelf.num_tokens * self._saving.cell_bytes:
            # Cells hold much of what can be kept at all.
            return
        for node in list(self._cells.shelf.nodes()):
            # Making room for another may have evicted this one.
            is_spare = node in self._cells and not node.pins and self._cells.frees_cells(node)
            if is_spare and (node in self._bytes or self._saving.save(node)):
                self._cells.release(node)

    def leave_cells(self, wait_seconds: float = 0.0) -> None:
        ends_at = self._files.now() + wait_seconds
        self._catch_up()
        for node in sorted(self._cells.shelf.nodes(), key=lambda node: node.start):
            # Making room for another may have evicted this one. A node that an answer wholly shares leaves along with
            # that answer.
            if node in self._cells and (
                node in self._bytes
                or self._saving.save(node)
                or (self._cells.frees_cells(node) and self._saving.save_by_waiting(node, None, ends_at))
            ):
                self._cells.release(node)
        for node in self._cells.shelf.nodes():
            self._cells.release(node)
            self._drop_if_lost(node)
        # The memory is needed for something else.
        while self._bytes.is_passing and self._saving.wait(ends_at):
            pass

    def move(self, context: Context, cells: Cells) -> None:
        """Continues with another context whose keys and values are the same; no node may be in cells now."""
        self._cells.move(context, cells)

    def forget(self, documents: Collection[int]) -> None:
        """Removes everything that holds text of the documents, and every path through it, in every tier."""
        for node in self.tree.holders(documents):
            if not node.is_gone:
                self._drop(node, remembers=False)
        self._files.forget(documents)

    def flush(self, limit: int | None = None) -> int:
        """Begins to write nodes that have no file yet, at most `limit`; returns how many.

        For idle times, in small portions, as long as it `is_behind`. A node that was written is not written again
        unless it was used since.
        """
        self._catch_up()
        return self._write_back.begin(limit)

    @property
    def is_behind(self) -> bool:
        """Whether `flush` has something to do, or something that it began is not done."""
        return self._write_back.is_behind or self._bytes.has_found_more

    def close(self, deadline_seconds: float = math.inf) -> None:
        """Writes what has no file yet and frees everything; a later keeper of the same root finds it.

        Args:
            deadline_seconds: The longest it may take; what was not written by then is not kept.
        """
        self._catch_up()
        for node in self._cells.shelf.nodes():
            # There may have been no room for it to pass through memory.
            if node not in self._bytes.disk:
                self._write_back.add(node)
        self._write_back.finish(deadline_seconds)
        self.abandon()

    def write_nothing(self) -> None:
        """Stops writing files, because what is in the cells may be wrong."""
        self._bytes.writes_nothing = True

    def abandon(self) -> None:
        """Frees everything without writing anything."""
        for found in list(self._holds.values()):
            self.let_go(found)
        self._bytes.close()
        for node in self._cells.shelf.nodes():
            self._cells.release(node)

    def figures(self) -> KnowledgeFigures:
        cells, ram, disk, tier = self._cells.shelf, self._bytes.ram, self._bytes.disk, self._counts.tier
        return KnowledgeFigures(
            tier("cells", len(cells), cells.num_tokens, round(cells.num_tokens * self._saving.cell_bytes)),
            tier("ram", len(ram), ram.num_tokens, self._slabs.used_bytes),
            tier("disk", len(disk), disk.num_tokens, self._bytes.disk_bytes),
            self._counts.computed_tokens,
            self._slabs.waste_bytes,
        )

    def _held(self, path: Sequence[Node]) -> Found:
        """Returns a path of pinned nodes as found, and remembers it until its pins are ended."""
        num_cells = sum(node.num_tokens for node in path if node not in self._cells)
        found = Found(path[-1].end if path else 0, num_cells, tuple(path))
        self._holds[id(found)] = found
        return found

    def _catch_up(self) -> None:
        """Takes in what the disk has done, and enforces budgets that pins had prevented."""
        self._bytes.collect()
        while self._cells.is_over and self._leave_cells():
            pass
        self._bytes.fit()
        self._bytes.write_behind()
        self._saving.save_behind()

    def _fetch(self, node: Node) -> bool:
        is_far = node not in self._bytes.ram
        is_coming = self._bytes.fetch(node)
        if is_coming and is_far:
            self._from_disk.add(node)
        return is_coming

    def _give(self, node: Node, sequence: CellSequence) -> bool:
        home: Home = "cells"
        if node in self._cells:
            self._cells.lend(node, sequence)
        else:
            home = "disk" if node in self._from_disk or node not in self._bytes.ram else "ram"
            is_given = self._load(node, sequence)
            if is_given is False:
                self._drop(node)
            if not is_given:
                return False
        self._from_disk.discard(node)
        self._counts.by_home[home] += node.num_tokens
        self._use(node)
        return True

    def _load(self, node: Node, sequence: CellSequence) -> bool | None:
        """Continues a sequence with a node; returns False if its bytes do not fit, None if there are none."""
        is_held = self._make_cell_room(node)
        if node in self._bytes.ram:
            return self._cells.load(node, self._bytes.ram[node].data, sequence, is_held)
        if node in self._bytes.disk:
            return self._bytes.read_passing(node, lambda state: self._cells.load(node, state, sequence, is_held))
        return None

    def _take_in(self, node: Node, sequence: CellSequence, ends_at: float) -> bool:
        """Keeps a node that `sequence` holds; returns False if there is no room for it anywhere by `ends_at`."""
        try:
            if node not in self._cells and self._make_cell_room(node):
                self._cells.hold(node, sequence)
            return (
                node in self._cells
                or node in self._bytes
                or self._saving.save(node, sequence)
                or self._saving.save_by_waiting(node, sequence, ends_at)
            )
        except NoCells:
            return node in self._bytes

    def _note_miss(self, node: Node, cached_tokens: int, computed_tokens: int) -> None:
        """Notes the cost of a node that was computed, unless it was found or was in use before."""
        if node.start >= cached_tokens:
            self._counts.computed_tokens += node.num_tokens
            self.tree.missed(node, self._profile.seconds(cached_tokens, computed_tokens) / computed_tokens)
        elif node.last_used:
            return
        else:
            # The request that computed it reported no cost, so this is what it would cost alone.
            self.tree.missed(node, self._profile.seconds(node.start, node.num_tokens) / node.num_tokens)
        self._use(node)

    def _node_of(self, parent: Node, piece: Piece) -> Node:
        """Returns the node of a piece; a node without a file gets its tokens, which only a prompt provides."""
        node = self.tree.add(parent, piece)
        if node not in self._bytes.disk and not node.piece.has_tokens:
            node.piece = replace(piece, documents=node.piece.documents)
        return node

    def _use(self, node: Node) -> None:
        self.tree.used(node)
        self._write_back.add(node)
        self._cells.shelf.touch(node)
        self._bytes.touch(node)

    def _make_cell_room(self, node: Node) -> bool:
        """Evicts others from cells if need be; returns whether the node fits into them now."""
        if node.num_tokens > self._cells.budget_cells:
            return False
        while not (has_room := self._cells.has_room(node.num_tokens)):
            if not self._leave_cells():
                break
        return has_room

    def _leave_cells(self, frees: bool = False) -> bool:
        """Evicts the next node (whose leaving `frees` cells), saved if possible; returns False if none can leave."""
        victim = self._cells.shelf.victim(
            lambda node: not node.pins and (not frees or self._cells.frees_cells(node)),
        )
        if victim is None:
            return False
        node = victim[0]
        if node not in self._bytes:
            self._saving.save(node)
        # Making room for it may have evicted the node itself.
        if node in self._cells:
            self._cells.evict(node)
            self._drop_if_lost(node)
        return True

    def _drop_if_lost(self, node: Node) -> None:
        """Removes a node without any copy from the tree; it keeps its place if descendants have files."""
        if node.is_gone or node in self._cells or node in self._bytes:
            return
        node.is_missing = self._leads_to_files(node)
        if not node.is_missing:
            self._drop(node)

    def _leads_to_files(self, node: Node) -> bool:
        return any(each in self._bytes.disk for each in below(node))

    def _drop(self, node: Node, remembers: bool = True) -> None:
        """Removes a node and every path through it from every tier, and missing parents that had led only to these."""
        dropped: Node | None = node
        while dropped is not None:
            for gone in self.tree.remove(dropped, remembers):
                self._cells.release(gone)
                self._bytes.remove(gone)
                self._from_disk.discard(gone)
                self._write_back.discard(gone)
            parent = dropped.parent
            is_over = parent is not None and parent.is_missing and not self._leads_to_files(parent)
            dropped = parent if is_over else None
