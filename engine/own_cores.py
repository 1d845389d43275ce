"""The cores that this process may use: its affinity, limited by its control groups.

The machine may have more. A container or a service has some of them, or a share of the time of all; threads beyond that
wait for each other in each pass. Only Linux reports this; elsewhere all cores of the machine count.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import psutil

from engine.memory.cgroup import folders_around, text_of

# Where versions 1 and 2 of control groups limit the time on cores.
_ROOTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
_PROC = Path("/proc/self/cgroup")
_CORES = Path("/sys/devices/system/cpu")
# The files that list what shares a core, since Linux 5.3 and before.
_SIBLINGS = ("core_cpus_list", "thread_siblings_list")


def allowed_cores() -> int:
    """Returns how many of the processor's cores the threads of this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_cores() -> int:
    """Returns how many cores this process may keep busy."""
    return _within(time_share(), allowed_cores())


def physical_cores() -> int:
    """Returns the same without second threads of a core, by which products of matrices gain nothing."""
    allowed = allowed_cores()
    whole = wholes(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return _within(time_share(), whole or min(allowed, psutil.cpu_count(logical=False) or allowed))


def time_share(roots: tuple[Path, Path] = _ROOTS, proc: Path = _PROC) -> float | None:
    """Returns how many cores' time control groups give this process; None if they set no limit.

    Args:
        roots: Where the groups of version 1 and of version 2 may be mounted.
        proc: Says which group a process is in.
    """
    return min(_shares(_folders(roots, text_of(str(proc)))), default=None)


def wholes(cores: Iterable[int], folder: Path = _CORES) -> int | None:
    """Returns how many physical cores these belong to; None if the system does not report that for each."""
    return _wholes(frozenset(cores), folder)


@lru_cache(maxsize=8)
def _wholes(cores: frozenset[int], folder: Path) -> int | None:
    siblings = {_siblings(folder / f"cpu{core}" / "topology") for core in cores}
    return len(siblings) if siblings and "" not in siblings else None


def _siblings(folder: Path) -> str:
    told = (text_of(str(folder / name)).strip() for name in _SIBLINGS)
    return next(filter(None, told), "")


@lru_cache(maxsize=8)
def _folders(roots: tuple[Path, Path], said: str) -> tuple[str, ...]:
    """Returns our groups, of both versions, and their parents."""
    lines = (line.split(":", 2) for line in said.splitlines() if line.count(":") >= 2)
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    ours = [(root, paths[name]) for root, name in zip(roots, ("cpu", ""), strict=True) if name in paths]
    return tuple(str(folder) for root, path in ours for folder in folders_around(root, path))


def _shares(folders: Iterable[str]) -> Iterator[float]:
    """Yields what each group with a limit allows, in cores: microseconds of computing per period."""
    for folder in folders:
        of_both = text_of(f"{folder}/cpu.max").split() or [
            *text_of(f"{folder}/cpu.cfs_quota_us").split(),
            *text_of(f"{folder}/cpu.cfs_period_us").split(),
        ]
        # Without a limit, version 2 has "max" and version 1 has -1.
        if len(of_both) == 2 and all(number.isdigit() for number in of_both) and int(of_both[1]):
            yield int(of_both[0]) / int(of_both[1])


def _within(share: float | None, cores: int) -> int:
    """Limits cores by a share of time; for a part of a core's time, one more thread is worth it."""
    return cores if share is None else max(1, min(cores, math.ceil(share)))
