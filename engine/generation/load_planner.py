"""What a load is planned by: the settings in force, what is free of the machine, and what competes with the model.

load_plan.py decides from values; here they are gathered, each time again, since all of them change. Nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from engine.config import Settings
from engine.generation.kv_room import disk_room
from engine.generation.load_plan import LoadPlan, Planning, plan_load, unmeasured
from engine.generation.shared_resources import SharedResources
from engine.memory.demand import SPARE_OWNER, Budgets, Demand, losing_nothing, undecided, without_what_comes
from engine.memory.hardware import Hardware, probe
from engine.memory.ladder import Rung, constrained
from engine.memory.room import headroom_bytes, left_bytes


def nothing_beside(demand: Demand) -> Demand:
    """The model alone, with nothing that competes with it."""
    return demand


def nothing_else(given_up: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """What was given up once stays given up."""
    return given_up


@dataclass(slots=True)
class LoadPlanner:
    """Plans loads of one model; on the generation thread, except `demand`.

    `data_folder` tells which disk is asked for free space, `planning` places a model, and `beside` adds to its demand
    what competes with it. `takes_turns`: its memory may be another model's between two tokens. `needed_cells` are those
    of the requests under way, now and for a while. `done_without` returns what is done without by now, given what the
    plan in force gave up.
    """

    settings: Callable[[], Settings]
    data_folder: Path
    shared: SharedResources
    planning: Planning = unmeasured
    beside: Callable[[Demand], Demand] = nothing_beside
    takes_turns: bool = False
    needed_cells: int = 0
    done_without: Callable[[tuple[Rung, ...]], tuple[Rung, ...]] = nothing_else

    def another(self) -> LoadPlanner:
        """A planner for one more model, which need not share its memory yet."""
        return replace(self, takes_turns=False, needed_cells=0, done_without=nothing_else)

    def hardware(self) -> Hardware:
        """What the machine has, with its devices as they were at the last look."""
        return probe(self.data_folder, self.shared.devices)

    def hardware_now(self) -> Hardware:
        """The same with its devices looked at again: a failed allocation may show that others have taken memory."""
        self.shared.look_at_devices()
        return self.hardware()

    def plan(self, path: Path, n_gpu_layers: int | None) -> LoadPlan:
        """How a model would be loaded now.

        Raises:
            ModelError: Its header cannot be read.
        """
        beside = partial(self._with_all, path)
        return plan_load(path, self.settings(), self.hardware(), n_gpu_layers, self.planning, beside)

    def placed_again(self, plan: LoadPlan, needed_cells: int = 0) -> LoadPlan:
        """The present plan of a model that has to be read again; it does without what is done without now.

        Nothing is conceded that would leave fewer cells than the `needed_cells` of a request under way.
        """
        demand, hardware = self.demand(plan), self.hardware()
        given_up = self.done_without(plan.given_up)
        wanted = constrained(demand, given_up)
        placement = self.planning(hardware, wanted)
        if placement.num_concessions and max(placement.num_cells, placement.context_tokens) < needed_cells:
            placement = self.planning(hardware, losing_nothing(wanted))
        return replace(plan.placed(placement), demand=demand, given_up=given_up)

    def as_of_now(self, plan: LoadPlan) -> LoadPlan:
        """The plan of a loaded model with the losses that the user allows by now, and without what is done without now.

        Loading less is planned from it.
        """
        wishes = replace(plan.demand.wishes, may_lose=self.settings().memory.may_lose)
        return replace(plan, demand=replace(plan.demand, wishes=wishes), given_up=self.done_without(plan.given_up))

    def demand(self, plan: LoadPlan) -> Demand:
        """What a loaded model wants under the settings in force, and what competes with it."""
        demand = replace(plan.demand_by(self.settings()), least_cells=self.needed_cells)
        return self._with_all(plan.path, demand)

    def room_bytes(self, plan: LoadPlan) -> int:
        """Free memory for more of a loaded model, within the budget; below 0: others take too much."""
        demand, hardware = self.demand(plan), self.hardware()
        # What is bound to come counts as if it were there, unless it would find no room even if all spare weights left.
        room_bytes = self._room_bytes(hardware, demand)
        if room_bytes + self.shared.ledger.held_bytes("ram", SPARE_OWNER) >= 0:
            return room_bytes
        return self._room_bytes(hardware, without_what_comes(demand))

    def headroom_bytes(self) -> int:
        """The part of memory that is left to others."""
        return headroom_bytes(self.hardware())

    def disk_room(self) -> int:
        """How much of the disk may hold what is kept."""
        return disk_room(self.settings().generation, self.hardware())

    def budgets(self) -> Budgets:
        """The user's budgets."""
        memory = self.settings().memory
        return Budgets(memory.gpu_budget_bytes, memory.ram_budget_bytes, memory.disk_budget_bytes)

    def _room_bytes(self, hardware: Hardware, demand: Demand) -> int:
        ledger = self.shared.ledger
        fixed_bytes = sum(span.num_bytes for span in demand.fixed if span.tier == "ram")
        there_bytes = sum(span.num_bytes for span in undecided(ledger.spans("ram")))
        spare_bytes = ledger.held_bytes("ram", SPARE_OWNER)
        entered_bytes = ledger.counted_bytes("ram") + spare_bytes + max(0, fixed_bytes - there_bytes)
        return left_bytes(hardware, demand, entered_bytes)

    def _with_all(self, path: Path, demand: Demand) -> Demand:
        full = self.beside(demand)
        can_leave = self.takes_turns and path in self.shared.left_in_order
        is_packable = full.is_packable and self.shared.may_pack(path, lambda: self.hardware().disk_free_bytes)
        can_copy_streamed = full.can_copy_streamed and path not in self.shared.not_copied
        wishes = replace(full.wishes, can_leave=can_leave)
        return replace(full, is_packable=is_packable, can_copy_streamed=can_copy_streamed, wishes=wishes)
