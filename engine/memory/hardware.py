"""What the machine has: capacities and free bytes of RAM, devices and disk, asked of the system each time.

RAM follows the control groups where they limit us. A look takes half a millisecond, so it can be taken every second.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from engine.memory.cgroup import CgroupMemory, own_cgroup
from engine.memory.devices import Device, probe_devices
from engine.memory.process import ProcessMemory, process_memory

__all__ = ["CgroupMemory", "Device", "Hardware", "ProcessMemory", "probe", "probe_devices"]


@dataclass(frozen=True, slots=True)
class Hardware:
    """One look at the machine.

    `ram_capacity_bytes` is what the machine has, or what the tightest group allows. `ram_free_bytes` is available
    beyond what this process holds: unused page cache counts as free, pages of files that we map do not, so free plus
    held is the most we could have. Pages that others within our limit map, above all our window, do not count as free
    either. `process_bytes` is this process's own resident memory, `process` the same by kind, both as they are charged;
    `cgroup` is None where there are no groups.
    """

    ram_capacity_bytes: int
    ram_free_bytes: int
    disk_capacity_bytes: int
    disk_free_bytes: int
    process_bytes: int
    devices: tuple[Device, ...] = ()
    process: ProcessMemory = field(default_factory=ProcessMemory)
    cgroup: CgroupMemory | None = None

    @property
    def device_shares_ram(self) -> bool:
        """Whether what lies on a device takes the machine's memory."""
        return any(device.shares_ram for device in self.devices)

    @property
    def is_limited(self) -> bool:
        """Whether a group allows less than the machine has."""
        return self.cgroup is not None and self.cgroup.limit_bytes == self.ram_capacity_bytes


def own_memory() -> ProcessMemory:
    """Returns what this process takes of what it may have; about 0.4 ms."""
    return charged(process_memory(), own_cgroup(), psutil.virtual_memory().total)


def charged(process: ProcessMemory, cgroup: CgroupMemory | None, machine_bytes: int) -> ProcessMemory:
    """Returns the same without file pages charged to others, if a group allows us less than the machine has.

    Shared memory counts among a group's mapped pages but belongs to no file.
    """
    if cgroup is None or cgroup.charged_file_bytes is None or (cgroup.limit_bytes or machine_bytes) >= machine_bytes:
        return process
    file_bytes = min(process.file_bytes, max(0, cgroup.charged_file_bytes - process.shmem_bytes))
    return replace(process, rss_bytes=process.rss_bytes - process.file_bytes + file_bytes, file_bytes=file_bytes)


def mapped_by_others(process: ProcessMemory, cgroup: CgroupMemory) -> int:
    """Returns pages of mapped files that others brought into the group that limits us.

    The system would drop them for us. But a window whose code has to be read again at each click, while layers are
    streamed from the same disk, took four seconds to show a page. Shared memory, a database's say, counts among mapped
    pages, but the group cannot free it anyway.
    """
    shmem_bytes = max(cgroup.charged_shmem_bytes, process.shmem_bytes)
    return max(0, (cgroup.charged_file_bytes or 0) - shmem_bytes - process.file_bytes)


def ram_capacity_bytes() -> int:
    """Returns what the machine has, or what the tightest group allows."""
    return _ram_capacity_bytes(int(psutil.virtual_memory().total), own_cgroup())


def _ram_capacity_bytes(machine_bytes: int, cgroup: CgroupMemory | None) -> int:
    limit_bytes = cgroup.limit_bytes if cgroup is not None else None
    return machine_bytes if limit_bytes is None else min(machine_bytes, limit_bytes)


def probe(data_folder: Path, devices: tuple[Device, ...] = ()) -> Hardware:
    """Looks at RAM and the disk of `data_folder`; devices are passed in, since only their owner thread may ask them."""
    memory, cgroup = psutil.virtual_memory(), own_cgroup()
    own = process_memory()
    process = charged(own, cgroup, memory.total)
    capacity_bytes, available_bytes = _ram_capacity_bytes(memory.total, cgroup), memory.available
    if cgroup is not None and cgroup.limit_bytes is not None and cgroup.free_bytes is not None:
        available_bytes = min(available_bytes, cgroup.free_bytes - mapped_by_others(own, cgroup))
    disk = shutil.disk_usage(data_folder)
    return Hardware(
        ram_capacity_bytes=capacity_bytes,
        ram_free_bytes=max(0, min(available_bytes, capacity_bytes) - process.file_bytes),
        disk_capacity_bytes=disk.total,
        disk_free_bytes=disk.free,
        process_bytes=process.rss_bytes,
        devices=devices,
        process=process,
        cgroup=cgroup,
    )
