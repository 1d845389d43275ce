"""Counters of what a process has read, written and waited for; the difference of two is what happened in between."""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.confined import Group


@dataclass(frozen=True, slots=True)
class Marks:
    """Counters since the process started: bytes on disks, and events.

    A major page fault is one that had to wait for the disk. `limit_hits` is 0 for a process in no group.
    """

    read_bytes: int
    written_bytes: int
    major_faults: int
    limit_hits: int

    def since(self, earlier: Marks) -> Marks:
        return Marks(**{name: value - getattr(earlier, name) for name, value in asdict(self).items()})


def take(group: Group | None) -> Marks:
    """Returns the counters of this process now, and of its group."""
    read_bytes, written_bytes = bytes_of(Path("/proc/self/io").read_text())
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    return Marks(read_bytes, written_bytes, faults, group.usage().limit_hits if group is not None else 0)


def bytes_of(text: str) -> tuple[int, int]:
    """Returns bytes read from and written to disks by all threads, from /proc/<pid>/io."""
    found = dict(line.split(": ", 1) for line in text.splitlines() if line)
    return int(found["read_bytes"]), int(found["write_bytes"])
