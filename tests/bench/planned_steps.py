"""How much of the layers a step with several answers streams, according to the engine's plans; for the simulator. Pure.

More answers at once need more KV cells, which leaves less memory for layers, so each step streams more. The planner
knows this without a measurement.
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
    """Returns streamed bytes for each number of answers that a processor writes at once.

    Args:
        placed: The planner.
        profile: The machine's measured speeds.
        hardware: What of the machine is free.
        backlog: Lengths of questions and answers that came one at a time; their number is ignored.
        demand: What competes for memory.
        here: The placement at that time.
    """
    streamed_bytes = []
    for size in range(1, MOST_AT_ONCE + 1):
        # Under a load, questions overlap, so cells are reserved for them (frames.py).
        load = replace(backlog, waiting=size - 1, running=1, overlaps=True)
        wanted = replace(demand, parallel_answers=max(demand.parallel_answers, size))
        streamed_bytes.append(homes_of(demand.shape, placed(hardware, load, wanted)).streamed_bytes)
    alone_bytes = homes_of(demand.shape, here).streamed_bytes
    return Planned(alone_bytes, tuple(streamed_bytes), profile.stream_bytes_per_s)
