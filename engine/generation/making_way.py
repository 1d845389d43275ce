"""Making way: which models leave memory for the one whose turn it is, and how far.

No more leaves than is needed: weights first, of whoever had its turn last and so waits longest for the next; then
contexts, of whom nobody asks anything before those with answers under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from engine.errors import NotStreamable
from engine.generation.load_plan import LoadPlan
from engine.generation.member import Member

log = logging.getLogger(__name__)


class MakingWay:
    """On the generation thread."""

    def __init__(self, members: Callable[[], Iterable[Member]], dismiss: Callable[[Member], None]) -> None:
        """Prepares.

        Args:
            members: All models of the pool.
            dismiss: Frees a model with nothing under way, which the next question loads again.
        """
        self._members, self._dismiss = members, dismiss

    def load(self, member: Member, path: Path, n_gpu_layers: int | None) -> None:
        """Loads a model beside the others where all fit; else they take turns from now on.

        Raises:
            ModelError: It cannot be loaded.
        """
        beside = self._beside(member)
        member.loader.takes_turns = any(one.loader.takes_turns for one in beside)
        for one in beside:
            one.enter(is_planned_for=False)
        member.enter(is_planned_for=True)
        is_crowded = any(not one.is_in_memory for one in beside)
        if beside and (is_crowded or not _is_whole(member.loader.plan(path, n_gpu_layers))):
            self._have_turns(member, beside, path, n_gpu_layers)
        member.loader.load(path, n_gpu_layers)

    def for_return_of(self, member: Member) -> None:
        """Has others leave until there is room for a model that comes back."""
        beside, needed_bytes = self._beside(member), member.needed_bytes
        if member.uses_device:
            for one in beside:
                if one.uses_device:
                    self._fold(one)
        for one in sorted(beside, key=lambda one: -one.since):
            if (lacking := needed_bytes - member.loader.room_bytes) <= 0:
                return
            self._leave(one, lacking)
        for one in _by_use(beside):
            if member.loader.room_bytes >= needed_bytes:
                return
            self._fold(one)

    def for_others(self, principal: Member) -> None:
        """Weights of models that wait leave where their room is wanted by anything else."""
        spare = [one for one in self._members() if one.loader.standby.is_away and one.removable_bytes]
        if spare and principal.loader.room_bytes < 0:
            for one in spare:
                self._leave(one, one.removable_bytes)

    def _have_turns(self, member: Member, beside: list[Member], path: Path, n_gpu_layers: int | None) -> None:
        """All weights but those of the model that comes leave memory, and contexts as far as it helps."""
        member.loader.takes_turns = True
        for one in beside:
            one.loader.takes_turns = True
            self._leave(one, one.removable_bytes)
        for one in _by_use(beside):
            if _is_whole(member.loader.plan(path, n_gpu_layers)):
                return
            self._fold(one)

    def _beside(self, member: Member) -> list[Member]:
        return [one for one in self._members() if one is not member and one.loaded is not None]

    def _leave(self, member: Member, num_bytes: int) -> None:
        """Weights leave memory; where they cannot, the whole model is closed for as long as it waits."""
        try:
            if member.removable_bytes:
                member.loader.leave(num_bytes)
            elif not member.loader.standby.is_away:
                self._fold(member)
        except NotStreamable as error:
            log.warning("a model is closed: %s", error.sentence)
            member.loader.fold(closes_weights=True)
        member.enter(is_planned_for=False)

    def _fold(self, member: Member) -> None:
        """The context leaves memory too; the file stays mapped and the vocabulary there, where weights can leave."""
        if member.wants_turn or member.loader.standby.is_away or member.removable_bytes:
            member.loader.fold(keeps_what_was_read=member.wants_turn)
            member.enter(is_planned_for=False)
        else:
            self._dismiss(member)


def _by_use(members: list[Member]) -> list[Member]:
    """Those first that have nothing under way, and of these whom nobody has asked for longest."""
    return sorted(members, key=lambda one: (one.wants_turn, one.asked_at))


def _is_whole(plan: LoadPlan) -> bool:
    """Whether all of a model has room, and nothing had to be given up for it."""
    placement = plan.placement
    return placement.fits and not (placement.streamed_layers or placement.is_mapped)
