"""How much of each tier may be ours in all: what is free and what we hold, less what others need, within budgets.

This is the only place that computes it: budgets follow it (budgets.py), and placements are limited by it.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from engine.memory.demand import Budgets, Demand
from engine.memory.hardware import Hardware
from engine.memory.ledger import Ledger
from engine.memory.runtime import OTHER_PROCESSES, in_other_processes

MIB = 2**20
# Shares of memory left to the system and to what the ledger does not know, and of the disk, always free (equation 1 in
# planner.py).
HEADROOM_SHARE, MIN_HEADROOM_BYTES, MAX_HEADROOM_BYTES = 0.04, 48 * MIB, 1024 * MIB
DISK_RESERVE_SHARE = 0.1
# The maximum age of measurements that enter the computation.
LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes that we hold now and may use again, without the memory of this process.

    `children_bytes` is memory of our helper processes: to the system they are other processes.
    """

    gpu_bytes: int = 0
    disk_bytes: int = 0
    children_bytes: int = 0

    @classmethod
    def by(cls, ledger: Ledger) -> Held:
        """Reads them from the ledger."""
        # Otherwise what a child takes would already be missing from what is free, and not yet be counted here.
        ledger.look(LOOK_SECONDS)
        return cls(ledger.counted_bytes("gpu"), ledger.counted_bytes("disk"), in_other_processes(ledger))


@dataclass(frozen=True, slots=True)
class Room:
    """M of the equations in planner.py, in bytes: the sums of our spans may not exceed them."""

    gpu_bytes: int
    ram_bytes: int
    disk_bytes: int

    def within(self, budgets: Budgets) -> Room:
        """Returns the same, limited by the budgets."""
        return Room(
            _within(self.gpu_bytes, budgets.gpu_bytes),
            _within(self.ram_bytes, budgets.ram_bytes),
            _within(self.disk_bytes, budgets.disk_bytes),
        )


def room_of(hardware: Hardware, demand: Demand) -> Room:
    """Returns how much the plan may use of each tier."""
    children = (span.num_bytes for span in demand.fixed if span.tier == "ram" and span.owner in OTHER_PROCESSES)
    held = Held(demand.held_gpu_bytes, demand.held_disk_bytes, sum(children))
    room = there_is(hardware, held, demand.device_reserve_bytes).within(demand.budgets)
    # The model's file is there already and is one of our terms, but is not subject to a budget.
    return replace(room, disk_bytes=room.disk_bytes + demand.shape.file_bytes)


def there_is(hardware: Hardware, held: Held, device_reserve_bytes: int) -> Room:
    """Returns all that could be ours, whatever budgets say; `device_reserve_bytes` stay free on each device."""
    gpu_bytes = device_free_bytes(hardware, held.gpu_bytes) + held.gpu_bytes
    gpu_bytes -= device_reserve_bytes * len(hardware.devices)
    ram_bytes = _ram_bytes(hardware, hardware.process_bytes + held.children_bytes + _on_device_in_ram(hardware, held))
    return Room(
        gpu_bytes=min(gpu_bytes, ram_bytes) if hardware.device_shares_ram else gpu_bytes,
        ram_bytes=ram_bytes,
        disk_bytes=hardware.disk_free_bytes + held.disk_bytes - int(hardware.disk_capacity_bytes * DISK_RESERVE_SHARE),
    )


def require_disk_room(folder: Path, num_bytes: int) -> None:
    """Checks that writing `num_bytes` of optional data leaves the disk what chats and the library need.

    Raises:
        OSError: Less would be left; the error is that of a full disk.
    """
    disk = shutil.disk_usage(folder)
    if disk.free - num_bytes < disk.total * DISK_RESERVE_SHARE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def device_free_bytes(hardware: Hardware, held_bytes: int) -> int:
    """Returns what is available on all devices beyond the `held_bytes` that are ours, which include compute buffers.

    A driver that does not count what we hold reports all of a device as free.
    """
    capacity = sum(device.capacity_bytes for device in hardware.devices)
    return min(sum(device.free_bytes for device in hardware.devices), capacity - held_bytes)


def left_bytes(hardware: Hardware, demand: Demand, entered_bytes: int) -> int:
    """Returns how much more memory may be held than now; below 0 where already too much is held.

    It is limited by the budget, beyond the `entered_bytes` that the ledger knows, and by what is really free, since
    there is always something that the ledger does not know.
    """
    in_truth = hardware.ram_free_bytes - headroom_bytes(hardware)
    return min(room_of(hardware, demand).ram_bytes - entered_bytes, in_truth)


def headroom_bytes(hardware: Hardware) -> int:
    """Returns how much memory is left to the system and to what the ledger does not know."""
    return min(MAX_HEADROOM_BYTES, max(MIN_HEADROOM_BYTES, int(hardware.ram_capacity_bytes * HEADROOM_SHARE)))


def _on_device_in_ram(hardware: Hardware, held: Held) -> int:
    """Returns memory held through a device that no process is charged for; Metal maps it into our process."""
    return held.gpu_bytes if hardware.device_shares_ram and sys.platform != "darwin" else 0


def _ram_bytes(hardware: Hardware, held_bytes: int) -> int:
    return min(hardware.ram_capacity_bytes, hardware.ram_free_bytes + held_bytes) - headroom_bytes(hardware)


def _within(num_bytes: int, budget_bytes: int | None) -> int:
    return max(0, num_bytes if budget_bytes is None else min(num_bytes, budget_bytes))
