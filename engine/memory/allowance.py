"""The allowance: the budgets in force, followed look by look, with patience where there is more and at once where less.

What the user changes is in force at the next look, in both directions.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from engine.config import MemorySettings
from engine.core import Tier
from engine.memory.budgets import Followed, allowed, followed
from engine.memory.demand import Budgets
from engine.memory.hardware import Hardware
from engine.memory.room import Held

TIERS: tuple[Tier, ...] = ("gpu", "ram", "disk")


class Allowance:
    """Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followed: dict[Tier, Followed] = {}
        self._chosen: MemorySettings | None = None
        self.budgets = Budgets()

    def follow(self, hardware: Hardware, held: Held, chosen: MemorySettings, now: float) -> tuple[Tier, ...]:
        """Takes in what can be had now; the tiers of which the user has changed the budget since the last look."""
        with self._lock:
            before, self._chosen = self._chosen, chosen
            changed = (
                ()
                if before is None
                else tuple(tier for tier in TIERS if chosen_of(before, tier) != chosen_of(chosen, tier))
            )
            found = by_tier(allowed(hardware, held, chosen))
            for tier, num_bytes in found.items():
                self._followed[tier] = followed(self._followed.get(tier), num_bytes, now, at_once=tier in changed)
            self.budgets = Budgets(*(self._followed[tier].num_bytes for tier in TIERS))
            return changed

    @property
    def is_known(self) -> bool:
        """Whether a look has been taken."""
        return bool(self._followed)

    def of(self, tier: Tier) -> int:
        return self._followed[tier].num_bytes


def chosen_of(settings: MemorySettings, tier: Tier) -> int | None:
    """What the user allows of a tier; None leaves it to the machine."""
    chosen: dict[Tier, int | None] = {
        "gpu": settings.gpu_budget_bytes,
        "ram": settings.ram_budget_bytes,
        "disk": settings.disk_budget_bytes,
    }
    return chosen[tier]


def by_tier(budgets: Budgets) -> Mapping[Tier, int]:
    return {"gpu": budgets.gpu_bytes or 0, "ram": budgets.ram_bytes or 0, "disk": budgets.disk_bytes or 0}
