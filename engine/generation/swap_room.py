"""Determines the room for keys and values of answers that leave their cells: memory that is really free, and a folder.

When only a fixed number limited it, eight answers of 1,000 tokens that took turns under a memory limit of 750 MB filled
the rest of it, and the system killed the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.memory.hardware import Hardware, probe
from engine.memory.room import DISK_RESERVE_SHARE

# The share of free memory that may hold KV while it waits or moves.
SWAP_SHARE = 1 / 2
# For a short time, this many times that share.
PASSING = 1.5


@dataclass(frozen=True, slots=True)
class SwapRoom:
    """Memory that may be used now, and a folder for the rest; None if the disk has no room."""

    ram_bytes: int
    disk_folder: Path | None = None

    @property
    def passing_bytes(self) -> int:
        """Memory that may be used until it is written to disk."""
        return int(self.ram_bytes * PASSING)


# Enough for any load; for callers that do not depend on a machine.
ROOMY = SwapRoom(1 << 30)


def room_in(hardware: Hardware, folder: Path | None) -> SwapRoom:
    """Returns the room of a machine with this hardware."""
    has_disk = hardware.disk_free_bytes > hardware.disk_capacity_bytes * DISK_RESERVE_SHARE
    return SwapRoom(int(hardware.ram_free_bytes * SWAP_SHARE), folder if has_disk else None)


def room_now(folder: Path) -> SwapRoom:
    """Probes the room of this machine; takes half a millisecond."""
    there = next((one for one in (folder, *folder.parents) if one.exists()), None)
    # On Windows a drive that was pulled out leaves no parent: what is saved stays in memory then.
    return room_in(probe(there), folder) if there is not None else room_in(probe(Path.home()), None)
