"""Free memory for what no plan places: whether it has room for something more, and whether it is short."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.core import Tier
from engine.memory.hardware import Hardware
from engine.memory.ledger import Ledger, Reservation
from engine.memory.room import headroom_bytes


class FreeMemory:
    """Checks and reserves free main memory. Usable from any thread."""

    def __init__(
        self,
        ledger: Ledger,
        hardware: Callable[[], Hardware],
        budget_bytes: Callable[[], int | None],
        levels: Callable[[], Mapping[Tier, str]],
    ) -> None:
        """Prepares.

        Args:
            ledger: Knows what is held, and reserves.
            hardware: Probes the machine.
            budget_bytes: Returns what we may hold of main memory.
            levels: Returns how short each tier is; "none" where it is not.
        """
        self._ledger, self._hardware, self._budget_bytes, self._levels = ledger, hardware, budget_bytes, levels

    def reserve(self, num_bytes: int) -> Reservation | None:
        """Reserves room for `num_bytes` more: of what is really free, and within the budget. None if there is none."""
        hardware = self._hardware()
        if num_bytes > hardware.ram_free_bytes - headroom_bytes(hardware):
            return None
        return self._ledger.reserve("ram", num_bytes, self._budget_bytes())

    @property
    def is_short(self) -> bool:
        """Whether something is given up for lack of main memory now."""
        return self._levels()["ram"] != "none"
