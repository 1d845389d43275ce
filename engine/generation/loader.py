"""Loads and frees the model, says so, and enters every byte of it in the ledger.

At most one model is loaded. What it gets is decided before anything is loaded (load_plan.py), unless the user chose;
building.py carries it out. What models have read is kept in a folder that all of them share.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.closing import close_all
from engine.config import Settings
from engine.errors import LoadAbandoned, ModelError, ModelLoadFailed, NoRoomToCompute
from engine.events import MemoryShort, ModelStateChanged, PlacementSettled, Publish
from engine.generation import cache_io, hot_file
from engine.generation.applying import Applied, Means, apply, take_less
from engine.generation.building import build
from engine.generation.cache_files import CacheFiles
from engine.generation.changing import weights_differ
from engine.generation.conversation import EvidencePassage
from engine.generation.in_force import InForce
from engine.generation.kv_room import disk_room
from engine.generation.load_plan import UBATCH_OF_PROCESSOR, LoadPlan, Planning, plan_load, unmeasured
from engine.generation.load_trials import LoadTrials
from engine.generation.loaded import LoadedModel
from engine.generation.loading import Attempts, load
from engine.generation.model import start_backend
from engine.generation.model_leases import ModelLeases
from engine.generation.premises import Premises
from engine.generation.standby import Standby
from engine.generation.step_loop import StepLoop
from engine.memory.demand import SPARE_OWNER, Budgets, Demand, undecided
from engine.memory.hardware import Device, Hardware, probe, probe_devices
from engine.memory.ladder import constrained
from engine.memory.ledger import Ledger
from engine.memory.ledger_share import LedgerShare
from engine.memory.placement import Placement
from engine.memory.room import headroom_bytes, left_bytes
from engine.phases import Phases

__all__ = ["UBATCH_OF_PROCESSOR", "ModelLoader"]

log = logging.getLogger(__name__)
MIN_PROGRESS_STEP = 0.05
# Whoever closes waits so long for what is kept to be written. The window ends an engine that takes longer than 3 s.
KEEPING_SECONDS = 2.0
# Waits until there is room for what is placed, unless told that the load is given up.
MakeRoom = Callable[[Placement, Callable[[], bool]], None]


class ModelLoader:
    """The generation thread's hands on models.

    `devices`, `decision`, `pending`, `problem`, `abandon_loading` and `close` are for other threads too. `decision`
    says where the model's layers are, `pending` which settings wait for the next load, `problem` why less is kept of
    what it reads than could be; "" where there is nothing to say.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        data_folder: Path,
        kept_folder: Path,
        ledger: Ledger,
        publish: Publish,
        phases: Phases | None = None,
        planning: Planning | None = None,
        beside: Callable[[Demand], Demand] = lambda demand: demand,
        make_room: MakeRoom = lambda placement, is_given_up: None,
        premises: Premises | None = None,
    ) -> None:
        """Prepares; files of kept KV are looked at when they are first needed.

        Args:
            settings: Those in force.
            data_folder: Whose disk and memory are asked for what is free.
            kept_folder: Where KV is kept; only ours.
            ledger: Gets every byte.
            publish: Where events go.
            phases: Tells that loading takes a while.
            planning: Places a model; None: without anything measured.
            beside: Adds to what a model wants what competes with it.
            make_room: Has what competes with a model be as its plan says, before it is loaded.
            premises: What is shared with the loaders of other models.
        """
        self._settings, self._data_folder, self._kept_folder = settings, data_folder, kept_folder
        trials_file = data_folder / "model-on-trial.json"
        self._premises = premises or Premises(kept_folder, ledger, LoadTrials(trials_file))
        self._ledger, self.share, self._publish = ledger, LedgerShare(ledger), publish
        self._phases = Phases(publish) if phases is None else phases
        self._planning, self._beside, self._make_room = planning, beside, make_room
        self._loaded: LoadedModel | None = None
        self._in_force: InForce | None = None
        self._wanted: tuple[Path, int | None] | None = None
        self._leases = ModelLeases(self.share)
        self._trials = self._premises.trials
        self._abandoned, self._is_closing = threading.Event(), threading.Event()
        self._closes_by = float("inf")
        # Whether its memory may be another model's between two tokens; and what of it is just now.
        self.takes_turns, self.standby = False, Standby()
        # Whether it is the model of all questions that name none.
        self.is_chosen = True
        self.decision = self.pending = ""

    @property
    def placement(self) -> Placement | None:
        """Where the loaded model lies now; None without one."""
        loaded = self._loaded
        return loaded.plan.placement if loaded is not None else None

    @property
    def demand(self) -> Demand | None:
        """What the loaded model wants by the settings in force, and what competes with it; None without one."""
        loaded = self._loaded
        return self._with_all(loaded.plan.demand_by(self._settings())) if loaded is not None else None

    @property
    def problem(self) -> str:
        """Why less is kept of what is read than could be, in a sentence; "" where nothing is wrong."""
        return self._premises.problem

    @property
    def devices(self) -> tuple[Device, ...]:
        """The graphics cards, and what was free of them at the last look."""
        return self._premises.devices

    def tell_when_scanned(self, tell: Callable[[], None]) -> None:
        """Has `tell` called, on another thread, once all is known that was kept by earlier runs."""
        self._premises.tell_when_scanned = tell

    def look_at_devices(self) -> None:
        """Asks ggml which GPUs there are and how much of them is free."""
        start_backend()
        self._premises.devices = probe_devices()

    def loaded(self) -> LoadedModel | None:
        """What answers now: the loaded model, or None for extractive answers.

        Raises:
            ModelError: The model that was asked for could not be loaded (tried again at each question).
        """
        if self._loaded is None and self._wanted is not None:
            self.load(*self._wanted)
        return self._loaded

    @property
    def loaded_now(self) -> LoadedModel | None:
        """The same, without loading anything."""
        return self._loaded

    def load(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that answers; the one before is freed first.

        Raises:
            LoadAbandoned: Another model was chosen meanwhile.
            ModelError: It cannot be loaded; published as the model's state as well.
        """
        # What is chosen while the one before is written to the disk, which takes a while, is chosen instead.
        self._abandoned.clear()
        # The loop over memory begins anew with it (adapting.py): what was given up by then is taken back.
        self._premises.keeps_in_cells, self._premises.sets_aside_on_disk = True, False
        self.unload()
        self._wanted = (path, n_gpu_layers)
        try:
            with self._phases.during("loading model"):
                self._loaded = self._load(path, n_gpu_layers)
        except ModelError as error:
            self._free()
            if self._abandoned.is_set() and not self.is_closing:
                # Nothing has failed, and what was chosen instead tells its own state.
                raise LoadAbandoned(f"{path.name} was not loaded: another model was chosen meanwhile.") from error
            sentence = f"{error.sentence} {error.way_out}".strip()
            self._publish(ModelStateChanged("failed", str(path), path.stem, sentence=sentence))
            raise
        except BaseException:
            self._free()
            raise
        self.obey()
        self.tell()

    def forgive(self) -> None:
        """Has the next load tried whatever came of earlier ones: somebody wants it."""
        self._trials.forgive()

    def load_when_needed(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that the next question loads."""
        self.unload()
        self._wanted = (path, n_gpu_layers)

    def start_over(self) -> None:
        """Frees a model with which something went wrong; the next question loads it again."""
        if self._loaded is not None:
            broken, self._loaded = self._loaded, None
            close_all(broken.abandon, self._free)

    def unload(self) -> None:
        """Frees the model; answers are quotes from then on. Of one that nobody has chosen, nobody is told."""
        was_wanted, self._wanted = self._wanted is not None, None
        if self._loaded is not None:
            self._free()
        if was_wanted and self.is_chosen:
            # Also after a load that failed: its sentence would otherwise stay on show.
            self._publish(ModelStateChanged("none"))

    def forget_removed(self, known: Callable[[Collection[int]], Collection[int]]) -> None:
        """Nothing is kept any longer, in memory or on disk, of documents that are not in the library."""
        if not self._premises.has_files:
            return
        held = self._cache_files().documents()
        if self._loaded is not None:
            held |= self._loaded.documents()
        gone = held - frozenset(known(held))
        if gone and self._loaded is not None:
            self._loaded.forget(gone)
        if gone:
            self._cache_files().forget(gone)

    def apply_settings(self) -> None:
        """Has bounds of what is kept, and reading ahead, follow the settings; the rest waits for the next load."""
        if self._loaded is not None and self._in_force is not None and not self.standby.is_folded:
            settings = self._settings()
            self.pending = self._in_force.pending(settings)
            if (room := self._in_force.bounds(settings, self._hardware)) is not None:
                self._loaded.apply(room.ram_bytes, room.disk_bytes)
            self._loaded = replace(self._loaded, wants_ahead=self._in_force.plan.reads_ahead(settings))
        elif (files := self._premises.opened_files) is not None:
            files.set_budget(self._disk_room())

    def apply(self, placement: Placement, path: Path | None = None) -> None:
        """Has the loaded model live as this says; how that went is published.

        Args:
            placement: Of the model at `path`, or of whichever is loaded.
            path: None where that does not matter.

        Raises:
            ModelError: The model could not be had in any way any more; it is closed.
        """
        loaded, in_force = self._loaded, self._in_force
        if (
            loaded is None
            or in_force is None
            or path not in (None, loaded.plan.path)
            or placement.num_layers != loaded.plan.placement.num_layers
        ):
            self._publish(PlacementSettled(False, "A placement was for a model that is not loaded any more."))
            return
        is_long = weights_differ(loaded.plan.placement, placement)
        with self._phases.during("loading model") if is_long else nullcontext():
            applied = apply(loaded, placement, self._means())
        self._have(applied, self._settings() if applied.is_as_wanted else None)
        words = applied.change.words
        self._publish(PlacementSettled(applied.is_as_wanted, applied.sentence, applied.pause_s, words))

    def take_less(self, error: NoRoomToCompute) -> None:
        """Has the loaded model do without one thing more, as a pass found no room; published where there was one.

        Raises:
            ModelError: As `apply` does.
        """
        if self._loaded is None or self.is_closing:
            return
        with self._phases.during("loading model"):
            applied = take_less(self._loaded, self._means())
        if applied is not None:
            self._have(applied, None)
            rung = applied.loaded.plan.given_up[-1]
            self._publish(MemoryShort(rung.tier, f"{error.sentence} {rung.sentence} {applied.sentence}"))

    def _have(self, applied: Applied, settings: Settings | None) -> None:
        """The loaded model lives otherwise: as planned by `settings`, or with what there was room for."""
        assert self._in_force is not None
        self._loaded = applied.loaded
        self._in_force.note_placed(applied.loaded.plan, settings)
        self.decision, self.pending = applied.loaded.plan.sentence, self._in_force.pending(self._settings())
        if applied.change.moves_answers:
            self._premises.devices = probe_devices()

    def keep_in_cells(self, may_lie: bool) -> None:
        """Whether what was read may lie in cells that no answer needs; else it leaves them for memory."""
        self._premises.keeps_in_cells = may_lie
        self.obey()

    def obey(self) -> None:
        """Has the loaded model do without what all models do without just now."""
        if self._loaded is None or self._in_force is None or self.standby.is_folded:
            return
        premises, room = self._premises, self._in_force.room
        if self._loaded.keeps_in_cells != premises.keeps_in_cells:
            self._loaded = replace(self._loaded, keeps_in_cells=premises.keeps_in_cells)
            self._loaded.apply(room.ram_bytes, room.disk_bytes)
        self._loaded.loop.save_to(self._kept_folder if premises.sets_aside_on_disk else None)

    def hot_passages(self) -> Mapping[EvidencePassage, int]:
        """How often passages were used before the last restart, as far as that is known."""
        content = cache_io.read_small(self._kept_folder / hot_file.NAME, hot_file.MAX_BYTES)
        return hot_file.decode(content)

    def keep_hot(self, uses: Mapping[EvidencePassage, int]) -> None:
        """Has it written how often passages were used, for after the next restart."""
        self._cache_files().keep_beside(hot_file.NAME, partial(hot_file.encode, uses))

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        """Whether answers that had to leave their cells for others are kept on the disk, and not in memory."""
        self._premises.sets_aside_on_disk = is_on_disk
        self.obey()
        if self._loaded is not None:
            self.note_set_aside(self._loaded.loop)

    def note_set_aside(self, loop: StepLoop) -> None:
        """What memory and disk hold of answers that had to leave their cells for others is in the ledger."""
        self._leases.note_set_aside(loop.saved_bytes, loop.spilled_bytes)

    # --- turns with other models (pool.py) ---

    def another(self) -> ModelLoader:
        """A loader of one more model, that shares with this one what all models do."""
        other = ModelLoader(
            self._settings,
            self._data_folder,
            self._kept_folder,
            self._ledger,
            self._publish,
            self._phases,
            self._planning,
            self._beside,
            self._make_room,
            self._premises,
        )
        other.is_chosen = False
        return other

    @property
    def wanted_layers(self) -> int | None:
        """How many layers were chosen for a device; None where the plan chooses."""
        return self._wanted[1] if self._wanted is not None else None

    @property
    def wanted(self) -> Path | None:
        """The model that answers, loaded or not; None for quotes."""
        return self._wanted[0] if self._wanted is not None else None

    def plan(self, path: Path, n_gpu_layers: int | None) -> LoadPlan:
        """How a model would be loaded now.

        Raises:
            ModelError: Its header cannot be read.
        """
        planning = self._planning or unmeasured
        return plan_load(path, self._settings(), self._hardware(), n_gpu_layers, planning, self._with_all)

    def tell(self) -> None:
        """Says how the model stands, to whoever has chosen it while it was there already."""
        if self._loaded is None:
            self._publish(ModelStateChanged("none"))
        else:
            path, name = str(self._loaded.plan.path), self._loaded.shape.name
            self._publish(ModelStateChanged("loaded", path, name, fraction=1.0, sentence=self.decision))

    @property
    def room_bytes(self) -> int:
        """What is free of memory for more of this model, within the budget; below 0 where others take too much."""
        if self._loaded is None:
            return 0
        demand = self._with_all(self._loaded.plan.demand_by(self._settings()))
        # What is bound to come counts as if it were there.
        fixed_bytes = sum(span.num_bytes for span in demand.fixed if span.tier == "ram")
        there_bytes = sum(span.num_bytes for span in undecided(self._ledger.spans("ram")))
        spare_bytes = self._ledger.held_bytes("ram", SPARE_OWNER)
        entered_bytes = self._ledger.counted_bytes("ram") + spare_bytes + max(0, fixed_bytes - there_bytes)
        return left_bytes(self._hardware(), demand, entered_bytes)

    @property
    def headroom_bytes(self) -> int:
        """Of memory, what is left to others."""
        return headroom_bytes(self._hardware())

    def leave(self, num_bytes: int) -> None:
        """Has weights leave memory. Raises NotStreamable where they cannot."""
        if self._loaded is not None:
            self.standby.leave(self._loaded, self._leases, num_bytes)

    def fold(
        self, *, keeps_what_was_read: bool = True, keeps_weights: bool = False, closes_weights: bool = False
    ) -> None:
        """Has the context leave memory; see `Standby.fold`."""
        if self._loaded is not None:
            self.standby.fold(
                self._loaded,
                self._means(),
                keeps_what_was_read=keeps_what_was_read,
                keeps_weights=keeps_weights,
                closes_weights=closes_weights,
            )

    def rest(self) -> None:
        """Frees the model; the next question loads it again."""
        if self._loaded is not None:
            self._free()

    def come_back(self) -> None:
        """Has all of the model be where it was, or where there is room for it now. Harmless where nothing left.

        Raises:
            ModelError: It could not be had in any way any more; it is closed.
            RagdollError: What left could not be read; another try may succeed.
        """
        loaded = self._loaded
        if loaded is None or self.standby.is_there:
            return
        with nullcontext() if loaded.model.is_open else self._phases.during("loading model"):
            applied = self.standby.come_back(loaded, lambda: self._placed_anew(loaded), self._means())
        if applied is not None:
            self._have(applied, self._settings() if applied.is_as_wanted else None)
            # What was changed meanwhile.
            self.apply_settings()
            self.obey()

    def _placed_anew(self, loaded: LoadedModel) -> LoadPlan:
        """The plan of now of a model that has to be read again."""
        demand = self._with_all(loaded.plan.demand_by(self._settings()))
        placement = (self._planning or unmeasured)(self._hardware(), constrained(demand, loaded.plan.given_up))
        return replace(loaded.plan.placed(placement), demand=demand)

    def _with_all(self, demand: Demand) -> Demand:
        """What the model wants, with what competes with it."""
        full = self._beside(demand)
        can_leave = self.takes_turns and self.wanted in self._premises.left_in_order
        return replace(full, wishes=replace(full.wishes, can_leave=can_leave))

    def abandon_loading(self) -> None:
        """Makes a load that is under way give up (from any thread)."""
        self._abandoned.set()

    def close(self) -> None:
        """Makes a load that is under way give up, and every later one at once (from any thread).

        From now on counts how long it may take in all to write what is kept. A second call does nothing.
        """
        if not self.is_closing:
            self._closes_by = time.monotonic() + KEEPING_SECONDS
            self._is_closing.set()
            self._trials.note_closing()

    @property
    def is_closing(self) -> bool:
        return self._is_closing.is_set()

    def end(self) -> None:
        """Frees the model; waits a while for what is kept of it to be written, and does not keep the rest."""
        self.close()
        self.unload()
        self._premises.close(self._keeping_seconds)

    @property
    def _keeping_seconds(self) -> float:
        """So long it may take from now on to write what is kept."""
        return max(0.0, min(KEEPING_SECONDS, self._closes_by - time.monotonic()))

    @property
    def _is_given_up(self) -> bool:
        return self._abandoned.is_set() or self.is_closing

    def _load(self, path: Path, n_gpu_layers: int | None) -> LoadedModel:
        if self._is_given_up:
            # Only to be told so when a slow disk has given its header.
            raise ModelLoadFailed(f"{path.name} was not loaded: it is not wanted any more.")
        settings = self._settings()
        planning = self._planning or unmeasured
        plan = plan_load(path, settings, self._hardware(), n_gpu_layers, planning, self._with_all)
        loaded = load(
            plan,
            Attempts(
                self._trials,
                self._hardware,
                planning,
                self._publish,
                self._begin_attempt,
                lambda plan: build(plan, self._cache_files(), self.share, self._leases, self._progress(plan)),
                lambda: self._is_given_up,
            ),
        )
        self._in_force = InForce(loaded.plan, has_own_layers=n_gpu_layers is not None)
        if loaded.copied is None:
            self._premises.left_in_order.add(path)
        self.decision = loaded.plan.sentence
        self._premises.devices = probe_devices()
        return loaded

    def _begin_attempt(self, plan: LoadPlan) -> None:
        self.decision = plan.sentence
        self._publish(ModelStateChanged("loading", str(plan.path), plan.shape.name, sentence=self.decision))
        self._make_room(plan.placement, lambda: self._is_given_up)

    def _means(self) -> Means:
        planning, memory = self._planning or unmeasured, self._settings().memory
        return Means(
            self.share,
            self._leases,
            self._hardware,
            planning,
            self._trials,
            lambda _: not self.is_closing,
            self._kept_folder,
            Budgets(memory.gpu_budget_bytes, memory.ram_budget_bytes, memory.disk_budget_bytes),
        )

    def _cache_files(self) -> CacheFiles:
        return self._premises.files(self._disk_room)

    def _disk_room(self) -> int:
        return disk_room(self._settings().generation, self._hardware())

    def _hardware(self) -> Hardware:
        return probe(self._data_folder, self.devices)

    def _progress(self, plan: LoadPlan) -> Callable[[float], bool]:
        shown = 0.0

        def on_progress(fraction: float) -> bool:
            nonlocal shown
            if fraction - shown >= MIN_PROGRESS_STEP:
                shown = fraction
                self._publish(ModelStateChanged("loading", str(plan.path), plan.shape.name, fraction, self.decision))
            return not self._is_given_up

        return on_progress

    def _free(self) -> None:
        if self._loaded is not None:
            self._loaded.close(self._keeping_seconds)
            self._loaded = None
        self._leases.release()
        self._in_force, self.standby = None, Standby()
        self.decision = self.pending = ""
        self._premises.devices = probe_devices()
