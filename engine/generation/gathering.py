"""Defragments the cells of answers: with scattered cells, attention on a processor takes half as long again.

llama.cpp gives each token the first free cell. So answers that are written together take cells in turn, and a prompt
fills the gaps that others left. Sixteen answers of 1,900 tokens took 157 ms a step, and 133 when all had been moved,
which took two steps' time; short gaps cost less, so two answers lose nothing. The time that steps lose is summed up,
and cells are moved once that reaches the time of moving: the total is never more than twice the optimum (ski rental).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.generation.admission import Admission
from engine.generation.batching import Work
from engine.generation.groups import Groups, SequenceGroup
from engine.generation.residence import Residence
from engine.generation.rows import TILE_TOKENS
from engine.memory.hardware import probe
from engine.memory.room import headroom_bytes

# The most memory that cells pass through. All are moved or none: a single one of sixteen interleaved answers would get
# back the cells that it left.
MOST_BYTES = 128 * 2**20
# Per answer that is moved, however short.
SECONDS_EACH = 0.001


def room_to_move() -> int:
    """Returns how much memory is free beyond what is left to others; takes half a millisecond."""
    hardware = probe(Path.home())
    return min(MOST_BYTES, hardware.ram_free_bytes - headroom_bytes(hardware))


class Gathering:
    """Moves cells of running groups; part of the step loop. `gap_seconds` is `Context`'s."""

    def __init__(
        self,
        groups: Groups,
        residence: Residence,
        admission: Admission,
        gap_seconds: float,
        room_bytes: Callable[[], int] = room_to_move,
    ) -> None:
        self._groups, self._residence, self._admission = groups, residence, admission
        self._gap_seconds, self._room_bytes = gap_seconds, room_bytes
        self._lost_seconds = self._known_cost_seconds = 0.0

    def note(self, batch: Sequence[Work]) -> None:
        """Notes the time that a batch lost; large ones lose none, since tiles of tokens attend to all cells anyway."""
        tokens = [work.num_tokens + work.num_drafted for work in batch]
        if not self._gap_seconds or sum(tokens) >= TILE_TOKENS:
            return
        pairs = zip(tokens, batch, strict=True)
        looks = sum(num * _num_gaps(work.group) for num, work in pairs if work.sequence.is_live)
        self._lost_seconds += self._gap_seconds * looks

    def gather_if_due(self) -> None:
        """Moves cells if scattered ones have cost as much time as moving takes."""
        if not self._groups.running:
            self._restart()
        if self._lost_seconds <= self._known_cost_seconds or self._residence.disk_folder is not None:
            return
        num_bytes = [self._residence.own_bytes(group) for group in self._groups.running]
        self._known_cost_seconds = self._residence.rates.seconds(sum(num_bytes)) + SECONDS_EACH * len(num_bytes)
        if self._lost_seconds > self._known_cost_seconds:
            if sum(num_bytes) <= self._room_bytes():
                self._gather()
            self._restart()

    def _gather(self) -> None:
        for group in self._residence.gather(self._groups.running):
            self._admission.take_back(group)
        for group in self._groups.running:
            if group.lead.held is not None:
                # The remaining gaps cannot be avoided.
                group.lead.held.num_gaps = 0.0

    def _restart(self) -> None:
        self._lost_seconds = self._known_cost_seconds = 0.0


def _num_gaps(group: SequenceGroup) -> float:
    """Returns the gaps that moving could close; answers that share cells with each other stay where they are."""
    held = group.lead.held
    return held.num_gaps if len(group.sequences) == 1 and held is not None else 0.0
