"""What may hold the keys and values of answers that leave their cells: memory that is really free, and a folder.

With only a fixed number as a bound, eight answers of 1,000 tokens that took turns in a limit of 750 MB filled what was
left of it, and the system killed the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.memory.hardware import Hardware, probe
from engine.memory.room import DISK_RESERVE_SHARE

# The share of free memory that may hold what was computed while it waits or moves.
SWAP_SHARE = 1 / 2
# For a moment, this many times that share.
PASSING = 1.5


@dataclass(frozen=True, slots=True)
class SwapRoom:
    """Memory that may be taken now; what has no room there goes to the folder, None where there is none."""

    ram_bytes: int
    disk_folder: Path | None = None

    @property
    def passing_bytes(self) -> int:
        """Memory that may be used for as long as it takes to write it to disk."""
        return int(self.ram_bytes * PASSING)


# Enough for the answers of any load: for callers that have no machine to look at.
ROOMY = SwapRoom(1 << 30)


def room_in(hardware: Hardware, folder: Path | None) -> SwapRoom:
    """The room of a machine as it is now."""
    has_disk = hardware.disk_free_bytes > hardware.disk_capacity_bytes * DISK_RESERVE_SHARE
    return SwapRoom(int(hardware.ram_free_bytes * SWAP_SHARE), folder if has_disk else None)


def room_now(folder: Path) -> SwapRoom:
    """The room of this machine; takes half a millisecond."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    return room_in(probe(there), folder)
