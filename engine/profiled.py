"""The planner with what this machine measured: plans, and says whether another placement is worth its pause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.competing import place_index
from engine.memory.concessions import conceding
from engine.memory.demand import Backlog, Demand, losing_nothing
from engine.memory.gangs import Sharing
from engine.memory.hardware import Hardware
from engine.memory.hysteresis import Hysteresis, pause_seconds
from engine.memory.placement import Placement
from engine.memory.planner import plan, predicted, sharing_of
from engine.memory.profile import Profile


class ProfiledPlanner:
    """`placed` may be called from any thread; the rest is for the one that looks after memory."""

    def __init__(self, profile: Callable[[], Profile]) -> None:
        self._profile = profile
        self._newest: tuple[Backlog, Demand] | None = None
        self._hysteresis = Hysteresis(self._renewed, self._pause_seconds)

    def plan(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """As `placed`; by this demand it is judged whether to change."""
        if demand.shape.layer_bytes:
            self._newest = backlog, losing_nothing(demand)
        return self._placed(hardware, backlog, demand)

    def placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """Where everything is to live; without a model, where the index is."""
        return self._placed(hardware, backlog, demand)

    def _placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        if not demand.shape.layer_bytes:
            return place_index(demand, hardware.ram_capacity_bytes)
        return conceding(partial(plan, hardware, self._profile(), backlog), demand)

    def sharing(self, placement: Placement, backlog: Backlog, demand: Demand) -> Sharing | None:
        """What scripts' questions gain by sharing steps, with a model placed like this; None where few are there."""
        if backlog.num_answers < 2 or not demand.shape.layer_bytes:
            return None
        return sharing_of(placement, self._profile(), backlog, demand)

    def should_change(self, current: Placement, wanted: Placement, now: float, *, must: bool = False) -> bool:
        """Whether to leave a placement for what was planned last, at `now` in seconds."""
        num_questions = 1
        if self._newest is not None:
            backlog, _ = self._newest
            num_questions = backlog.waiting + backlog.running
        return self._hysteresis.should_change(current, wanted, now, must=must, num_questions=num_questions)

    def _renewed(self, placement: Placement) -> Placement:
        """With what it is expected to give at the backlog of now."""
        if self._newest is None or not placement.num_layers:
            return placement
        backlog, demand = self._newest
        return replace(placement, prediction=predicted(placement, self._profile(), backlog, demand))

    def _pause_seconds(self, current: Placement, wanted: Placement) -> float:
        if self._newest is None or not wanted.num_layers:
            return 0.0
        return pause_seconds(current, wanted, self._profile(), self._newest[1].shape)
