"""Model eviction: decides which models leave memory for the one whose turn it is, and how much of each.

Only as much leaves as is needed. First, models that were not asked recently: their context, then their weights. Then
weights of the models that had their turn last, because they wait longest for the next; finally contexts of models with
answers under way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from engine.errors import ModelError, NotStreamable
from engine.generation.member import Member
from engine.memory.placement import Placement

log = logging.getLogger(__name__)

# A model that was asked more recently than this may soon be asked again, so its weights leave before its context.
RECENT_SECONDS = 10.0
# Measured buffer sizes fluctuate; nothing is moved for a difference of this size.
SLACK_BYTES = 1 << 20


class ModelEviction:
    """Moves models out of memory for others; on the generation thread."""

    def __init__(
        self,
        members: Iterable[Member],
        dismiss: Callable[[Member], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Moves nothing yet.

        Args:
            members: All models of the pool.
            dismiss: Frees a model with nothing under way, which the next question loads again.
            clock: A monotonic clock in seconds.
        """
        self._members, self._dismiss, self._clock = members, dismiss, clock

    def load(self, member: Member, path: Path, n_gpu_layers: int | None) -> None:
        """Loads a model alongside the others if all fit; otherwise they take turns from now on.

        Raises:
            ModelError: It cannot be loaded.
        """
        member.loader.begin()
        if not self.has_room_for(member, path, n_gpu_layers):
            with suppress(ModelError):
                self._have_turns(member, self._beside(member), path, n_gpu_layers)
        member.loader.load(path, n_gpu_layers)

    def has_room_for(self, member: Member, path: Path, n_gpu_layers: int | None) -> bool:
        """Returns whether a model can be loaded without any other one leaving; memory is planned for it from now on."""
        beside = self._beside(member)
        member.loader.planner.takes_turns = any(one.loader.planner.takes_turns for one in beside)
        for one in beside:
            one.enter(is_planned_for=False)
        member.enter(is_planned_for=True)
        if any(not one.is_in_memory for one in beside):
            return False
        # If the file cannot be read, loading it fails and reports that.
        with suppress(ModelError):
            return not beside or self._fits_beside(member, beside, path, n_gpu_layers)
        return True

    def for_return_of(self, member: Member) -> None:
        """Makes others leave until there is room for a returning model."""
        # All others compete with it.
        for one in self._members:
            one.enter(is_planned_for=one is member)
        beside, needed_bytes = self._beside(member), member.needed_bytes - SLACK_BYTES
        if member.uses_device:
            for one in beside:
                if one.uses_device:
                    self._fold(one)
        for one in _by_use(beside):
            is_idle = not one.wants_turn and self._clock() - one.asked_at > RECENT_SECONDS
            if is_idle and member.room_bytes < needed_bytes:
                # Recreating a context takes less time than reading weights of the same size.
                self._fold(one, keeps_weights=True)
            if (lacking := needed_bytes - member.room_bytes) <= 0:
                return
            self._leave(one, lacking + SLACK_BYTES)
        for one in _by_use(beside):
            if member.room_bytes >= needed_bytes:
                return
            self._fold(one)

    def instead_of(self, member: Member, placement: Placement) -> bool:
        """Makes others leave memory so that a model fits completely; returns whether any have left."""
        beside = [one for one in self._beside(member) if one.is_in_memory]
        if not beside or is_whole(placement):
            return False
        member.loader.planner.takes_turns = True
        for one in beside:
            one.loader.planner.takes_turns = True
            self._leave(one, one.removable_bytes)
        return True

    def for_more_cells(self, member: Member, num_cells: int) -> None:
        """Makes models that no request waits for leave, until a model has room for `num_cells` without concessions."""
        for one in _by_use(self._beside(member)):
            if one.wants_turn or member.instance is None:
                return
            placement = member.instance.placement_with(num_cells)
            if is_whole(placement) and placement.num_cells >= num_cells:
                return
            if not one.is_folded:
                self._fold(one)
            if one.loaded is not None:
                member.loader.planner.takes_turns = one.loader.planner.takes_turns = True

    def for_others(self, principal: Member) -> None:
        """Makes weights of waiting models leave if anything else needs their room."""
        for one in self._members:
            # This includes models of which only the context has left.
            if not one.is_in_memory and one.removable_bytes:
                # A returning model fills its room completely, by plan, so a small deficit is normal.
                lacking = -principal.room_bytes - principal.loader.planner.headroom_bytes() // 2
                if lacking > 0:
                    self._leave(one, lacking)

    def _fits_beside(self, member: Member, beside: list[Member], path: Path, n_gpu_layers: int | None) -> bool:
        """Returns whether a model fits completely alongside the others, including on a card that they share."""
        placement = member.loader.planner.plan(path, n_gpu_layers).placement
        shares_card = any(one.uses_device for one in beside)
        return is_whole(placement) and not (shares_card and placement.layers_on_gpu < placement.num_layers)

    def _have_turns(self, member: Member, beside: list[Member], path: Path, n_gpu_layers: int | None) -> None:
        """Makes the weights of all other models leave memory, and their contexts as far as that helps."""
        member.loader.planner.takes_turns = True
        for one in beside:
            one.loader.planner.takes_turns = True
            self._leave(one, one.removable_bytes)
        for one in _by_use(beside):
            if is_whole(member.loader.planner.plan(path, n_gpu_layers).placement):
                return
            self._fold(one)

    def _beside(self, member: Member) -> list[Member]:
        return [one for one in self._members if one is not member and one.loaded is not None]

    def _leave(self, member: Member, num_bytes: int) -> None:
        """Makes weights leave memory; if they cannot, the whole model is closed while it waits."""
        instance = member.instance
        if instance is not None and member.removable_bytes:
            try:
                instance.leave(num_bytes)
            except NotStreamable as error:
                if not member.loader.is_closing:
                    log.warning("a model is closed: %s", error.sentence)
                instance.fold(closes_weights=True)
        elif not member.is_away:
            self._fold(member)
        member.enter(is_planned_for=False)

    def _fold(self, member: Member, *, keeps_weights: bool = False) -> None:
        """Makes the context leave memory; if weights can leave, the file stays mapped and the vocabulary loaded."""
        instance = member.instance
        if instance is not None and (member.wants_turn or member.is_away or member.removable_bytes):
            instance.fold(keeps_what_was_read=member.wants_turn, keeps_weights=keeps_weights)
            member.enter(is_planned_for=False)
        else:
            self._dismiss(member)


def _by_use(members: list[Member]) -> list[Member]:
    """Sorts models for eviction: first those that no request waits for, the longest unasked first.

    The others follow, the one that had its turn last first, because it waits longest for the next one.
    """
    return sorted(members, key=lambda one: (one.wants_turn, -one.since if one.wants_turn else one.asked_at))


def is_whole(placement: Placement) -> bool:
    """Returns whether all of a model fits into memory without concessions; taking turns is none."""
    return placement.fits and not (placement.streamed_layers or placement.is_mapped or placement.num_concessions)
