"""The planner with this machine's measurements: plans, and decides whether another placement is worth its pause.

What is measured is refined with nearly every step, and a plan for each refinement would be for nothing. So it also says
when so much more is known that another plan may come of it.
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

# What was refined by less has changed no plan that is worth it.
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
# What is known at once, and not little by little.
_KNOWN = ("is_measured", "card", "offloads_from_tokens")


class ProfiledPlanner:
    """`placed` may be called from any thread; the rest is for the one that looks after memory."""

    def __init__(self, profile: Callable[[], Profile]) -> None:
        self._profile = profile
        self._newest: tuple[Backlog, Demand] | None = None
        # What was known when it was planned last, and of which model; None where that took no knowledge.
        self._rests_on: tuple[Profile, str] | None = None
        self._hysteresis = Hysteresis(self._renewed, self._pause_seconds)

    def plan(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """As `placed`; by this demand it is judged whether to change."""
        profile, self._rests_on = self._profile(), None
        if demand.shape.layer_bytes:
            self._newest = backlog, losing_nothing(demand)
            self._rests_on = profile, table_key(demand.shape)
        return _placed(hardware, profile, backlog, demand)

    def knows_better(self) -> bool:
        """Whether so much more is known by now than at the last `plan` that another may come of it."""
        return self._rests_on is not None and differs(self._rests_on[0], self._profile(), self._rests_on[1])

    def placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        """Where everything is to live; without a model, where the index is."""
        return _placed(hardware, self._profile(), backlog, demand)

    def sharing(self, placement: Placement, backlog: Backlog, demand: Demand) -> QueueSharing | None:
        """What scripts' questions gain by sharing steps, with a model placed like this; None where few are there."""
        if backlog.num_answers < 2 or not demand.shape.layer_bytes:
            return None
        return sharing_of(placement, self._profile(), backlog, demand)

    def should_change(self, current: Placement, wanted: Placement, now: float, *, must: bool = False) -> bool:
        """Whether to leave a placement for what was planned last, at `now` in seconds."""
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
        """With what it is expected to give at the backlog of now."""
        if self._newest is None or not placement.num_layers:
            return placement
        backlog, demand = self._newest
        return replace(placement, prediction=predicted(placement, self._profile(), backlog, demand))

    def _pause_seconds(self, current: Placement, wanted: Placement) -> float:
        if self._newest is None or not wanted.num_layers:
            return 0.0
        return pause_seconds(current, wanted, self._profile(), self._newest[1].shape)


def differs(then: Profile, now: Profile, key: str) -> bool:
    """Whether something was measured, or a rate has moved for good, for the machine or the model under this key."""
    if then is now:
        return False
    if any(getattr(then, name) != getattr(now, name) for name in _KNOWN):
        return True
    rates = [(getattr(then, name), getattr(now, name)) for name in _RATES]
    rates += zip(then.disk_bytes_per_s, now.disk_bytes_per_s, strict=True)
    return any(_has_moved(*pair) for pair in rates) or _tables_differ(then.table(key), now.table(key))


def _tables_differ(then: Measured, now: Measured) -> bool:
    """Whether another pass was measured, or one takes another time by now."""
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
    # The model is there before the reranker, which then finds no room and is left out: no reason to run badly.
    return conceding(lossless, without)
