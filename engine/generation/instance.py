"""An instance: one model from the moment it is loaded until it is freed, wherever its weights and cells lie meanwhile.

It is placed otherwise, does without what there is no room for, and leaves memory for another model and comes back;
nobody's answer ends by any of that. Who loads and frees it is the loader.
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
    """On the generation thread; `loaded` and `pending` are read by other threads too.

    `loaded` is the model as it is now, `standby` what of it has left memory; `pending` says which settings wait for the
    next load, "" where none do.
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
            loaded: It.
            planner: Knows what it could have now.
            means: What placing it otherwise takes.
            publish: Where events go.
            phases: Tells that reading its weights again takes a while.
            has_own_layers: How many layers go to the GPU was chosen for this model, whatever the settings say.
        """
        self.loaded, self.standby, self.pending = loaded, Standby(), ""
        self._planner, self._means, self._publish, self._phases = planner, means, publish, phases
        self._in_force = InForce(loaded.plan, has_own_layers=has_own_layers)

    @property
    def disk_bytes(self) -> int:
        """What files of all models may hold, as far as this one is planned for."""
        return self._in_force.room.disk_bytes

    def apply(self, placement: Placement, path: Path | None = None) -> None:
        """Has it live as this says; how that went is published.

        Args:
            placement: Of the model at `path`, or of whichever is loaded.
            path: None where that does not matter.

        Raises:
            ModelError: The model could not be had in any way any more; it is closed.
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
        """Where it would lie with a context of so many cells, or as many as there is room for."""
        self._planner.needed_cells = num_cells
        return self._planner.placed_anew(self.loaded.plan, num_cells).placement

    def have_cells(self, num_cells: int) -> None:
        """Has its context hold so many, for a prompt or an answer that is longer than any of late; published.

        Where they cannot be had, whoever lacks them ends with what there is.

        Raises:
            ModelError: As `apply` does.
        """
        self._be_of_now()
        planner, before = self._planner, self.loaded.context.num_cells
        wanted = self.placement_with(num_cells)
        cause = f"A text of more than {before:,} tokens is being answered."
        # What has no room already has no less of it for more cells.
        is_too_much = not wanted.fits and self.loaded.plan.placement.fits
        if wanted.num_cells < num_cells or is_too_much:
            self.loaded.loop.have_no_more_cells()
            self._publish(PlacementSettled(False, f"There is no room for {num_cells:,} cells.", cause=cause))
            return
        self._means.make_room(wanted)
        is_long = self.loaded.plan.placement.reloads_for(wanted)
        with self._phases.during("loading model") if is_long else nullcontext():
            applied = apply(self.loaded, wanted, self._means)
        self._have(applied, planner.settings() if applied.is_as_wanted else None)
        if self.loaded.context.num_cells < num_cells:
            self.loaded.loop.have_no_more_cells()
        words = applied.change.words
        self._publish(PlacementSettled(applied.is_as_wanted, applied.sentence, applied.pause_s, words, cause))

    def take_less(self, error: NoRoomToCompute) -> None:
        """Has it do without one thing more, as a pass found no room; published where there was one.

        Raises:
            ModelError: As `apply` does.
        """
        self._be_of_now()
        with self._phases.during("loading model"):
            applied = take_less(self.loaded, self._means)
        if applied is not None:
            self._have(applied, None)
            rung = applied.loaded.plan.given_up[-1]
            self._publish(MemoryShort(rung.tier, f"{error.sentence} {rung.sentence} {applied.sentence}"))

    def apply_settings(self) -> None:
        """Has bounds of what is kept, and reading ahead, follow the settings; the rest waits for the next load."""
        settings = self._planner.settings()
        self.pending = self._in_force.pending(settings)
        if (room := self._in_force.bounds(settings, self._planner.hardware)) is not None:
            self.loaded.apply(room.ram_bytes)
        self.loaded = replace(self.loaded, ahead_from_seconds=self._in_force.plan.ahead_from_seconds(settings))

    def obey(self) -> None:
        """Has it do without what all models do without just now; cells only while its context is in memory."""
        premises, room = self._planner.premises, self._in_force.room
        self.loaded.loop.save_to(premises.kept_folder if premises.sets_aside_on_disk else None)
        if self.standby.is_folded:
            return
        if self.loaded.keeps_in_cells != premises.keeps_in_cells:
            self.loaded = replace(self.loaded, keeps_in_cells=premises.keeps_in_cells)
            self.loaded.apply(room.ram_bytes)

    def note_set_aside(self) -> None:
        """What memory and disk hold of answers that had to leave their cells for others is in the ledger."""
        loop = self.loaded.loop
        self._means.leases.note_set_aside(loop.saved_bytes, loop.spilled_bytes)

    def note_needs(self) -> None:
        """Plans from now on have the cells that those who are being answered need."""
        self._planner.needed_cells = self.loaded.loop.cells_soon

    def leave(self, num_bytes: int) -> None:
        """Has weights leave memory. Raises NotStreamable where they cannot."""
        self.standby.leave(self.loaded, self._means, num_bytes)

    def fold(
        self, *, keeps_what_was_read: bool = True, keeps_weights: bool = False, closes_weights: bool = False
    ) -> None:
        """Has the context leave memory; see `Standby.fold`."""
        self.standby.fold(
            self.loaded,
            self._means,
            keeps_what_was_read=keeps_what_was_read,
            keeps_weights=keeps_weights,
            closes_weights=closes_weights,
        )

    def come_back(self) -> None:
        """Has all of it be where it was, or where there is room for it now. Harmless where nothing left.

        Raises:
            ModelError: It could not be had in any way any more; it is closed.
            RagdollError: What left could not be read; another try may succeed.
        """
        if self.standby.is_there:
            return
        loaded = self.loaded
        with nullcontext() if loaded.model.is_open else self._phases.during("loading model"):
            needed_cells = loaded.loop.needs.num_cells
            applied = self.standby.come_back(
                loaded, lambda: self._planner.placed_anew(loaded.plan, needed_cells), self._means
            )
        if applied is not None:
            self._have(applied, self._planner.settings() if applied.is_as_wanted else None)
            # What was changed meanwhile.
            self.apply_settings()
            self.obey()

    def _be_of_now(self) -> None:
        """What loads less, should it come to that, is planned by what is allowed, and done without, now."""
        self.loaded = replace(self.loaded, plan=self._planner.as_of_now(self.loaded.plan))

    def _have(self, applied: Applied, settings: Settings | None) -> None:
        """It lives otherwise: as planned by `settings`, or with what there was room for."""
        self.loaded = applied.loaded
        self._in_force.note_placed(applied.loaded.plan, settings)
        self.pending = self._in_force.pending(self._planner.settings())
        if applied.change.moves_answers:
            self._planner.premises.look_at_devices()
