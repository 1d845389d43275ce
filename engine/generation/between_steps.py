"""Carries out, between two steps, what other threads ask of the generation thread and what waits for no turn.

Only the caller gets the outcome; a failure ends no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from engine.errors import RagdollError
from engine.generation.commands import (
    ApplyPlacement,
    ApplySettings,
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
    """Carries out commands between steps; on the generation thread."""

    def __init__(
        self,
        models: ModelPool,
        turns: Turns,
        changes: ModelChanges,
        unasked: Unasked,
        idle_time: IdleTime,
        known_documents: KnownDocuments,
    ) -> None:
        """Carries out nothing yet.

        Args:
            models: The models that commands are passed on to.
            turns: Tasks that come before anything that no user has asked for.
            changes: Changes the placement of a model as soon as that is possible.
            unasked: Loads and times a model.
            idle_time: Saves what is hot, and is notified when bounds have changed.
            known_documents: Returns which of these documents are still in the library.
        """
        self._models, self._turns, self._changes = models, turns, changes
        self._unasked, self._idle_time, self._known_documents = unasked, idle_time, known_documents

    def carry_out(self, command: AtOnce) -> None:
        """Executes a command, or schedules it for as soon as possible."""
        match command:
            case Expected():
                guarded(lambda: self._expect(command))
            case FoundAgain():
                guarded(lambda: self._take_found(command))
            case ForgetRemoved():
                guarded(self._forget_removed)
            case ApplyPlacement():
                self._changes.want_placed(command)
            case KeepInCells(may_lie):
                guarded(lambda: self._for_all(lambda loader: loader.keep_in_cells(may_lie)))
            case SetAsideOnDisk(is_on_disk):
                guarded(lambda: self._for_all(lambda loader: loader.set_aside_on_disk(is_on_disk)))
            case LookAtDevices():
                guarded(self._models.members.home.loader.look_at_devices)
            case Rehearse():
                self._rehearse(command)
            case LoadNow():
                self._unasked.want_loaded(command)
            case LetGo():
                self._let_go(command)
            case ApplySettings():
                self._apply_settings()

    def load_unasked(self) -> None:
        """Loads the chosen model for callers that want to measure it."""
        models = self._models
        # It must not take the place of another model that is writing an answer.
        if self._turns.change is None and (models.front is models.members.home or not models.has_work):
            self._unasked.load(self._load_home)

    def forget_ended(self) -> None:
        """Drops kept KV of removed documents that was read for prompts which have ended since."""
        for member in self._models.members:
            # Also if a model was unloaded meanwhile, because the KV of what it had read is kept.
            if member.under_way.has_kept_removed():
                guarded(partial(member.loader.forget_removed, self._known_documents))

    def _for_all(self, tell: Callable[[ModelLoader], None]) -> None:
        for member in self._models.members:
            tell(member.loader)

    def _apply_settings(self) -> None:
        guarded(lambda: self._for_all(lambda loader: loader.apply_settings()))
        guarded(self._models.bound_files)
        # KV that exceeds a bound leaves memory as it is written.
        self._idle_time.note_change()

    def _load_home(self) -> LoadedModel | None:
        self._models.bring_home()
        return self._models.members.home.loaded

    def _rehearse(self, command: Rehearse) -> None:
        """Times passes if there is nothing else to do."""
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
        if member is not None and not is_wanted:
            guarded(partial(self._models.give_up_hot, member))
            is_wanted = member.wants_turn or len(member.under_way) > 0
        try:
            if not is_wanted:
                self._models.rest(command.path)
        except Exception:
            # Whoever asked must not touch the file then.
            log.exception("%s could not be let go", command.path.name)
            is_wanted = True
        command.reply.set_result(not is_wanted)

    def _forget_removed(self) -> None:
        for member in self._models.members:
            guarded(member.under_way.forget_removed)
        guarded(self._idle_time.keep_hot)
        for member in self._models.members:
            member.loader.forget_removed(self._known_documents)

    def _expect(self, expected: Expected) -> None:
        """Reads ahead if the question's model is in memory and no other question waits."""
        member = self._models.members.find(expected.in_flight.question.model)
        if member is None or member.loaded is None or self._turns or not self._models.let_compute_unasked(member):
            return
        try:
            member.under_way.expect(expected, member.loaded)
        except RagdollError as error:
            # The question itself reports the error when it begins.
            log.debug("not read ahead: %s", error)

    def _take_found(self, found: FoundAgain) -> None:
        for member in self._models.members:
            if member.loaded is not None and member.under_way.answers(found.question_id):
                member.found_again(found)
