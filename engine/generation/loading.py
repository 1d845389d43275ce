"""Loads a model as planned, or less of it: after a failed allocation, one more rung is given up, and published.

Each attempt is marked on disk (load_trials.py). A mark that an earlier process left means one rung lower from the
start: a failed allocation on a device may end the process instead of raising an error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.core import Tier
from engine.errors import NoRoomToLoad
from engine.events import MemoryShort, Publish
from engine.generation.load_plan import LoadPlan, Planning, Remark
from engine.generation.load_trials import LoadTrials
from engine.generation.loaded import LoadedModel
from engine.memory.hardware import Hardware

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Attempts:
    """How a model is loaded: `begin` gets each attempt's plan, `build` carries it out; `is_given_up` stops trying."""

    trials: LoadTrials
    hardware: Callable[[], Hardware]
    planning: Planning
    publish: Publish
    begin: Callable[[LoadPlan], None]
    build: Callable[[LoadPlan], LoadedModel]
    is_given_up: Callable[[], bool]


def load(plan: LoadPlan, attempts: Attempts) -> LoadedModel:
    """Loads the model; on the generation thread.

    Raises:
        ModelError: It cannot be loaded, not even with as little as possible.
    """
    plan = _lower_after_deaths(plan, attempts)
    while True:
        attempts.begin(plan)
        try:
            with attempts.trials.of(plan.path):
                return attempts.build(plan)
        except NoRoomToLoad as error:
            if attempts.is_given_up():
                raise
            short_of: Tier = "ram" if error.is_in_memory else "gpu"
            if (lower := plan.one_lower(attempts.hardware(), attempts.planning, short_of)) is None:
                raise
            log.info("%s", error.sentence)
            attempts.publish(MemoryShort(_tier_of(lower), f"{error.sentence} {lower.given_up[-1].sentence}"))
            rung = lower.given_up[-1]
            plan = replace(lower, remarks=(*plan.remarks, Remark(rung.sentence, (rung,))))


def _lower_after_deaths(plan: LoadPlan, attempts: Attempts) -> LoadPlan:
    """Goes one rung lower for each time that this model ended the process."""
    told = plan.given_up
    for _ in range(attempts.trials.deaths_of(plan.path)):
        plan = plan.one_lower(attempts.hardware(), attempts.planning) or plan
    if plan.given_up == told:
        return plan
    rungs = plan.given_up[len(told) :]
    what = " ".join(rung.sentence for rung in rungs)
    why = f"Ragdoll's engine ended while it loaded this model, so it takes less now. {what}"
    return replace(plan, remarks=(Remark(why, rungs),))


def _tier_of(plan: LoadPlan) -> Tier:
    return plan.given_up[-1].tier
