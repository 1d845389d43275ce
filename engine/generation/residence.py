"""Moves sequences into cells and out again: what `Cells` counts and what llama.cpp holds change together.

A preempted request saves only what no other has: the beginning that the keeper also holds is found there again.
Sequences of a model that cannot share prefixes are moved whole.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.errors import NoCells
from engine.generation.cells import Cells, CellSequence
from engine.generation.context import Context
from engine.generation.groups import SequenceGroup
from engine.generation.keeping import Found, Keeper, KeepsNothing
from engine.generation.preemption import Part, SwapRates
from engine.generation.sequence import SavedPart, TokenSequence
from engine.generation.spilling import on_disk

log = logging.getLogger(__name__)
# Below this size, fixed costs dominate, and the time says nothing about the rate per byte.
_TELLING_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class OverDisk:
    """Saving into files of a folder, through `passing_bytes` of memory at a time if the data can be cut."""

    folder: Path
    passing_bytes: int


class Residence:
    """Moves sequences of one context; owned by the generation thread."""

    def __init__(self, context: Context, cells: Cells, keeper: Keeper, clock: Callable[[], float]) -> None:
        self._context, self._cells, self._keeper, self._clock = context, cells, keeper, clock
        self.can_share = context.model.can_share_prefixes
        self.keeps = (self.can_share or keeper.keeps_whole) and not isinstance(keeper, KeepsNothing)
        self.rates = SwapRates()
        # The folder for saved KV; None while it may stay in memory.
        self.disk_folder: Path | None = None
        self.saved_bytes = self.spilled_bytes = 0

    def take_over(self, before: Residence) -> None:
        """Takes over what another context's residence has saved outside of its cells."""
        self.rates, self.disk_folder = before.rates, before.disk_folder
        self.saved_bytes, self.spilled_bytes = before.saved_bytes, before.spilled_bytes

    def settle(self, group: SequenceGroup, before: TokenSequence | None = None) -> int:
        """Gives a request cells, with its kept and saved KV; returns how many tokens were kept.

        Args:
            group: A request without cells.
            before: A sequence in cells that it continues; what is not kept of that is shared.

        Raises:
            NoCells: All sequence numbers are taken; nothing has changed.
        """
        lead = group.lead
        lead.held = self._cells.open()
        found = self._usable(group)
        kept = self._keeper.restore(found, lead.held) if found and found.num_tokens else 0
        if before is not None and before.num_computed > kept and self.can_share:
            self._share_behind(before, lead)
            kept = lead.num_computed
        if not (group.is_swapped and self._try_load(group)):
            for sequence in group.sequences:
                if sequence is not lead:
                    self.release(sequence)
            group.has_forked = False
            self.trim(lead, kept)
        if len(group.sequences) > 1 and not group.has_forked:
            # They fork after a computed token, even if all that they share is kept and nothing had to be saved.
            self.trim(lead, group.shared_length - 1)
        self.forget_saved(group)
        # The last token is always computed again, because its logits are needed.
        self.trim(lead, len(lead.tokens) - 1)
        return min(kept, lead.num_computed)

    def _usable(self, group: SequenceGroup) -> Found | None:
        """Returns what was found of a group, up to a position from which it can continue.

        The last token has to be computed again. With a sliding window, it may attend to a token outside of the window
        that was saved with its node, so all of the last node is computed.
        """
        found = group.found
        if group.is_swapped and not self.can_share:
            # The whole sequence was saved, and has to be loaded into an empty one.
            return None
        if found is not None and self._has_window and found.num_tokens >= len(group.lead.tokens):
            return replace(found, path=found.path[:-1])
        return found

    @property
    def _has_window(self) -> bool:
        return self._context.window_tokens > 0

    def leave(self, group: SequenceGroup) -> None:
        """Takes all cells from a request."""
        for sequence in group.sequences:
            self.release(sequence)

    def release(self, sequence: TokenSequence) -> None:
        if sequence.held is not None:
            self.close(sequence.held)
            sequence.held = None

    def close(self, held: CellSequence) -> None:
        self._context.remove(held.slot)
        self._cells.close(held)

    def trim(self, sequence: TokenSequence, end: int) -> None:
        """Removes what was computed from position `end` on; everything, if the model cannot rewind."""
        if sequence.held is not None and sequence.held.end > end:
            self._forget_from(sequence.held, end)

    def roll_back(self, sequence: TokenSequence) -> None:
        """Removes what a failed batch left in cells after the last counted position."""
        if sequence.held is not None:
            self._forget_from(sequence.held, sequence.held.end)

    def fork(self, lead: TokenSequence, sequence: TokenSequence, end: int) -> None:
        """Makes `sequence` share what `lead` holds up to the position `end`.

        Raises:
            NoCells: All sequence numbers are taken.
        """
        if lead.held is None:
            raise ValueError("the sequence that others are to share cells with has none")
        sequence.held = self._cells.open()
        self._cells.share(lead.held, sequence.held, 0, end)
        self._context.copy(lead.held.slot, sequence.held.slot, 0, end if self.can_share else -1)

    def _share_behind(self, source: TokenSequence, target: TokenSequence) -> None:
        """Makes `target` also share what `source` holds beyond the end of `target`."""
        if source.held is not None and target.held is not None:
            start, end = target.held.end, source.held.end
            self._cells.share(source.held, target.held, start, end)
            self._context.copy(source.held.slot, target.held.slot, start, end)

    def parts(self, group: SequenceGroup, kept: int | None = None) -> list[Part]:
        """Returns what would have to be saved of a leaving request, or computed again; `kept` as in `save`."""
        bytes_per_cell, own = self._bytes_per_cell(group), self._own(group, kept)
        return [Part(start, end - start, int((end - start) * bytes_per_cell)) for _, start, end in own]

    @property
    def can_cut(self) -> bool:
        """Whether the KV of a request can be saved piece by piece."""
        return self.can_share and not self._has_window

    def save(self, group: SequenceGroup, kept: int | None = None, way: OverDisk | None = None) -> bool:
        """Copies what only this request holds out of the cells; returns False if that failed and nothing is saved.

        Args:
            group: The request that leaves.
            kept: The position up to which it will be found again; None for all that it shares with others.
            way: How to save it if memory has no room for all of it.
        """
        if self._has_window and self.can_share and group.has_forked:
            # The lead no longer holds the position that others would fork from, but only its own window.
            return False
        since = self._clock()
        for sequence, start, end in list(self._cut(self._own(group, kept), self._bytes_per_cell(group), way)):
            part = self._save(sequence, start, end)
            if part is None:
                self.forget_saved(group)
                return False
            sequence.saved.append(part)
            self.saved_bytes += part.num_bytes
            # Spilled before the next piece, which needs the same memory.
            if way is not None and not self.spill(group, way.folder):
                return False
        group.is_swapped = True
        if way is not None:
            return True
        num_bytes = sum(part.num_bytes for sequence in group.sequences for part in sequence.saved)
        self.rates = self.rates.with_save(num_bytes, self._clock() - since)
        return self.disk_folder is None or self.spill(group, self.disk_folder)

    def _cut(
        self, owned: Iterator[tuple[TokenSequence, int, int]], bytes_per_cell: float, way: OverDisk | None
    ) -> Iterator[tuple[TokenSequence, int, int]]:
        """Cuts the positions into pieces that fit into the memory of `way`."""
        if way is None or not self.can_cut:
            yield from owned
            return
        most_tokens = max(1, math.ceil(way.passing_bytes / max(1.0, bytes_per_cell)))
        for sequence, start, end in owned:
            for place in range(start, end, most_tokens):
                yield sequence, place, min(place + most_tokens, end)

    def spill(self, group: SequenceGroup, folder: Path) -> bool:
        """Moves the saved KV of a request from memory to disk; if the disk has no room, it is dropped."""
        try:
            for sequence in group.sequences:
                for number, part in enumerate(sequence.saved):
                    if not part.is_on_disk:
                        sequence.saved[number] = replace(part, state=on_disk(part.state, folder), is_on_disk=True)
                        self.saved_bytes -= part.num_bytes
                        self.spilled_bytes += part.num_bytes
        except OSError as error:
            log.warning("an answer that waits is read again, because it cannot be kept on the disk: %s", error)
            self.forget_saved(group)
            return False
        return True

    def gather(self, groups: Sequence[SequenceGroup]) -> list[SequenceGroup]:
        """Makes the cells of each single answer contiguous; all of them pass through memory at once.

        Returns:
            Groups whose cells could not be written again; they have to leave.
        """
        since, moved = self._clock(), list[tuple[TokenSequence, SavedPart, SequenceGroup]]()
        for group in groups:
            part = self._take_out(group)
            if part is not None:
                moved.append((group.lead, part, group))
        out = self._clock()
        lost = [group for sequence, part, group in moved if not self._put_back(sequence, part)]
        num_bytes = sum(part.num_bytes for _, part, _ in moved)
        if num_bytes >= _TELLING_BYTES:
            self.rates = self.rates.with_save(num_bytes, out - since).with_load(num_bytes, self._clock() - out)
        return lost

    def forget(self, group: SequenceGroup) -> None:
        """Drops all KV of a request, in cells and saved."""
        self.leave(group)
        self.forget_saved(group)

    def own_bytes(self, group: SequenceGroup) -> int:
        """Returns the bytes that `gather` moves of a request; 0 if its answers share cells with each other."""
        return sum(part.num_bytes for part in self.parts(group)) if self._is_alone(group) else 0

    def _is_alone(self, group: SequenceGroup) -> bool:
        return len(group.sequences) == 1 and group.lead.held is not None

    def _take_out(self, group: SequenceGroup) -> SavedPart | None:
        if not self.own_bytes(group):
            return None
        ((sequence, start, end),) = self._own(group, None)
        # Others may hold some of its cells beyond a gap; copies of these would take cells twice.
        if sequence.held is None or self._cells.num_private(sequence.held) < end - start:
            return None
        part = self._save(sequence, start, end)
        if part is not None:
            self.trim(sequence, start)
        return part

    def _put_back(self, sequence: TokenSequence, part: SavedPart) -> bool:
        try:
            return self._load(sequence, part)
        except NoCells:
            return False

    def _forget_from(self, held: CellSequence, end: int) -> None:
        if not (self._context.remove(held.slot, end) and (end <= 0 or self._context.has_window(held.slot, end))):
            self._context.remove(held.slot)
            end, held.is_patchy = 0, False
        self._cells.trim(held, end)

    def _own(self, group: SequenceGroup, kept: int | None) -> Iterator[tuple[TokenSequence, int, int]]:
        """Yields sequences with the positions that only they hold; what they share counts once, for the lead."""
        held = [sequence.held for sequence in group.live if sequence.held is not None]
        shared = self._cells.shared_end([cells for cells in held if cells.cells]) if held and held[0].cells else 0
        shared = shared if kept is None else kept
        behind = group.shared_length
        for sequence in group.live:
            own_start = shared if sequence is group.lead else behind
            start = own_start if self.can_share else 0
            if sequence.num_computed > start:
                yield sequence, start, sequence.num_computed

    def _bytes_per_cell(self, group: SequenceGroup) -> float:
        held = group.lead.held
        return self._context.state_bytes(held.slot) / max(1, held.num_cells) if held else 0.0

    def _save(self, sequence: TokenSequence, start: int, end: int) -> SavedPart | None:
        held = sequence.held
        if held is None:
            return None
        if start == 0 and end == held.end:
            return self._save_slot(held.slot, start, end)
        try:
            scratch = self._cells.open(start)
        except NoCells:
            return None
        self._context.copy(held.slot, scratch.slot, start, end)
        part = self._save_slot(scratch.slot, start, end)
        self.close(scratch)
        return part

    def _save_slot(self, slot: int, start: int, end: int) -> SavedPart | None:
        try:
            state = np.empty(self._context.state_bytes(slot), np.uint8)
        except MemoryError:
            return None
        written = self._context.save(slot, state)
        return SavedPart(start, end, state[:written]) if written else None

    def _try_load(self, group: SequenceGroup) -> bool:
        try:
            return self._load_all(group)
        except NoCells:
            return False

    def _load_all(self, group: SequenceGroup) -> bool:
        """Loads everything that was saved into cells; returns whether that succeeded."""
        since, lead = self._clock(), group.lead
        if not all(self._load(lead, part) for part in lead.saved):
            return False
        if group.has_forked and not self._load_beside(group, lead):
            return False
        saved = [part for sequence in group.sequences for part in sequence.saved]
        # Loading from disk says nothing about the rate of memory.
        if not any(part.is_on_disk for part in saved):
            self.rates = self.rates.with_load(sum(part.num_bytes for part in saved), self._clock() - since)
        return True

    def _load_beside(self, group: SequenceGroup, lead: TokenSequence) -> bool:
        shared = group.shared_length
        for sequence in group.live:
            if sequence is lead:
                continue
            if self.can_share and lead.num_computed < shared:
                return False
            if self.can_share:
                self.fork(lead, sequence, shared)
            else:
                sequence.held = self._cells.open()
            if not all(self._load(sequence, part) for part in sequence.saved):
                return False
        return True

    def _load(self, sequence: TokenSequence, part: SavedPart) -> bool:
        held = sequence.held
        if held is None or held.end < part.start or part.end - held.end > self._cells.num_free:
            return False
        if held.end == 0:
            return self._load_slot(held, part)
        return held.end >= part.end or self._load_behind(held, part)

    def _load_behind(self, held: CellSequence, part: SavedPart) -> bool:
        """Loads a part that does not begin at 0 into its own sequence, then shares it: loading replaces a sequence."""
        scratch = self._cells.open(part.start)
        is_loaded = part.end - part.start <= self._cells.num_free and self._load_slot(scratch, part)
        if is_loaded:
            start = held.end
            self._cells.share(scratch, held, start, part.end)
            self._context.copy(scratch.slot, held.slot, start, part.end)
        self.close(scratch)
        return is_loaded

    def _load_slot(self, held: CellSequence, part: SavedPart) -> bool:
        if not self._context.load(part.state, held.slot):
            return False
        self._cells.grow(held, part.end - part.start)
        held.is_patchy = self._has_window
        return True

    def forget_saved(self, group: SequenceGroup) -> None:
        """Drops the saved KV of a request."""
        for sequence in group.sequences:
            for part in sequence.saved:
                self.saved_bytes -= 0 if part.is_on_disk else part.num_bytes
                self.spilled_bytes -= part.num_bytes if part.is_on_disk else 0
            sequence.saved.clear()
        group.is_swapped = False
