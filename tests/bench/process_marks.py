"""What a process has read, written and waited for so far: taken twice, the difference is what happened in between."""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.confined import Group


@dataclass(frozen=True, slots=True)
class Marks:
    """Counted since the process began, in bytes of the disk and in times.

    A major fault is a page that a thread had to wait for because it was in no memory. `limit_hits` is 0 where the
    process is in no group.
    """

    read_bytes: int
    written_bytes: int
    major_faults: int
    limit_hits: int

    def since(self, earlier: Marks) -> Marks:
        return Marks(**{name: value - getattr(earlier, name) for name, value in asdict(self).items()})


def take(group: Group | None) -> Marks:
    """Those of this process now, and of the group it is in."""
    read_bytes, written_bytes = bytes_of(Path("/proc/self/io").read_text())
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    return Marks(read_bytes, written_bytes, faults, group.usage().limit_hits if group is not None else 0)


def bytes_of(text: str) -> tuple[int, int]:
    """What /proc/<pid>/io says was read from disks and written to them, by all threads."""
    found = dict(line.split(": ", 1) for line in text.splitlines() if line)
    return int(found["read_bytes"]), int(found["write_bytes"])
