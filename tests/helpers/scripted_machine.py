"""A machine, a model and an index of figures, for tests of the loop over memory; time passes when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.adapting import Adapting
from engine.config import GIB, MIB, MemorySettings, Settings
from engine.core import ModelShape, Span
from engine.events import ModelStateChanged, PlacementSettled
from engine.handing_over import Here
from engine.memory.demand import Backlog, Demand, Wishes
from engine.memory.hardware import Device, Hardware
from engine.memory.ledger import Lease, Ledger
from engine.memory.placement import Placement
from engine.memory.pressure import PressureGauge, Stalls
from engine.memory.profile import Profile
from engine.profiled import ProfiledPlanner
from engine.sight import InForce, Senses, Use

# 3.2 GB of weights in 32 layers, cells of 64 KiB.
SHAPE = ModelShape(
    "m", "llama", 8192, (96 * MIB,) * 32, 256 * MIB, 128 * MIB, (2048,) * 32, 32_000, 3328 * MIB, has_chat_template=True
)
RUNTIME_BYTES = 512 * MIB
PARTITIONS, PARTITION_BYTES = 8, 200 * MIB


@dataclass
class ScriptedMachine:
    """What there is to see, and what was done about it; `loop` is what looks after it."""

    ram_bytes: int = 16 * GIB
    others_bytes: int = 2 * GIB
    gpu_bytes: int = 0
    gpu_others_bytes: int = 0
    may_lose: bool = False
    is_loaded: bool = True
    is_deaf: bool = False
    fails: str = ""
    now: float = 1000.0
    ledger: Ledger = field(default_factory=Ledger)
    settings: Settings = field(default_factory=Settings)
    backlog: Backlog = field(default_factory=Backlog)
    stalls: Stalls = field(default_factory=Stalls)
    applied: list[Placement] = field(default_factory=list)
    index_budgets: list[int] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    on_tick: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.index_bytes = 0
        # What partitions really take; None: all that they may.
        self.used_index_bytes: int | None = None
        # What memory holds of answers that wait for cells.
        self.set_aside_bytes = 0
        self.placement: Placement | None = None
        self._asked: list[Placement] = []
        self._leases: list[Lease] = []
        self.ledger.take("runtime", "interpreter and libraries", "ram", RUNTIME_BYTES)
        self.planner = ProfiledPlanner(Profile)
        self.loop = Adapting(
            Senses(self.hardware, lambda: self.settings, lambda: self.backlog, self.in_force, self.use),
            self,
            self.ledger,
            self.planner.plan,
            self.planner.should_change,
            PressureGauge(lambda: self.stalls),
            clock=lambda: self.now,
        )
        if self.is_loaded:
            self.load()

    # --- what the loop sees ---

    def hardware(self) -> Hardware:
        held, gpu = self.ledger.held_bytes("ram"), self.ledger.held_bytes("gpu")
        free = max(0, self.ram_bytes - self.others_bytes - held)
        gpu_free = self.gpu_bytes - self.gpu_others_bytes - gpu
        devices = (Device("GPU0", "A card", self.gpu_bytes, gpu_free),) if self.gpu_bytes else ()
        return Hardware(self.ram_bytes, free, 500 * GIB, 300 * GIB, held, devices)

    def in_force(self) -> InForce:
        if self.placement is None:
            alone = replace(self._demand(), shape=NO_SHAPE)
            return InForce(alone, Here(Placement(0, 0, 0, RUNTIME_BYTES, "", num_slots=0), self.index_bytes))
        return InForce(self._demand(), Here(self.placement, self.index_bytes))

    def use(self) -> Use:
        tree = self.placement.kv_ram_bytes if self.placement is not None else 0
        index_bytes = self.index_bytes if self.used_index_bytes is None else self.used_index_bytes
        return Use(tree_bytes=tree, index_bytes=index_bytes, set_aside_bytes=self.set_aside_bytes)

    def _demand(self) -> Demand:
        memory, waiting = self.settings.memory, self.backlog.waiting + self.backlog.running
        return Demand(
            SHAPE,
            context_tokens=4096,
            parallel_answers=max(4, min(64, waiting)),
            fixed=(Span("runtime", "all of it", "ram", RUNTIME_BYTES),),
            index_bytes=PARTITIONS * PARTITION_BYTES,
            partition_bytes=PARTITION_BYTES,
            num_partitions=PARTITIONS,
            wishes=Wishes(may_lose=self.may_lose, index_bytes=memory.index_budget_bytes),
            device_reserve_bytes=memory.device_reserve_bytes,
            held_gpu_bytes=self.ledger.held_bytes("gpu"),
        )

    # --- what the loop has done ---

    def apply(self, placement: Placement) -> None:
        self.applied.append(placement)
        self._asked.append(placement)

    def set_index_bytes(self, num_bytes: int) -> None:
        self.index_budgets.append(num_bytes)
        self.index_bytes = num_bytes
        self._hold()

    def move_embedder(self, to_gpu: bool) -> None:
        self.acts.append(f"embedder on the card {to_gpu}")

    def rest_model(self) -> None:
        self.acts.append("rest")
        self.placement = None
        self._hold()

    def keep_in_cells(self, may_lie: bool) -> None:
        self.acts.append(f"cells {may_lie}")

    def set_aside_on_disk(self, is_on_disk: bool) -> None:
        self.acts.append(f"set aside on disk {is_on_disk}")

    # --- what the test does ---

    def load(self) -> None:
        """As the generation thread does: by the plan of the moment."""
        budgets = self.loop.budgets()
        demand = replace(
            self._demand(), budgets=replace(budgets, disk_bytes=(budgets.disk_bytes or 0) + SHAPE.file_bytes)
        )
        self.placement = self.planner.plan(self.hardware(), self.backlog, demand)
        self.set_index_bytes(self.placement.index_bytes)
        self.loop.note(ModelStateChanged("loaded", "/m.gguf", "m", 1.0, self.placement.sentence))

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
        self.placement = placement
        self._hold()
        self.loop.note(PlacementSettled(True, "Answers paused for 0.1 s.", 0.1))

    def _hold(self) -> None:
        """Has the ledger say what lies where."""
        for lease in self._leases:
            lease.release()
        self._leases = [self.ledger.take("index", "partition 0", "ram", self.index_bytes)] if self.index_bytes else []
        if self.placement is not None:
            model = self.placement.ram_bytes - self.placement.index_bytes - RUNTIME_BYTES
            self._leases.append(self.ledger.take("weights", "all of it", "ram", max(0, model)))
            self._leases.append(self.ledger.take("weights", "all of it", "gpu", self.placement.gpu_bytes))


NO_SHAPE = ModelShape("", "", 0, (), 0, 0, (), 0, 0, has_chat_template=False)
