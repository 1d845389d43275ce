"""Budgets: how many bytes of each tier we may hold now, from what the user allows and what others leave.

What others hold changes all the time. A budget that shrinks is followed at once; one that grows only when it has grown
for a while and by enough to be worth moving anything: nothing is moved back and forth with every program that starts.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import MemorySettings
from engine.memory.demand import Budgets
from engine.memory.hardware import Hardware
from engine.memory.room import Held, there_is

# A smaller change is ignored, and a larger budget must have been available for this long.
NEWS, GROWTH_SECONDS = 0.04, 20.0


@dataclass(frozen=True, slots=True)
class Followed:
    """A budget that is followed with patience: the one in force, and since when there has been more."""

    num_bytes: int
    more_since: float | None = None


def allowed(hardware: Hardware, held: Held, settings: MemorySettings) -> Budgets:
    """Returns the most that we may hold of each tier now, including what we hold already."""
    chosen = Budgets(settings.gpu_budget_bytes, settings.ram_budget_bytes, settings.disk_budget_bytes)
    room = there_is(hardware, held, settings.device_reserve_bytes).within(chosen)
    return Budgets(room.gpu_bytes, room.ram_bytes, room.disk_bytes)


def followed(before: Followed | None, num_bytes: int, now: float, *, at_once: bool = False) -> Followed:
    """Returns the budget in force when `num_bytes` are available at `now` (seconds of any clock).

    `at_once`: the user has changed what is allowed, and waits for it to take effect.
    """
    if before is None or at_once or num_bytes <= before.num_bytes * (1 - NEWS):
        return Followed(num_bytes)
    if num_bytes < before.num_bytes * (1 + NEWS):
        return Followed(before.num_bytes)
    since = now if before.more_since is None else before.more_since
    return Followed(num_bytes) if now - since >= GROWTH_SECONDS else Followed(before.num_bytes, since)
