"""What the engine's own plans say of steps: how much of the layers one reads with so many answers, before a load comes.

More answers at once take more room for keys and values, which is that of layers, so more is read in each step. The
bench may have measured no such step; the planner knows it all the same. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from engine.memory.demand import Backlog, Demand
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement
from engine.memory.profile import Profile
from engine.memory.terms import homes_of
from tests.bench.simulated_runs import MOST_AT_ONCE, Planned

Placed: TypeAlias = Callable[[Hardware, Backlog, Demand], Placement]


def planned_steps(
    placed: Placed, profile: Profile, hardware: Hardware, backlog: Backlog, demand: Demand, here: Placement
) -> Planned:
    """Of each number of answers that a processor gives at once.

    Args:
        placed: Plans.
        profile: How fast the machine is.
        hardware: What of it is free.
        backlog: How long questions and answers were that came one at a time; how many are there is not looked at.
        demand: What competes for memory.
        here: Where everything lay meanwhile.
    """
    streamed_bytes = []
    for size in range(1, MOST_AT_ONCE + 1):
        # Whoever comes under a load comes while others are there, and has cells kept for it (frames.py).
        load = replace(backlog, waiting=size - 1, running=1, overlaps=True)
        wanted = replace(demand, parallel_answers=max(demand.parallel_answers, size))
        streamed_bytes.append(homes_of(demand.shape, placed(hardware, load, wanted)).streamed_bytes)
    alone_bytes = homes_of(demand.shape, here).streamed_bytes
    return Planned(alone_bytes, tuple(streamed_bytes), profile.stream_bytes_per_s)
