"""An instance: one model from the moment it is loaded until it is freed, wherever its weights and cells are meanwhile.

It can change its placement, shrink when there is no room, and leave memory for another model and come back; no answer
ends because of any of that. The loader loads and frees it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from engine.config import Settings
from engine.errors import NoRoomToCompute
from engine.events import MemoryShort, PlacementSettled, Publish
from engine.generation.applying import Applied, Means, apply, take_less
from engine.generation.in_force import InForce
from engine.generation.load_planner import LoadPlanner
from engine.generation.loaded import LoadedModel
from engine.generation.standby import Standby
from engine.memory.placement import Placement
from engine.phases import Phases

NOT_LOADED = "A placement was for a model that is not loaded any more."


class ModelInstance:
    """A loaded model; on the generation thread, but `loaded` and `pending` are read by other threads too.

    `loaded` is the model as it is now, `standby` what of it has left memory; `pending` says which settings wait for the
    next load, "" if none do.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        planner: LoadPlanner,
        means: Means,
        publish: Publish,
        phases: Phases,
        *,
        has_own_layers: bool,
    ) -> None:
        """Begins with what was loaded.

        Args:
            loaded: The loaded model.
            planner: Plans its placement with what is free now.
            means: What changing its placement needs.
            publish: Where events go.
            phases: Reports that reading its weights again takes a while.
            has_own_layers: The number of layers on the GPU was chosen for this model, whatever the settings say.
        """
        self.loaded, self.standby, self.pending = loaded, Standby(), ""
        self._planner, self._means, self._publish, self._phases = planner, means, publish, phases
        self._in_force = InForce(loaded.plan, has_own_layers=has_own_layers)

    @property
    def disk_bytes(self) -> int:
        """How much the files of all models may hold, by the plan for this one."""
        return self._in_force.room.disk_bytes

    def apply(self, placement: Placement, path: Path | None = None) -> None:
        """Applies a placement, and publishes how that went.

        Args:
            placement: Of the model at `path`, or of whichever is loaded.
            path: None if that does not matter.

        Raises:
            ModelError: The model could not be opened in any way; it is closed.
        """
        plan = self.loaded.plan
        if path not in (None, plan.path) or placement.num_layers != plan.placement.num_layers:
            self._publish(PlacementSettled(False, NOT_LOADED))
            return
        is_long = plan.placement.reloads_for(placement)
        self._be_of_now()
        with self._phases.during("loading model") if is_long else nullcontext():
            applied = apply(self.loaded, placement, self._means)
        self._have(applied, self._planner.settings() if applied.is_as_wanted else None)
        words = applied.change.words
        self._publish(PlacementSettled(applied.is_as_wanted, applied.sentence, applied.pause_s, words))

    def placement_with(self, num_cells: int) -> Placement:
        """Returns its placement with a context of `num_cells`, or of as many as there is room for."""
        self._planner.needed_cells = num_cells
        return self._planner.placed_again(self.loaded.plan, num_cells).placement

    def ensure_cells(self, num_cells: int) -> None:
        """Gives its context `num_cells`, for a prompt or an answer longer than any recent one, and publishes that.

        If there is no room for them, requests that lack cells end with what there is.

        Raises:
            ModelError: As in `apply`.
        """
        self._be_of_now()
        planner, before = self._planner, self.loaded.context.num_cells
        wanted = self.placement_with(num_cells)
        cause = f"A text of more than {before:,} tokens is being answered."
        # If the present placement does not fit either, that is no reason against more cells.
        is_too_much = not wanted.fits and self.loaded.plan.placement.fits
        if wanted.num_cells < num_cells or is_too_much:
            self.loaded.loop.give_up_on_more_cells()
            self._publish(PlacementSettled(False, f"There is no room for {num_cells:,} cells.", cause=cause))
            return
        self._means.make_room(wanted)
        is_long = self.loaded.plan.placement.reloads_for(wanted)
        with self._phases.during("loading model") if is_long else nullcontext():
            applied = apply(self.loaded, wanted, self._means)
        self._have(applied, planner.settings() if applied.is_as_wanted else None)
        if self.loaded.context.num_cells < num_cells:
            self.loaded.loop.give_up_on_more_cells()
        words = applied.change.words
        self._publish(PlacementSettled(applied.is_as_wanted, applied.sentence, applied.pause_s, words, cause))

    def take_less(self, error: NoRoomToCompute) -> None:
        """Moves it down a rung because a pass found no room, and publishes that if there was a lower rung.

        Raises:
            ModelError: As in `apply`.
        """
        self._be_of_now()
        with self._phases.during("loading model"):
            applied = take_less(self.loaded, self._means)
        if applied is not None:
            self._have(applied, None)
            rung = applied.loaded.plan.given_up[-1]
            self._publish(MemoryShort(rung.tier, f"{error.sentence} {rung.sentence} {applied.sentence}"))

    def apply_settings(self) -> None:
        """Applies the settings for kept KV and for reading ahead; the others wait for the next load."""
        settings = self._planner.settings()
        self.pending = self._in_force.pending(settings)
        if (room := self._in_force.bounds(settings, self._planner.hardware)) is not None:
            self.loaded.apply(room.ram_bytes)
        self.loaded = replace(self.loaded, ahead_from_seconds=self._in_force.plan.ahead_from_seconds(settings))

    def obey(self) -> None:
        """Applies what all models have given up for now; cells change only while its context is in memory."""
        shared, room = self._planner.shared, self._in_force.room
        self.loaded.loop.save_to(shared.kept_folder if shared.sets_aside_on_disk else None)
        if self.standby.is_folded:
            return
        if self.loaded.keeps_in_cells != shared.keeps_in_cells:
            self.loaded = replace(self.loaded, keeps_in_cells=shared.keeps_in_cells)
            self.loaded.apply(room.ram_bytes)

    def note_set_aside(self) -> None:
        """Records in the ledger how much memory and disk hold of answers that had to leave their cells."""
        loop = self.loaded.loop
        self._means.leases.note_set_aside(loop.saved_bytes, loop.spilled_bytes)

    def note_needs(self) -> None:
        """Gives all later plans the cells that the requests under way need."""
        self._planner.needed_cells = self.loaded.loop.cells_soon

    def leave(self, num_bytes: int) -> None:
        """Moves weights out of memory. Raises NotStreamable if they cannot leave."""
        self.standby.leave(self.loaded, self._means, num_bytes)

    def fold(
        self, *, keeps_what_was_read: bool = True, keeps_weights: bool = False, closes_weights: bool = False
    ) -> None:
        """Moves the context out of memory; see `Standby.fold`."""
        self.standby.fold(
            self.loaded,
            self._means,
            keeps_what_was_read=keeps_what_was_read,
            keeps_weights=keeps_weights,
            closes_weights=closes_weights,
        )

    def come_back(self) -> None:
        """Brings all of it back to where it was, or to where there is room now. Does nothing if nothing has left.

        Raises:
            ModelError: It could not be opened in any way; it is closed.
            RagdollError: What left could not be read; another try may succeed.
        """
        if self.standby.is_there:
            return
        loaded = self.loaded
        with nullcontext() if loaded.model.is_open else self._phases.during("loading model"):
            needed_cells = loaded.loop.needs.num_cells
            applied = self.standby.come_back(
                loaded, lambda: self._planner.placed_again(loaded.plan, needed_cells), self._means
            )
        if applied is not None:
            self._have(applied, self._planner.settings() if applied.is_as_wanted else None)
            # Settings may have been changed meanwhile.
            self.apply_settings()
            self.obey()

    def _be_of_now(self) -> None:
        """Updates its plan, so that a smaller one, if needed, follows the present settings and concessions."""
        self.loaded = replace(self.loaded, plan=self._planner.as_of_now(self.loaded.plan))

    def _have(self, applied: Applied, settings: Settings | None) -> None:
        """Takes over a new placement: as planned by `settings`, or (None) with what there was room for."""
        self.loaded = applied.loaded
        self._in_force.note_placed(applied.loaded.plan, settings)
        self.pending = self._in_force.pending(self._planner.settings())
        if applied.change.moves_answers:
            self._planner.shared.look_at_devices()
