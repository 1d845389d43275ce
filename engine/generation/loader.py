"""Loads and frees a model, publishes that, and enters every byte of it in the ledger.

A loader has at most one loaded model. Its placement is decided before anything is loaded (load_planner.py), unless the
user chose it; building.py carries it out, and instance.py holds the model until it is freed. All models keep KV in one
shared folder.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from engine.closing import close_all
from engine.errors import LoadAbandoned, ModelError, ModelLoadFailed
from engine.events import ModelStateChanged, Publish
from engine.generation import cache_io, hot_file
from engine.generation.applying import Means
from engine.generation.building import build
from engine.generation.cache_files import CacheFiles
from engine.generation.hot_file import Hot
from engine.generation.instance import ModelInstance
from engine.generation.load_plan import LoadPlan
from engine.generation.load_planner import LoadPlanner
from engine.generation.loaded import LoadedModel
from engine.generation.loading import Attempts, load
from engine.generation.model_leases import ModelLeases
from engine.memory.demand import Demand
from engine.memory.hardware import Device
from engine.memory.ledger_share import LedgerShare
from engine.memory.placement import Placement
from engine.phases import Phases

MIN_PROGRESS_STEP = 0.05
# How long closing waits for kept KV to be written. The window ends an engine that takes longer than 3 s.
KEEPING_SECONDS = 2.0
# Waits until there is room for the placement, unless the load is given up.
MakeRoom = Callable[[Placement, Callable[[], bool]], None]


class ModelLoader:
    """Loads and frees models on the generation thread: `instance` is the loaded one, if any.

    Other threads may read its properties, and call `abandon_loading` and `close`. `decision` says where the model's
    layers are, `pending` which settings wait for the next load, `problem` why less KV is kept than could be; each is
    "" if there is nothing to say.
    """

    def __init__(
        self,
        planner: LoadPlanner,
        publish: Publish,
        phases: Phases | None = None,
        make_room: MakeRoom = lambda placement, is_given_up: None,
    ) -> None:
        """Loads nothing yet; files of kept KV are scanned when they are first needed.

        Args:
            planner: Decides the placement of a model.
            publish: Where events go.
            phases: Reports that loading takes a while.
            make_room: Makes whatever competes with a model shrink to the model's plan, before it is loaded.
        """
        self.planner, self._shared, self._publish = planner, planner.shared, publish
        self.share = LedgerShare(planner.shared.ledger)
        self._leases = ModelLeases(self.share)
        self._phases = Phases(publish) if phases is None else phases
        self._make_room = make_room
        self.instance: ModelInstance | None = None
        self._attempted: LoadPlan | None = None
        self._wanted: tuple[Path, int | None] | None = None
        self._abandoned, self._is_closing = threading.Event(), threading.Event()
        self._closes_by = float("inf")
        # Whether this model answers the questions that name none.
        self.is_chosen = True
        # Called regularly during a load, on the same thread.
        self.while_loading: Callable[[], None] = lambda: None

    @property
    def loaded_now(self) -> LoadedModel | None:
        """The model that answers now; None for extractive answers."""
        instance = self.instance
        return instance.loaded if instance is not None else None

    @property
    def placement(self) -> Placement | None:
        """The placement of the loaded model; None without one."""
        loaded = self.loaded_now
        return loaded.plan.placement if loaded is not None else None

    @property
    def demand(self) -> Demand | None:
        """What the loaded model wants under the settings in force, and what competes with it; None without one."""
        loaded = self.loaded_now
        return self.planner.demand(loaded.plan) if loaded is not None else None

    @property
    def decision(self) -> str:
        """Where the layers of the model are, or will be once it is loaded."""
        # Read in this order, because a load drops the attempt's plan only once the model is set.
        attempted, loaded = self._attempted, self.loaded_now
        plan = loaded.plan if loaded is not None else attempted
        return plan.sentence if plan is not None else ""

    @property
    def pending(self) -> str:
        """Which settings wait for the next load."""
        instance = self.instance
        return instance.pending if instance is not None else ""

    @property
    def problem(self) -> str:
        """Why less KV is kept than could be, in a sentence; "" if nothing is wrong."""
        return self._shared.problem

    @property
    def devices(self) -> tuple[Device, ...]:
        """The graphics cards, with their free memory when they were last probed."""
        return self._shared.devices

    def tell_when_scanned(self, tell: Callable[[], None]) -> None:
        """Sets `tell`, which is called on another thread once all files of earlier runs are known."""
        self._shared.tell_when_scanned = tell

    def look_at_devices(self) -> None:
        """Asks ggml which GPUs there are, and how much of their memory is free."""
        self._shared.look_at_devices()

    def begin(self) -> None:
        """Lets a choice from now on abandon the next load; earlier ones are disregarded.

        Called before other models leave for it and before the KV of the previous model is written, which takes a while.
        """
        self._abandoned.clear()

    def load(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that answers; the previous one is freed first.

        Raises:
            LoadAbandoned: Another model was chosen meanwhile.
            ModelError: It cannot be loaded; this is also published as the model's state.
        """
        # The adaptation to memory starts over with a new model (adapting.py), so what it had given up is restored.
        self._shared.keeps_in_cells, self._shared.sets_aside_on_disk = True, False
        self.unload()
        self._wanted = (path, n_gpu_layers)
        try:
            with self._phases.during("loading model"):
                self.instance, self._attempted = self._load(path, n_gpu_layers), None
        except ModelError as error:
            self._free()
            if self._abandoned.is_set() and not self.is_closing:
                # Nothing failed, but the state of the other model does not end the "loading" state of this one.
                self._publish(ModelStateChanged("none", str(path), path.stem))
                raise LoadAbandoned(f"{path.name} was not loaded: another model was chosen meanwhile.") from error
            sentence = f"{error.sentence} {error.way_out}".strip()
            self._publish(ModelStateChanged("failed", str(path), path.stem, sentence=sentence))
            raise
        except BaseException:
            self._free()
            self._publish(ModelStateChanged("none", str(path), path.stem))
            raise
        self.instance.obey()
        self.tell()

    def reset_failures(self, model: Path) -> None:
        """Lets the next load of this model try what failed before, because a user wants it."""
        self._shared.reset_failures(model)

    def load_when_needed(self, path: Path, n_gpu_layers: int | None) -> None:
        """Makes `path` the model that the next question loads."""
        self.unload()
        self._wanted = (path, n_gpu_layers)

    def start_over(self) -> None:
        """Frees a model that failed; the next question loads it again."""
        if self.instance is not None:
            broken, self.instance = self.instance, None
            close_all(broken.loaded.abandon, self._free)

    def unload(self) -> None:
        """Frees the model, so that answers are quotes. Nothing is published for a model that is not the chosen one."""
        was_wanted, self._wanted = self._wanted is not None, None
        if self.instance is not None:
            self._free()
        if was_wanted and self.is_chosen:
            # Also after a failed load, whose sentence would otherwise stay visible.
            self._publish(ModelStateChanged("none"))

    def forget_removed(self, known: Callable[[Collection[int]], Collection[int]]) -> None:
        """Drops KV, in memory and on disk, of documents that are no longer in the library."""
        if not self._shared.has_files:
            return
        held, loaded = self._cache_files().documents(), self.loaded_now
        if loaded is not None:
            held |= loaded.documents()
        gone = held - frozenset(known(held))
        if gone and loaded is not None:
            loaded.forget(gone)
        if gone:
            self._cache_files().forget(gone)

    def apply_settings(self) -> None:
        """Applies the settings for kept KV and for reading ahead; the others wait for the next load."""
        if self.instance is not None and not self.instance.standby.is_folded:
            self.instance.apply_settings()

    def bound_files(self) -> bool:
        """Bounds the files of all models by the plan for this one; returns whether the bound has changed.

        Without a plan in force, the settings give the bound.
        """
        if (files := self._shared.opened_files) is None:
            return False
        before, instance = files.budget_bytes, self.instance
        is_planned = instance is not None and not instance.standby.is_folded
        files.set_budget(instance.disk_bytes if instance is not None and is_planned else self.planner.disk_room())
        return files.budget_bytes != before

    def keep_in_cells(self, may_lie: bool) -> None:
        """Sets whether KV may stay in cells that no answer needs; otherwise it moves from there to memory."""
        self._shared.keeps_in_cells = may_lie
        if self.instance is not None:
            self.instance.obey()

    def hot_passages(self) -> Hot:
        """Reads what was hot before the last restart, as far as that is known."""
        content = cache_io.read_small(self._shared.kept_folder / hot_file.NAME, hot_file.MAX_BYTES)
        return hot_file.decode(content)

    def keep_hot(self, hot: Hot) -> None:
        """Saves what is hot for the time after the next restart."""
        self._cache_files().keep_beside(hot_file.NAME, partial(hot_file.encode, hot))

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        """Sets whether answers that had to leave their cells are kept on disk instead of in memory."""
        self._shared.sets_aside_on_disk = is_on_disk
        if self.instance is not None:
            self.instance.obey()
            self.instance.note_set_aside()

    # --- with other models (pool.py) ---

    def another(self) -> ModelLoader:
        """Returns a loader for one more model, with the same shared resources."""
        other = ModelLoader(self.planner.another(), self._publish, self._phases, self._make_room)
        other.is_chosen, other.while_loading = False, self.while_loading
        return other

    @property
    def wanted_layers(self) -> int | None:
        """How many layers the user chose for a device; None if the plan decides."""
        return self._wanted[1] if self._wanted is not None else None

    @property
    def wanted(self) -> Path | None:
        """The model that answers, loaded or not yet; None for quotes."""
        return self._wanted[0] if self._wanted is not None else None

    def tell(self) -> None:
        """Publishes the state of the model, for a user who chose a model that was already loaded."""
        loaded = self.loaded_now
        if loaded is None:
            self._publish(ModelStateChanged("none"))
        else:
            path, name = str(loaded.plan.path), loaded.shape.name
            self._publish(ModelStateChanged("loaded", path, name, fraction=1.0, sentence=self.decision))

    def rest(self) -> None:
        """Frees the model; the next question loads it again."""
        if self.instance is not None:
            plan = self.instance.loaded.plan
            self._free()
            self._publish(ModelStateChanged("none", str(plan.path), plan.shape.name))

    def abandon_loading(self) -> None:
        """Makes a load under way give up (from any thread)."""
        self._abandoned.set()

    def close(self) -> None:
        """Makes a load under way give up, and every later one at once (from any thread).

        This starts the time limit for writing kept KV. A second call does nothing.
        """
        if not self.is_closing:
            self._closes_by = time.monotonic() + KEEPING_SECONDS
            self._is_closing.set()
            self._shared.trials.note_closing()

    @property
    def is_closing(self) -> bool:
        return self._is_closing.is_set()

    def end(self) -> None:
        """Frees the model; waits for its KV to be written for as long as `close` allows, and drops the rest."""
        self.close()
        self.unload()
        self._shared.close(self._keeping_seconds)

    @property
    def _keeping_seconds(self) -> float:
        """How long writing kept KV may still take."""
        return max(0.0, min(KEEPING_SECONDS, self._closes_by - time.monotonic()))

    @property
    def _is_given_up(self) -> bool:
        return self._abandoned.is_set() or self.is_closing

    def _load(self, path: Path, n_gpu_layers: int | None) -> ModelInstance:
        if self._is_given_up:
            # Otherwise it would notice only after reading the header, from a disk that may be slow.
            raise ModelLoadFailed(f"{path.name} was not loaded: it is not wanted any more.")
        planner, shared = self.planner, self._shared
        if shared.devices:
            shared.measure_card(shared.devices[0], self._goes_on)
        loaded = load(
            planner.plan(path, n_gpu_layers),
            Attempts(
                shared.trials,
                planner.hardware_now,
                planner.planning,
                self._publish,
                self._begin_attempt,
                lambda plan: build(plan, self._cache_files(), self.share, self._leases, self._progress(plan)),
                lambda: self._is_given_up,
            ),
        )
        if (unpacked := loaded.plan.unpacked) is not None:
            # The incomplete copy has been deleted by now, so this is the free space without it.
            shared.not_packed[path] = None if unpacked == "for_good" else planner.hardware().disk_free_bytes
        if not loaded.plan.demand.can_copy_streamed:
            shared.not_copied.add(path)
        if loaded.copied is None and not loaded.plan.placement.is_packed:
            shared.left_in_order.add(path)
        shared.look_at_devices()
        means = Means(
            self.share,
            self._leases,
            planner.hardware,
            planner.planning,
            shared.trials,
            self._reads_on,
            shared.kept_folder,
            planner.budgets,
            lambda placement: self._make_room(placement, lambda: not self._reads_on(0.0)),
        )
        has_own_layers = n_gpu_layers is not None
        return ModelInstance(loaded, planner, means, self._publish, self._phases, has_own_layers=has_own_layers)

    def _begin_attempt(self, plan: LoadPlan) -> None:
        self._attempted = plan
        self._publish(ModelStateChanged("loading", str(plan.path), plan.shape.name, sentence=plan.sentence))
        self._make_room(plan.placement, lambda: not self._goes_on())

    def _cache_files(self) -> CacheFiles:
        return self._shared.files(self.planner.disk_room)

    def _goes_on(self) -> bool:
        """Returns whether to continue loading; called regularly during a load."""
        self.while_loading()
        return not self._is_given_up

    def _reads_on(self, _: float) -> bool:
        """Returns whether to continue reading the weights of a model with requests under way; called regularly."""
        self.while_loading()
        return not self.is_closing

    def _progress(self, plan: LoadPlan) -> Callable[[float], bool]:
        shown, sentence = 0.0, plan.sentence

        def on_progress(fraction: float) -> bool:
            nonlocal shown
            # The fraction falls when the model is loaded once more, because the first way failed.
            shown = min(shown, fraction)
            if fraction - shown >= MIN_PROGRESS_STEP:
                shown = fraction
                self._publish(ModelStateChanged("loading", str(plan.path), plan.shape.name, fraction, sentence))
            return self._goes_on()

        return on_progress

    def _free(self) -> None:
        if self.instance is not None:
            self.instance.loaded.close(self._keeping_seconds)
            self.instance = None
        self._leases.release()
        self._attempted = None
        self._shared.look_at_devices()
