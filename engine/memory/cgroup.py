"""The memory control group of this process: what it and those above it allow, and what is used of that.

Containers, systemd's slices and a user's own limits are such groups. A process over the limit of any of them is killed,
however much memory the machine has. Both versions of Linux's groups are read; elsewhere there is none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import dropwhile
from pathlib import Path

# Version 1 writes a number of about 2**63 where there is no limit, version 2 "max".
_NO_LIMIT_FROM_BYTES = 2**60
_ROOTS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
_PROC = Path("/proc/self/cgroup")
_STATISTICS = "memory.stat"
_MOST_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """One look at our group with all groups in it. `limit_bytes` and `free_bytes` are None where nothing limits us.

    Both are of the tightest group, ours or one above it. Page cache counts as free, because the kernel drops it before
    it runs short (including a mapped file's pages, which then have to be read again), and so do the kernel's caches of
    file names, which version 2 reports separately. `anonymous_bytes` (version 1 calls it rss) and `shmem_bytes` stay in
    memory, `mapped_file_bytes` are pages of mapped files and of mapped shared memory, `file_bytes` is all page cache.
    `num_refused` counts how often the limit was reached (failcnt). `charged_file_bytes` are the mapped pages that count
    in the tightest group, None where nothing limits us: a page counts where it was touched first, so libraries that
    others use too may cost us nothing. `charged_shmem_bytes` is the shared memory that counts there; mapped shared
    memory is in both.
    """

    limit_bytes: int | None
    free_bytes: int | None
    anonymous_bytes: int
    shmem_bytes: int
    file_bytes: int
    mapped_file_bytes: int
    num_refused: int
    charged_file_bytes: int | None = None
    charged_shmem_bytes: int = 0

    @property
    def kept_bytes(self) -> int:
        """What the kernel cannot drop."""
        return self.anonymous_bytes + self.shmem_bytes


@dataclass(frozen=True, slots=True)
class _Names:
    """A version's names for things; a process beyond `limit` is killed, beyond `throttle` slowed down."""

    limit: str
    throttle: str
    usage: str
    anonymous: str
    shmem: str
    cache: str
    mapped: str
    droppable: tuple[str, ...]
    # The file that counts refusals, and the line in it; "" where it holds nothing else.
    refused: tuple[str, str]


_V1 = _Names(
    "memory.limit_in_bytes",
    "",
    "memory.usage_in_bytes",
    "total_rss",
    "total_shmem",
    "total_cache",
    "total_mapped_file",
    ("total_inactive_file", "total_active_file"),
    ("memory.failcnt", ""),
)
_V2 = _Names(
    "memory.max",
    "memory.high",
    "memory.current",
    "anon",
    "shmem",
    "file",
    "file_mapped",
    ("inactive_file", "active_file", "slab_reclaimable"),
    ("memory.events", "max"),
)


@dataclass(frozen=True, slots=True)
class _Limit:
    """What one group allows, what it can still give, and how much mapped files and shared memory count in it."""

    limit_bytes: int
    free_bytes: int
    mapped_file_bytes: int
    shmem_bytes: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Folders of our group and of those above it, our own first."""

    names: _Names
    folders: tuple[str, ...]


def own_cgroup(roots: tuple[Path, Path] = _ROOTS, proc: Path = _PROC) -> CgroupMemory | None:
    """Returns the group of this process; None where the system has none, or does not let us look. About 0.2 ms.

    Args:
        roots: Where the groups of version 1 and of version 2 may be mounted.
        proc: Says which group a process is in.
    """
    place = _place(roots, text_of(str(proc)))
    if place is None:
        return None
    own = place.folders[0]
    table = _table(f"{own}/{_STATISTICS}")
    limits = [limit for folder in place.folders if (limit := _limit(folder, place.names)) is not None]
    return _look(place.names, own, table, limits)


def _look(names: _Names, own: str, table: Mapping[str, int], limits: Sequence[_Limit]) -> CgroupMemory:
    file, line = names.refused
    tightest = min(limits, key=lambda limit: limit.limit_bytes, default=None)
    return CgroupMemory(
        limit_bytes=None if tightest is None else tightest.limit_bytes,
        free_bytes=min((limit.free_bytes for limit in limits), default=None),
        anonymous_bytes=table.get(names.anonymous, 0),
        shmem_bytes=table.get(names.shmem, 0),
        file_bytes=max(0, table.get(names.cache, 0) - table.get(names.shmem, 0)),
        mapped_file_bytes=table.get(names.mapped, 0),
        num_refused=(_table(f"{own}/{file}").get(line) if line else _number(f"{own}/{file}")) or 0,
        charged_file_bytes=None if tightest is None else tightest.mapped_file_bytes,
        charged_shmem_bytes=0 if tightest is None else tightest.shmem_bytes,
    )


def _limit(folder: str, names: _Names) -> _Limit | None:
    """Returns the limit of a group; None where it has none."""
    files = (names.limit, names.throttle) if names.throttle else (names.limit,)
    told = (_number(f"{folder}/{file}") for file in files)
    limit_bytes = min((limit for limit in told if limit is not None), default=_NO_LIMIT_FROM_BYTES)
    if limit_bytes >= _NO_LIMIT_FROM_BYTES:
        return None
    table = _table(f"{folder}/{_STATISTICS}")
    used_bytes = (_number(f"{folder}/{names.usage}") or 0) - sum(table.get(name, 0) for name in names.droppable)
    return _Limit(
        limit_bytes,
        max(0, limit_bytes - max(0, used_bytes)),
        table.get(names.mapped, 0),
        table.get(names.shmem, 0),
    )


@lru_cache(maxsize=8)
def _place(roots: tuple[Path, Path], said: str) -> _Place | None:
    """Returns where to look according to /proc: "memory" names version 1, which counts wherever both are there."""
    lines = (line.split(":", 2) for line in said.splitlines() if line.count(":") >= 2)
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    for root, names, path in ((roots[0], _V1, paths.get("memory")), (roots[1], _V2, paths.get(""))):
        if path is None:
            continue
        around = folders_around(root, path)
        # Memory need not be counted for each group below one for which it is.
        counted = tuple(dropwhile(partial(_lacks, names.usage), around))
        if counted:
            return _Place(names, tuple(map(str, counted)))
    return None


def _lacks(name: str, folder: Path) -> bool:
    return not (folder / name).is_file()


def folders_around(root: Path, path: str) -> tuple[Path, ...]:
    """Returns the folders of a group, as /proc names it, and of its parents, up to where groups are mounted.

    In a container that shows only its own part of the tree, the root of that part stands for the group.
    """
    folder = root / path.lstrip("/")
    if not folder.is_dir() or ".." in folder.parts:
        folder = root
    return (folder, *(one for one in folder.parents if one == root or root in one.parents))


def _number(file: str) -> int | None:
    text = text_of(file).strip()
    return int(text) if text.isdigit() else None


def _table(file: str) -> Mapping[str, int]:
    pairs = (line.split() for line in text_of(file).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def text_of(file: str) -> str:
    """Returns a file's text, "" if there is none. Plain system calls: a look per second reads ten files."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MOST_BYTES).decode("ascii", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
