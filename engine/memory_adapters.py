"""What the loop over memory sees of this engine, and how it acts on the engine's parts."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from engine.competing import Competitors, nothing_but_index
from engine.embedder.backends import Place
from engine.generation.pool import ModelPool
from engine.generation.worker import GenerationWorker
from engine.handing_over import Here
from engine.memory.backlog import BacklogWatch
from engine.memory.demand import Budgets, Demand
from engine.memory.gangs import QueueSharing
from engine.memory.hardware import Hardware, probe
from engine.memory.placement import Placement
from engine.memory_interfaces import InForce, Use
from engine.stores import StoresOpener


class EngineMemoryState:
    """The engine as the loop sees it. Each method can be called from any thread, and never blocks."""

    def __init__(
        self,
        data_folder: Path,
        models: ModelPool,
        generation: GenerationWorker,
        stores: StoresOpener,
        competitors: Competitors,
        backlog: BacklogWatch,
    ) -> None:
        self._data_folder, self._models, self._generation = data_folder, models, generation
        self._stores, self._competitors, self._backlog = stores, competitors, backlog

    def hardware(self) -> Hardware:
        """Probes the machine; its devices are as they were last seen, because only their own thread may ask them."""
        devices = self._models.principal.loader.devices
        if devices:
            self._generation.look_at_devices()
        return probe(self._data_folder, devices)

    def in_force(self) -> InForce:
        """Returns what the loaded model wants and where it is; without a model, the same of the index alone."""
        # The model is read first: if another is loaded meanwhile, what is planned from this is refused.
        loader = self._models.principal.loader
        loaded, demand = loader.loaded_now, loader.demand
        index_bytes = self._stores.partition_bytes or 0
        stores = self._stores.opened()
        on_gpu = stores is not None and stores.embedder.place == "card"
        if loaded is None or demand is None:
            alone = self._competitors.alone()
            here = Here(nothing_but_index(index_bytes, alone), index_bytes, on_gpu)
            return InForce(alone, here)
        plan = loaded.plan
        here = Here(plan.placement, index_bytes, on_gpu, demand.embedder_bytes)
        return InForce(demand, here, plan.given_up, plan.path)

    def beside(self, demand: Demand, budgets: Budgets) -> Demand:
        """Returns a model's demand with all that competes with it, within what may be held."""
        backlog, has_device = self._backlog.now(), bool(self._models.principal.loader.devices)
        full = self._competitors.beside(demand, num_questions=backlog.waiting + backlog.running, has_device=has_device)
        return replace(full, budgets=budgets)

    def use(self) -> Use:
        counters = self._generation.counters
        return Use(
            tree_bytes=int(counters.get("kv_kept_in_memory_bytes", 0)),
            index_bytes=self._competitors.resident_index_bytes,
            kept_cells_bytes=int(counters.get("kv_kept_in_cells_bytes", 0)),
            set_aside_bytes=self._competitors.set_aside_bytes,
        )


class EngineMemoryActions:
    """Carries out what the loop decides; implements `memory_interfaces.MemoryActions`."""

    def __init__(self, models: ModelPool, generation: GenerationWorker, stores: StoresOpener) -> None:
        self._models, self._generation, self._stores = models, generation, stores
        self._moving = threading.Thread()

    def apply(self, placement: Placement, path: Path) -> None:
        self._generation.apply(placement, path)

    def set_index_bytes(self, num_bytes: int) -> None:
        self._stores.set_partition_bytes(num_bytes)

    def move_embedder(self, to_gpu: bool) -> None:
        stores = self._stores.opened()
        # The move waits for a running batch, but not on this thread; `is_embedder_moving` shows when it is done.
        if stores is not None and not self._moving.is_alive():
            where: Place = "card" if to_gpu else "memory"
            self._moving = threading.Thread(
                target=stores.embedder.move, args=(where,), name="embedder-moves", daemon=True
            )
            self._moving.start()

    @property
    def is_embedder_moving(self) -> bool:
        return self._moving.is_alive()

    def leave_card(self) -> bool:
        """Makes an embedder on a graphics card leave it; returns whether none is there."""
        stores = self._stores.opened()
        if stores is None or stores.embedder.place != "card":
            return True
        self.move_embedder(to_gpu=False)
        return False

    def share_steps(self, sharing: QueueSharing | None) -> None:
        self._generation.share_steps(sharing)

    def keep_in_cells(self, may_lie: bool) -> None:
        self._generation.keep_in_cells(may_lie)

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        self._generation.set_aside_on_disk(is_on_disk)

    def rest_model(self) -> None:
        loaded = self._models.principal.loaded
        if loaded is not None:
            self._generation.rest(loaded.plan.path)
