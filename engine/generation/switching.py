"""Switching: brings a model into memory, makes others leave as far as needed, and counts and publishes the result.

Whose turn it is has been decided before (time_slices.py); a switch ends only when the last layer is in memory, and the
first steps of a turn may wait for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import NotStreamable
from engine.events import ModelSwitched, Publish
from engine.generation.member import Member
from engine.generation.model_eviction import ModelEviction

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A switch that has not ended, because the first steps may still wait for layers."""

    member: Member
    left: str
    out_seconds: float
    in_seconds: float
    moved_bytes: int
    waited_before: float

    @property
    def is_over(self) -> bool:
        """Whether all layers are in memory."""
        loaded = self.member.loaded
        return loaded is None or loaded.stream is None or loaded.stream.is_whole


@dataclass(slots=True)
class Figures:
    """Totals of switching since the engine began."""

    num_switches: int = 0
    out_seconds: float = 0.0
    in_seconds: float = 0.0
    moved_bytes: int = 0


class Switching:
    """Switches models; on the generation thread."""

    def __init__(self, eviction: ModelEviction, publish: Publish, clock: Callable[[], float]) -> None:
        """Starts without a switch.

        Args:
            eviction: Makes others leave memory.
            publish: Where events go.
            clock: A monotonic clock in seconds.
        """
        self._eviction, self._publish, self._clock = eviction, publish, clock
        self.figures = Figures()

    def bring_in(self, member: Member, left: Member | None = None) -> Arrival | None:
        """Brings a model into memory, and moves out as much of the others as needed.

        Args:
            member: A member with a model to load, or a loaded one.
            left: The member whose turn has ended.

        Returns:
            The argument for `note_arrived`; None if the model was newly loaded, which is not a switch.

        Raises:
            RagdollError: It cannot be brought into memory.
        """
        loader, instance = member.loader, member.instance
        if instance is None:
            assert loader.wanted is not None, "a model was to be loaded where answers are quotes"
            self._eviction.load(member, loader.wanted, loader.wanted_layers)
            return None
        since = self._clock()
        moved_bytes = member.missing_bytes
        self._eviction.for_return_of(member)
        out_seconds = self._clock() - since
        stream = instance.loaded.stream
        waited_before = stream.counters().waited_seconds if stream is not None else 0.0
        try:
            instance.come_back()
        except NotStreamable as error:
            log.warning("a model is loaded anew: %s", error.sentence)
            instance.fold(closes_weights=True)
            instance.come_back()
        in_seconds = self._clock() - since - out_seconds
        return Arrival(
            member, left.path if left is not None else "", out_seconds, in_seconds, moved_bytes, waited_before
        )

    def note_arrived(self, arrival: Arrival) -> None:
        """Counts and publishes a switch that has ended, or whose model has to leave before that."""
        member = arrival.member
        if member.loaded is None:
            return
        stream = member.loaded.stream
        waited = stream.counters().waited_seconds - arrival.waited_before if stream is not None else 0.0
        in_seconds = arrival.in_seconds + max(0.0, waited)
        member.note_switch(arrival.out_seconds + in_seconds)
        self.figures.num_switches += 1
        self.figures.out_seconds += arrival.out_seconds
        self.figures.in_seconds += in_seconds
        self.figures.moved_bytes += arrival.moved_bytes
        name = member.loaded.shape.name
        self._publish(
            ModelSwitched(member.path, name, arrival.left, arrival.out_seconds, in_seconds, arrival.moved_bytes)
        )
