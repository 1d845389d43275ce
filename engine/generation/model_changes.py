"""Changes loaded models: chooses another, frees an unused one, or changes a placement; answers end first, or go on.

All of these end a context, so each waits until answers that have just ended are kept; choosing also waits until all
answers have ended of which the user has seen a part. Of several requests, the newest counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.errors import LoadAbandoned, ModelError
from engine.events import ModelStateChanged, PlacementSettled, Publish
from engine.generation.commands import ApplyPlacement, UseModel
from engine.generation.idle_time import guarded
from engine.generation.instance import NOT_LOADED
from engine.generation.member import Member
from engine.generation.pool import ModelPool
from engine.generation.turns import Turns
from engine.generation.under_way import reported_as

log = logging.getLogger(__name__)

# The end of a context waits at most this many steps for answers that have just ended to be kept.
MOST_PUT_OFF = 4


class ModelChanges:
    """Carries out changes of models between two steps; on the generation thread."""

    def __init__(self, models: ModelPool, turns: Turns, publish: Publish, note_changed: Callable[[], None]) -> None:
        """Starts with nothing to change.

        Args:
            models: The models that are changed.
            turns: Knows which model was chosen, and which is to be freed while unused.
            publish: Where events go.
            note_changed: Called after a change, or a failed one.
        """
        self._models, self._turns, self._publish, self._note_changed = models, turns, publish, note_changed
        self._placement: ApplyPlacement | None = None
        self._num_put_off = 0

    def want_placed(self, command: ApplyPlacement) -> None:
        """Sets the placement to carry out next, replacing any earlier one."""
        self._placement = command

    def rest(self) -> None:
        """Frees the model that is to rest, if it is loaded and not in use."""
        rest, home = self._turns.take_rest(), self._models.members.home
        loaded = home.loaded
        if rest is None:
            return
        if loaded is None or loaded.plan.path != rest.path:
            guarded(lambda: self._models.rest(rest.path))
        elif not len(home.under_way):
            if self.are_kept(home):
                self._use(UseModel(rest.path, loaded.plan.n_gpu_layers, is_urgent=False, is_chosen=False))
            else:
                self._turns.add(rest)

    def withdraw_unseen(self) -> None:
        """Before a change of the model, takes back all questions without visible text; the next model answers them."""
        if self._turns.change is not None:
            home, change = self._models.members.home, self._turns.change
            is_reloaded = home.path == str(change.path or "")
            self._turns.put_back(home.under_way.withdraw(is_reloaded=is_reloaded))

    def choose(self) -> None:
        """Changes the chosen model once its visible answers have ended; loads a chosen model that had to wait."""
        home = self._models.members.home
        if self._models.is_home_due and not self._turns:
            self._load(self._models.bring_home, home.path)
        if self._turns.change is None or not self._models.can_choose(self._turns.change):
            return
        if self.are_kept(home) and (change := self._turns.take_change()) is not None:
            self._use(change)

    def place(self) -> None:
        """Carries out the latest requested placement, if any, and publishes the result."""
        wanted = self._placement
        if wanted is None:
            return
        member = self._models.of_path(wanted.path)
        if member is not None and not self.are_kept(member):
            return
        self._placement = None
        refusal = self._refusal(member)
        if refusal or member is None or member.instance is None:
            self._publish(PlacementSettled(False, refusal))
            return
        if guarded(lambda: self._models.make_way(member, wanted.placement)):
            self._publish(
                PlacementSettled(False, "Other models leave memory, and take turns with this one from now on.")
            )
            return
        try:
            member.instance.apply(wanted.placement, wanted.path)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; reported to all that it concerns
            self._publish(PlacementSettled(False, str(reported_as(error))))
            self._models.start_over(member, error)
        self._models.bound_files()
        self._note_changed()

    def are_kept(self, member: Member) -> bool:
        """Returns whether answers that have just ended are kept whole; says True after a few rounds in any case."""
        loaded, is_computing = member.loaded, member is self._models.front
        if loaded is not None and is_computing and loaded.loop.closing and self._num_put_off < MOST_PUT_OFF:
            self._num_put_off += 1
            return False
        self._num_put_off = 0
        return True

    def _refusal(self, member: Member | None) -> str:
        """Returns why the placement cannot be changed now; "" if it can."""
        if self._turns.change is not None:
            return "Another model was chosen meanwhile."
        if member is None or member.instance is None:
            return NOT_LOADED
        if not member.is_in_memory:
            return "Another model computes just now."
        # The remaining time is for writing kept KV, not for reading weights again.
        return "The engine is closing." if member.loader.is_closing else ""

    def _use(self, command: UseModel) -> None:
        home = self._models.members.home
        if home.loader.is_closing:
            # The remaining time is for writing kept KV.
            return
        if not len(home.under_way):
            if home.loaded is not None:
                # It may stay loaded for questions that name it.
                home.under_way.give_up_unasked(home.loaded)
            home.under_way.forget_ahead(home.loaded)
        self._load(lambda: self._models.choose(command), str(command.path or ""))

    def _load(self, load: Callable[[], None], path: str) -> None:
        """Loads the chosen model and publishes the outcome."""
        home = self._models.members.home
        try:
            load()
        except LoadAbandoned as error:
            # The model that was chosen instead is loaded next.
            log.info("%s", error)
        except ModelError as error:
            # The loader has published it as the model's state.
            log.log(logging.INFO if home.loader.is_closing else logging.WARNING, "%s", error)
        except Exception as error:
            # The edge of the thread: it must not end, or no later question would be answered.
            log.exception("the model could not be changed")
            sentence = f"The model could not be used: {error}."
            self._publish(ModelStateChanged("failed", path, sentence=sentence))
        self._note_changed()
