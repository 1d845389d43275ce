"""Gathers what a load is planned by: the settings in force, what is free of the machine, and what competes with it.

load_plan.py decides from values; they are gathered here anew for each plan, since all of them change. Nothing is
loaded.
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
    """Adds nothing that competes with the model."""
    return demand


def nothing_else(given_up: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """Gives up nothing beyond what is given up already."""
    return given_up


@dataclass(slots=True)
class LoadPlanner:
    """Plans loads of one model; on the generation thread, except `demand`.

    `data_folder` is on the disk that is checked for free space, `planning` places a model, and `beside` adds to its
    demand what competes with it. `takes_turns`: another model may get its memory between two tokens. `needed_cells` are
    the cells that the requests under way need now and for a while. `done_without` returns the rungs that are given up
    by now, given those that the plan in force gave up.
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
        """Returns a planner for one more model, which need not share its memory yet."""
        return replace(self, takes_turns=False, needed_cells=0, done_without=nothing_else)

    def hardware(self) -> Hardware:
        """Probes the machine; its devices are as they were last probed."""
        return probe(self.data_folder, self.shared.devices)

    def hardware_now(self) -> Hardware:
        """Probes the machine and its devices: after a failed allocation, other programs may have taken memory."""
        self.shared.look_at_devices()
        return self.hardware()

    def plan(self, path: Path, n_gpu_layers: int | None) -> LoadPlan:
        """Plans how a model would be loaded now.

        Raises:
            ModelError: Its header cannot be read.
        """
        beside = partial(self._with_all, path)
        return plan_load(path, self.settings(), self.hardware(), n_gpu_layers, self.planning, beside)

    def placed_again(self, plan: LoadPlan, needed_cells: int = 0) -> LoadPlan:
        """Returns the present plan of a model that has to be read again, without what is given up by now.

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
        """Returns a loaded model's plan with the losses that the user allows now, and without what is given up by now.

        It is the basis of plans that load less.
        """
        wishes = replace(plan.demand.wishes, may_lose=self.settings().memory.may_lose)
        return replace(plan, demand=replace(plan.demand, wishes=wishes), given_up=self.done_without(plan.given_up))

    def demand(self, plan: LoadPlan) -> Demand:
        """Returns what a loaded model wants under the settings in force, and what competes with it."""
        demand = replace(plan.demand_by(self.settings()), least_cells=self.needed_cells)
        return self._with_all(plan.path, demand)

    def room_bytes(self, plan: LoadPlan) -> int:
        """Returns the free memory for more of a loaded model, within the budget; below 0 others take too much."""
        demand, hardware = self.demand(plan), self.hardware()
        # Memory that is certain to be taken counts as taken, unless it would not fit even if all spare weights left.
        room_bytes = self._room_bytes(hardware, demand)
        if room_bytes + self.shared.ledger.held_bytes("ram", SPARE_OWNER) >= 0:
            return room_bytes
        return self._room_bytes(hardware, without_what_comes(demand))

    def headroom_bytes(self) -> int:
        """Returns how much memory is left to other programs."""
        return headroom_bytes(self.hardware())

    def disk_room(self) -> int:
        """Returns how much of the disk kept KV may use."""
        return disk_room(self.settings().generation, self.hardware())

    def budgets(self) -> Budgets:
        """Returns the user's budgets."""
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
