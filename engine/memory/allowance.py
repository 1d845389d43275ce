"""The allowance: the budgets in force. At every look, less is followed at once, more only after a while.

What the user changes takes effect at the next look, in both directions. So does a card that is found after the first
look: waking one may take seconds, and a model that is loaded meanwhile would not use it.
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
    """The budgets in force, by tier. Usable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followed: dict[Tier, Followed] = {}
        self._chosen: MemorySettings | None = None
        self._num_devices: int | None = None
        self.budgets = Budgets()

    def follow(self, hardware: Hardware, held: Held, chosen: MemorySettings, now: float) -> tuple[Tier, ...]:
        """Takes in what is available now; returns the tiers whose budget the user has changed since the last look."""
        with self._lock:
            before, self._chosen = self._chosen, chosen
            changed = (
                ()
                if before is None
                else tuple(tier for tier in TIERS if chosen_of(before, tier) != chosen_of(chosen, tier))
            )
            found = by_tier(allowed(hardware, held, chosen))
            has_new_devices = not self.knows(hardware)
            self._num_devices = len(hardware.devices)
            for tier, num_bytes in found.items():
                at_once = tier in changed or (tier == "gpu" and has_new_devices)
                self._followed[tier] = followed(self._followed.get(tier), num_bytes, now, at_once=at_once)
            self.budgets = Budgets(*(self._followed[tier].num_bytes for tier in TIERS))
            return changed

    @property
    def is_known(self) -> bool:
        """Whether a look has been taken."""
        return bool(self._followed)

    def knows(self, hardware: Hardware) -> bool:
        """Returns whether a look has been taken since these devices were found."""
        return self._num_devices == len(hardware.devices)

    def of(self, tier: Tier) -> int:
        return self._followed[tier].num_bytes


def chosen_of(settings: MemorySettings, tier: Tier) -> int | None:
    """Returns what the user allows of a tier; None leaves it to the machine."""
    chosen: dict[Tier, int | None] = {
        "gpu": settings.gpu_budget_bytes,
        "ram": settings.ram_budget_bytes,
        "disk": settings.disk_budget_bytes,
    }
    return chosen[tier]


def by_tier(budgets: Budgets) -> Mapping[Tier, int]:
    return {"gpu": budgets.gpu_bytes or 0, "ram": budgets.ram_bytes or 0, "disk": budgets.disk_bytes or 0}
