"""Cells of answers that lie scattered are put side by side again: attention on a processor takes half as long again.

llama.cpp gives each token the first cell that is free. So answers that are written together take cells in turn, and a
prompt takes the gaps that others left. Sixteen answers of 1,900 tokens took 157 ms a step and 133 when all were moved,
which took two steps' time; near gaps cost less, so two answers lose nothing. How long everybody's steps were by it is
summed up, and cells are moved when that comes to what moving takes: never more than twice the least of both (ski
rental).
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation.admission import Admission
from engine.generation.batching import Work
from engine.generation.groups import Groups
from engine.generation.residence import Residence
from engine.generation.rows import TILE_TOKENS

# Memory that cells go through; where all are more, some answers are moved at a time.
ROOM_BYTES = 128 * 2**20


class Gathering:
    """Moves cells of those who run; part of the step loop. `gap_seconds`: of `Context`."""

    def __init__(self, groups: Groups, residence: Residence, admission: Admission, gap_seconds: float) -> None:
        self._groups, self._residence, self._admission = groups, residence, admission
        self._gap_seconds = gap_seconds
        self._lost_seconds = self._known_cost_seconds = 0.0

    def note(self, batch: Sequence[Work]) -> None:
        """A batch was computed; tiles of tokens look at all cells anyhow."""
        tokens = [work.num_tokens + work.num_drafted for work in batch]
        if not self._gap_seconds or sum(tokens) >= TILE_TOKENS:
            return
        looks = sum(
            num * work.sequence.held.num_gaps
            for num, work in zip(tokens, batch, strict=True)
            if work.sequence.held is not None
        )
        self._lost_seconds += self._gap_seconds * looks

    def gather_if_due(self) -> None:
        """Moves cells if scattered ones have cost as much as that will take."""
        if self._lost_seconds <= self._known_cost_seconds or self._residence.disk_folder is not None:
            return
        self._known_cost_seconds = self._cost_seconds()
        if self._lost_seconds > self._known_cost_seconds:
            for group in self._residence.gather(self._groups.running, ROOM_BYTES):
                self._admission.take_back(group)
            self._lost_seconds = self._known_cost_seconds = 0.0
            for group in self._groups.running:
                for sequence in group.sequences:
                    if sequence.held is not None:
                        # What is left of them cannot be helped.
                        sequence.held.num_gaps = 0.0

    def _cost_seconds(self) -> float:
        num_bytes = min(ROOM_BYTES, sum(map(self._residence.own_bytes, self._groups.running)))
        return self._residence.rates.seconds(num_bytes)
