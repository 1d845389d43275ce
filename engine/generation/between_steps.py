"""Between two steps: what others tell the generation thread, and what waits for no turn, is carried out at once.

Nobody hears how it went but who asked for it; what goes wrong ends no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from engine.errors import RagdollError
from engine.generation.commands import (
    ApplyPlacement,
    AtOnce,
    Expected,
    ForgetRemoved,
    KeepInCells,
    LetGo,
    LoadNow,
    LookAtDevices,
    Rehearse,
    SetAsideOnDisk,
)
from engine.generation.idle_time import IdleTime, guarded
from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.model_changes import ModelChanges
from engine.generation.pool import ModelPool
from engine.generation.turns import Turns
from engine.generation.unasked import Unasked
from engine.generation.under_way import KnownDocuments
from engine.looking_again import FoundAgain

log = logging.getLogger(__name__)


class BetweenSteps:
    """On the generation thread."""

    def __init__(
        self,
        models: ModelPool,
        turns: Turns,
        changes: ModelChanges,
        unasked: Unasked,
        idle_time: IdleTime,
        known_documents: KnownDocuments,
    ) -> None:
        """Prepares.

        Args:
            models: Those that are told.
            turns: What comes before anything that nobody has asked for.
            changes: Has a model placed otherwise when that is possible.
            unasked: Has a model loaded and timed.
            idle_time: Keeps what is hot, and learns of bounds that have changed.
            known_documents: Which of these documents are still in the library.
        """
        self._models, self._turns, self._changes = models, turns, changes
        self._unasked, self._idle_time, self._known_documents = unasked, idle_time, known_documents

    def carry_out(self, command: AtOnce) -> None:
        """Does what is asked for, or has it done as soon as it can be."""
        if isinstance(command, Expected):
            guarded(lambda: self._expect(command))
        elif isinstance(command, FoundAgain):
            guarded(lambda: self._take_found(command))
        elif isinstance(command, ForgetRemoved):
            guarded(self._forget_removed)
        elif isinstance(command, ApplyPlacement):
            self._changes.want_placed(command)
        elif isinstance(command, KeepInCells):
            guarded(lambda: self._have_all(lambda loader: loader.keep_in_cells(command.may_lie)))
        elif isinstance(command, LookAtDevices):
            guarded(self._models.members.home.loader.look_at_devices)
        elif isinstance(command, Rehearse):
            self._rehearse(command)
        elif isinstance(command, LoadNow):
            self._unasked.want_loaded(command)
        elif isinstance(command, LetGo):
            self._let_go(command)
        elif isinstance(command, SetAsideOnDisk):
            guarded(lambda: self._have_all(lambda loader: loader.set_aside_on_disk(command.is_on_disk)))
        else:
            guarded(lambda: self._have_all(lambda loader: loader.apply_settings()))
            guarded(self._models.bound_files)
            # What is over a bound leaves as it is written.
            self._idle_time.note_change()

    def load_unasked(self) -> None:
        """For whoever wants to measure: what they wait for is of the model that was chosen last."""
        models = self._models
        # Not in the place of another one that writes an answer just now.
        if self._turns.change is None and (models.front is models.members.home or not models.has_work):
            self._unasked.load(self._load_home)

    def forget_ended(self) -> None:
        """Nothing is kept of removed documents that was read for prompts which have ended since."""
        for member in self._models.members:
            # Also where a model was taken away instead: what has been read of it by then is kept.
            if member.under_way.has_kept_removed():
                guarded(partial(member.loader.forget_removed, self._known_documents))

    def _have_all(self, tell: Callable[[ModelLoader], None]) -> None:
        for member in self._models.members:
            tell(member.loader)

    def _load_home(self) -> LoadedModel | None:
        self._models.bring_home()
        return self._models.members.home.loaded

    def _rehearse(self, command: Rehearse) -> None:
        """Where there is nothing else to do."""
        member = self._models.principal
        is_free = member.is_in_memory and not (self._models.has_work or self._turns)
        self._unasked.rehearse(
            command, member.loaded if is_free else None, lambda error: self._models.start_over(member, error)
        )

    def _let_go(self, command: LetGo) -> None:
        if not command.reply.set_running_or_notify_cancel():
            return
        members = self._models.members
        member = members.find(str(command.path))
        names = members.names_of(member) if member is not None else {str(command.path)}
        is_wanted = any(task.model in names for task in self._turns)
        if member is not None:
            is_wanted = is_wanted or member.wants_turn or len(member.under_way) > 0
        if not is_wanted:
            guarded(lambda: self._models.rest(command.path))
        command.reply.set_result(not is_wanted)

    def _forget_removed(self) -> None:
        for member in self._models.members:
            guarded(member.under_way.forget_removed)
        guarded(self._idle_time.keep_hot)
        for member in self._models.members:
            member.loader.forget_removed(self._known_documents)

    def _expect(self, expected: Expected) -> None:
        """Where there is more than one model, nothing is read before it is known whose turn it is."""
        members = self._models.members
        member = members.home
        # A chat names its model, also where that is the chosen one.
        is_other = members.is_shared or members.find(expected.in_flight.question.model) is not member
        if is_other or self._turns or member.loaded is None or not member.is_in_memory:
            return
        try:
            member.under_way.expect(expected, member.loaded)
        except RagdollError as error:
            # Told to the question when it comes.
            log.debug("not read ahead: %s", error)

    def _take_found(self, found: FoundAgain) -> None:
        for member in self._models.members:
            if member.loaded is not None and member.under_way.answers(found.question_id):
                member.found_again(found)
