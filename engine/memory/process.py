"""How much memory our own process takes, as the system counts it: the figures that the ledger is checked against.

Anonymous memory is private and stays until we give it back. Pages of mapped files (libraries, a model) are counted
too, but the system can drop them and read them again. Shared memory (a memfd) is neither, and stays as well.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

_STATUS, _MAPS = Path("/proc/self/status"), Path("/proc/self/maps")
_KIB = 1024


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Resident bytes of this process by kind, where `rss_bytes` is their sum, and the page faults it waited for.

    `major_faults` counts page faults since the process began that were read from a disk; 0 where a system does not
    count them. Where a system does not tell kinds apart (`tells_kinds`), all is called anonymous, pages of files too.
    """

    rss_bytes: int = 0
    anonymous_bytes: int = 0
    file_bytes: int = 0
    shmem_bytes: int = 0
    major_faults: int = 0
    tells_kinds: bool = True

    @property
    def kept_bytes(self) -> int:
        """What the system cannot take back, as far as it reports that."""
        return self.anonymous_bytes + self.shmem_bytes


def process_memory() -> ProcessMemory:
    """Measures this process; takes about 0.1 ms."""
    status = _linux_status()
    if status is None:
        rss_bytes = int(psutil.Process().memory_info().rss)
        return ProcessMemory(rss_bytes, rss_bytes, major_faults=major_faults(), tells_kinds=False)
    anonymous, of_files, shared = (status.get(f"Rss{kind}", 0) for kind in ("Anon", "File", "Shmem"))
    return ProcessMemory(anonymous + of_files + shared, anonymous, of_files, shared, major_faults())


def major_faults() -> int:
    """Returns how many page faults of this process were read from a disk; 0 if the system does not count them."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def bytes_in_files(extents: Iterable[tuple[int, int]]) -> int:
    """Returns how many bytes of the extents are pages of mapped files; 0 where the system does not report that.

    Args:
        extents: Addresses with the bytes behind them, as a library lays its weights into a file that it maps.
    """
    try:
        # Bytes, because paths of mapped files may be in any encoding.
        lines = _MAPS.read_bytes().splitlines()
    except OSError:
        return 0
    # Address range, permissions, offset, device, inode, path: what has no inode is no file.
    fields = (line.split(maxsplit=5) for line in lines)
    starts, ends = [], []
    for field in fields:
        if field[4] != b"0":
            start, end = (int(address, 16) for address in field[0].split(b"-"))
            starts.append(start)
            ends.append(end)
    places = ((bisect_right(starts, address) - 1, address, num_bytes) for address, num_bytes in extents)
    return sum(num_bytes for at, address, num_bytes in places if at >= 0 and address + num_bytes <= ends[at])


def _linux_status() -> dict[str, int] | None:
    """Returns bytes by Linux's names for them; None on other systems.

    `smaps_rollup` reports the same and more, but walks all pages: milliseconds, with a model in memory.
    """
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    fields = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(kib) * _KIB for name, kib, _ in fields}
