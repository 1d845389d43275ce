"""A machine, a model and an index of figures, for tests of the loop over memory; time passes when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.adapting import Adapting
from engine.competing import coarse
from engine.config import GIB, MIB, MemorySettings, Settings
from engine.core import ModelShape
from engine.events import ModelStateChanged, PlacementSettled
from engine.generation.changing import change_of
from engine.generation.model_leases import ModelLeases
from engine.generation.weights.layer_leases import LayerLeases
from engine.handing_over import Here
from engine.making_room import RoomMaker
from engine.memory.demand import DECIDED_OWNERS, Backlog, Demand, Wishes, undecided
from engine.memory.gangs import QueueSharing
from engine.memory.hardware import CgroupMemory, Device, Hardware, ProcessMemory
from engine.memory.ladder import LadderState, Rung, constrained, next_rung
from engine.memory.ledger import Lease, Ledger
from engine.memory.placement import Placement
from engine.memory.pressure import PressureGauge, Stalls
from engine.memory.profile import Profile
from engine.memory.room import Held
from engine.memory.runtime import in_other_processes
from engine.memory_interfaces import InForce, MemoryState, Use
from engine.profiled import ProfiledPlanner

# 3.2 GB of weights in 32 layers, cells of 64 KiB.
SHAPE = ModelShape("m", "llama", 8192, (96 * MIB,) * 32, 256 * MIB, 128 * MIB, (2048,) * 32, 32_000, 3328 * MIB)
RUNTIME_BYTES = 512 * MIB
PARTITIONS, PARTITION_BYTES = 8, 200 * MIB


@dataclass
class ScriptedMachine:
    """What there is to see, and what was done about it; `loop` is what looks after it."""

    ram_bytes: int = 16 * GIB
    others_bytes: int = 2 * GIB
    gpu_bytes: int = 0
    gpu_others_bytes: int = 0
    disk_free_bytes: int = 300 * GIB
    may_lose: bool = False
    is_streamable: bool = True
    is_loaded: bool = True
    is_deaf: bool = False
    fails: str = ""
    path: Path = Path("/m.gguf")
    # So many layers the card takes, whatever is estimated; None: as many as are estimated.
    most_layers: int | None = None
    # Seconds that a placement takes to be tried.
    trying_seconds: float = 0.0
    now: float = 1000.0
    ledger: Ledger = field(default_factory=Ledger)
    settings: Settings = field(default_factory=Settings)
    backlog: Backlog = field(default_factory=Backlog)
    profile: Profile = field(default_factory=Profile)
    stalls: Stalls = field(default_factory=Stalls)
    applied: list[Placement] = field(default_factory=list)
    index_budgets: list[int] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    sharings: list[QueueSharing | None] = field(default_factory=list)
    on_tick: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.index_bytes = 0
        # What partitions really take; None: all that they may.
        self.used_index_bytes: int | None = None
        # What memory holds of answers that wait for cells.
        self.set_aside_bytes = 0
        self.placement: Placement | None = None
        self.given_up: tuple[Rung, ...] = ()
        self._asked: list[Placement] = []
        self._leases: list[Lease] = []
        self._weights = ModelLeases(self.ledger)
        self._layers = LayerLeases(self.ledger, SHAPE.layer_bytes, 0)
        # What the process takes and nobody has entered, and pages of files that were entered and have left.
        self.unnamed_bytes = self.absent_bytes = 0
        # The most that memory has held at a time.
        self.most_bytes = 0
        self.partition_bytes: int | None = None
        self.ledger.take("runtime", "interpreter and libraries", "ram", RUNTIME_BYTES)
        self.planner = ProfiledPlanner(lambda: self.profile)
        self.loop = Adapting(
            MemoryState(self.hardware, lambda: self.settings, lambda: self.backlog, self.in_force, self.use),
            self,
            self.ledger,
            self.planner.plan,
            self.planner.should_change,
            PressureGauge(lambda: self.stalls),
            clock=lambda: self.now,
            sharing_of=self.planner.sharing,
            knows_better=self.planner.knows_better,
        )
        if self.is_loaded:
            self.load()

    # --- what the loop sees ---

    def hardware(self) -> Hardware:
        gpu, children = self.ledger.held_bytes("gpu"), in_other_processes(self.ledger)
        kept = self.ledger.held_bytes("ram", is_mapped=False) - children + self.unnamed_bytes
        left = max(0, self.ram_bytes - self.others_bytes - children - kept)
        # Of files that are mapped, the system keeps as many pages as there is memory.
        mapped = sum(self.ledger.held_bytes(tier, is_mapped=True) for tier in ("ram", "disk"))
        pages = min(left, mapped - self.absent_bytes)
        gpu_free = self.gpu_bytes - self.gpu_others_bytes - gpu
        devices = (Device("GPU0", "A card", self.gpu_bytes, gpu_free),) if self.gpu_bytes else ()
        process = ProcessMemory(kept + pages, kept, pages)
        group = CgroupMemory(self.ram_bytes, left, kept, 0, 0, 0, 0)
        disk = 500 * GIB, self.disk_free_bytes
        return Hardware(self.ram_bytes, left - pages, *disk, kept + pages, devices, process, group)

    def in_force(self) -> InForce:
        if self.placement is None:
            alone = replace(self._demand(), shape=NO_SHAPE)
            return InForce(alone, Here(Placement(0, 0, 0, RUNTIME_BYTES, "", num_slots=0), self.index_bytes))
        return InForce(self._demand(), Here(self.placement, self.index_bytes), self.given_up, self.path)

    def use(self) -> Use:
        tree = self.placement.kv_ram_bytes if self.placement is not None else 0
        index_bytes = self.index_bytes if self.used_index_bytes is None else self.used_index_bytes
        return Use(tree_bytes=tree, index_bytes=index_bytes, set_aside_bytes=self.set_aside_bytes)

    def _demand(self) -> Demand:
        memory, waiting = self.settings.memory, self.backlog.waiting + self.backlog.running
        held = Held.by(self.ledger)
        return Demand(
            SHAPE,
            context_tokens=4096,
            parallel_answers=max(4, min(64, waiting)),
            fixed=coarse(undecided(self.ledger.spans())),
            index_bytes=PARTITIONS * PARTITION_BYTES,
            partition_bytes=PARTITION_BYTES,
            num_partitions=PARTITIONS,
            wishes=Wishes(may_lose=self.may_lose or memory.may_lose, index_bytes=memory.index_budget_bytes),
            is_streamable=self.is_streamable,
            device_reserve_bytes=memory.device_reserve_bytes,
            held_gpu_bytes=held.gpu_bytes,
            held_disk_bytes=held.disk_bytes,
        )

    # --- what the loop has done ---

    def apply(self, placement: Placement, path: Path) -> None:
        assert path == self.path
        self.applied.append(placement)
        self._asked.append(placement)

    def set_index_bytes(self, num_bytes: int) -> None:
        self.index_budgets.append(num_bytes)
        self.index_bytes = self.partition_bytes = num_bytes
        self._hold()

    def set_partition_bytes(self, num_bytes: int) -> None:
        self.set_index_bytes(num_bytes)

    def move_embedder(self, to_gpu: bool) -> None:
        self.acts.append(f"embedder on the card {to_gpu}")

    @property
    def is_embedder_moving(self) -> bool:
        return False

    def rest_model(self) -> None:
        self.acts.append("rest")
        self.placement = None
        self._hold()

    def keep_in_cells(self, may_lie: bool) -> None:
        self.acts.append(f"cells {may_lie}")

    def share_steps(self, sharing: QueueSharing | None) -> None:
        self.sharings.append(sharing)

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        self.acts.append(f"set aside on disk {is_on_disk}")

    # --- what the test does ---

    def load(self) -> None:
        """As the generation thread does: by the plan of the moment, with less where the card does not take it."""
        demand = replace(self._demand(), budgets=self.loop.budgets())
        placement, self.given_up = self.planner.plan(self.hardware(), self.backlog, demand), ()
        while not self._has_room(placement):
            rung = next_rung("gpu", LadderState(demand, placement, self.given_up))
            assert rung is not None
            self.given_up = (*self.given_up, rung)
            placement = self.planner.plan(self.hardware(), self.backlog, constrained(demand, self.given_up))
        self.loop.note(ModelStateChanged("loading", str(self.path), "m", 0.0, placement.sentence))
        RoomMaker(self, lambda: self.index_bytes, lambda: True)(placement, lambda: False)
        self.placement = placement
        self._hold()
        self.loop.note(ModelStateChanged("loaded", str(self.path), "m", 1.0, self.placement.sentence))

    def allow(self, **budgets: int | None) -> None:
        """The user changes budgets."""
        memory = MemorySettings.model_validate({**self.settings.memory.model_dump(), **budgets})
        self.settings = self.settings.model_copy(update={"memory": memory})

    def run(self, seconds: float) -> None:
        """Looks once a second; between two looks the generation thread does what it was asked to."""
        for _ in range(round(seconds)):
            self.on_tick()
            self.loop.tick()
            self.now += 1.0
            if self._asked and not self.is_deaf:
                self._settle(self._asked.pop(0))

    def sentences(self, *kinds: str) -> list[str]:
        """What was told of these kinds, the oldest first."""
        newest = self.loop.decisions.newest
        return [decision.sentence for decision in reversed(newest) if decision.kind in kinds]

    def _settle(self, placement: Placement) -> None:
        if self.fails:
            self.loop.note(PlacementSettled(False, self.fails))
            return
        self.now += self.trying_seconds
        if not self._has_room(placement):
            self.loop.note(PlacementSettled(False, "There was no room, so all stays as it is.", 3.0))
            return
        changed = change_of(self.placement, placement, SHAPE).words if self.placement is not None else ()
        self.placement = placement
        self._hold()
        self.loop.note(PlacementSettled(True, "Answers paused for 0.1 s.", 0.1, changed))

    def _has_room(self, placement: Placement) -> bool:
        return self.most_layers is None or placement.n_gpu_layers <= self.most_layers

    def _hold(self) -> None:
        """Has the ledger say what lies where."""
        for lease in (*self._leases, self._weights, self._layers):
            lease.release()
        self._leases = [self.ledger.take("index", "partition 0", "ram", self.index_bytes)] if self.index_bytes else []
        if self.placement is not None:
            owners = DECIDED_OWNERS
            if self.placement.is_mapped:
                self._weights.take_weights(SHAPE, self.placement)
                owners -= {"weights"}
            for layer in self.placement.streamed_layers:
                self._layers.show(layer, 0, "resident")
            spans = [span for span in self.placement.spans if span.tier == "ram" and span.owner in owners]
            model = sum(span.num_bytes for span in spans)
            self._leases.append(self.ledger.take("weights", "all of it", "ram", model))
            self._leases.append(self.ledger.take("weights", "all of it", "gpu", self.placement.gpu_bytes))
        self.most_bytes = max(self.most_bytes, self.ledger.counted_bytes("ram"))


NO_SHAPE = ModelShape("", "", 0, (), 0, 0, (), 0, 0)
