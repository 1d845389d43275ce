"""The planner with this machine's measurements: plans, and decides whether another placement is worth its pause.

Measurements are refined with nearly every step, and a plan for each refinement would be a waste. So this also says when
so much more is known that another plan may result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.competing import place_index
from engine.memory.concessions import conceding
from engine.memory.demand import Backlog, Demand, losing_nothing, without_what_comes
from engine.memory.gangs import QueueSharing
from engine.memory.hardware import Hardware
from engine.memory.hysteresis import Hysteresis, pause_seconds
from engine.memory.measured import Measured, table_key
from engine.memory.placement import Placement
from engine.memory.planner import plan, predicted, sharing_of
from engine.memory.profile import RATES, Profile

# Smaller refinements change no plan by enough to be worth it.
NOTABLE_SHARE = 0.05
_RATES = (
    *RATES,
    "repack_decode_gain",
    "repack_prefill_gain",
    "step_s",
    "retrieval_s",
    "retrieval_load_s",
    "retrieval_query_s",
)
# What becomes known at once, and not gradually.
_KNOWN = ("is_measured", "card", "offloads_from_tokens")


class ProfiledPlanner:
    """Plans with the profile in force. `placed` may be called from any thread, the rest only on that of the loop."""

    def __init__(self, profile: Callable[[], Profile]) -> None:
        self._profile = profile
        self._newest: tuple[Backlog, Demand] | None = None
        # The profile and the model's key of the last plan; None if that used no measurements.
        self._rests_on: tuple[Profile, str] | None = None
        self._hysteresis = Hysteresis(self._renewed, self._pause_seconds)

    def plan(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """Does the same as `placed`; `should_change` then judges by this demand."""
        profile, self._rests_on = self._profile(), None
        if demand.shape.layer_bytes:
            self._newest = backlog, losing_nothing(demand)
            self._rests_on = profile, table_key(demand.shape)
        return _placed(hardware, profile, backlog, demand)

    def knows_better(self) -> bool:
        """Returns whether so much more is known than at the last `plan` that another one may result."""
        return self._rests_on is not None and differs(self._rests_on[0], self._profile(), self._rests_on[1])

    def placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """Decides where everything is to live; without a model, how much of the index is in memory."""
        return _placed(hardware, self._profile(), backlog, demand)

    def sharing(self, placement: Placement, backlog: Backlog, demand: Demand) -> QueueSharing | None:
        """Returns what scripts' questions gain by sharing steps, with a model placed so; None for fewer than two."""
        if backlog.num_answers < 2 or not demand.shape.layer_bytes:
            return None
        return sharing_of(placement, self._profile(), backlog, demand)

    def should_change(self, current: Placement, wanted: Placement, now: float, *, must: bool = False) -> bool:
        """Returns whether to leave a placement for what was planned last, at `now` in seconds."""
        backlog = self._newest[0] if self._newest is not None else Backlog(running=1)
        return self._hysteresis.should_change(
            current,
            wanted,
            now,
            must=must,
            num_questions=backlog.waiting + backlog.running,
            is_waited_for=backlog.waiting > 0 and backlog.running > 0,
        )

    def _renewed(self, placement: Placement) -> Placement:
        """Returns the placement with its prediction for the present backlog."""
        if self._newest is None or not placement.num_layers:
            return placement
        backlog, demand = self._newest
        return replace(placement, prediction=predicted(placement, self._profile(), backlog, demand))

    def _pause_seconds(self, current: Placement, wanted: Placement) -> float:
        if self._newest is None or not wanted.num_layers:
            return 0.0
        return pause_seconds(current, wanted, self._profile(), self._newest[1].shape)


def differs(then: Profile, now: Profile, key: str) -> bool:
    """Returns whether something was measured, or a rate changed notably, for the machine or the model with this key."""
    if then is now:
        return False
    if any(getattr(then, name) != getattr(now, name) for name in _KNOWN):
        return True
    rates = [(getattr(then, name), getattr(now, name)) for name in _RATES]
    rates += zip(then.disk_bytes_per_s, now.disk_bytes_per_s, strict=True)
    return any(_has_moved(*pair) for pair in rates) or _tables_differ(then.table(key), now.table(key))


def _tables_differ(then: Measured, now: Measured) -> bool:
    """Returns whether another pass was measured, or the time of one has changed notably."""
    if then is now:
        return False
    before, after = (
        {(point.split, point.kind, point.size): (point.seconds or 0.0) for point in measured.points}
        for measured in (then, now)
    )
    return before.keys() != after.keys() or any(_has_moved(before[one], after[one]) for one in before)


def _has_moved(then: float, now: float) -> bool:
    return abs(now - then) > NOTABLE_SHARE * max(then, now)


def _placed(hardware: Hardware, profile: Profile, backlog: Backlog, demand: Demand) -> Placement:
    if not demand.shape.layer_bytes:
        return place_index(demand, hardware.ram_capacity_bytes)
    lossless = partial(plan, hardware, profile, backlog)
    placement, without = conceding(lossless, demand), without_what_comes(demand)
    if without is demand or not (placement.is_starved or placement.num_concessions):
        return placement
    # The model is loaded before the reranker, which is left out if it finds no room: no reason to run the model badly.
    return conceding(lossless, without)
