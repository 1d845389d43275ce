"""What may hold the keys and values of answers that leave their cells: memory that is free in truth, and a folder.

With no bound but a number, eight answers of 1,000 tokens that took turns in a limit of 750 MB filled what was left of
it, and the system ended the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.memory.hardware import Hardware, probe
from engine.memory.room import DISK_RESERVE_SHARE

# Of the memory that is free, so much may hold what was computed while it waits or moves.
SWAP_SHARE = 1 / 2
# And for a moment so many times that.
PASSING = 1.5


@dataclass(frozen=True, slots=True)
class SwapRoom:
    """So many bytes of memory may be taken now; what has no room there goes to the folder, None where that is none."""

    ram_bytes: int
    disk_folder: Path | None = None

    @property
    def passing_bytes(self) -> int:
        """So many may be in memory for the moment that it takes to write them to the disk."""
        return int(self.ram_bytes * PASSING)


# As much as anybody's answers take: for whoever has no machine to look at.
ROOMY = SwapRoom(1 << 30)


def room_in(hardware: Hardware, folder: Path | None) -> SwapRoom:
    """That of a machine as it is now."""
    has_disk = hardware.disk_free_bytes > hardware.disk_capacity_bytes * DISK_RESERVE_SHARE
    return SwapRoom(int(hardware.ram_free_bytes * SWAP_SHARE), folder if has_disk else None)


def room_now(folder: Path) -> SwapRoom:
    """The same of this machine; a look of half a millisecond."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    return room_in(probe(there), folder)
