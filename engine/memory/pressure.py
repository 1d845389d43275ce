"""Pressure: how short memory is by what the system reports, and how much of it is left.

Linux counts how long tasks wait for memory (PSI, /proc/pressure/memory) and how often a control group reached its
limit. Neither alone shows that giving memory back helps: another program may be the one that waits, a group that reads
many files reaches its limit with page cache that costs nothing, and a machine with plenty of memory waits for pages
that it swapped out overnight. So waiting counts only where little is left or our own group has a limit, and only while
it continues: averages last longer than what they measure. Taking a sample has effects and takes well under a
millisecond; its evaluation is pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.memory.hardware import Hardware
from engine.memory.room import MAX_HEADROOM_BYTES
from engine.protocol import PressureLevel

_SYSTEM_FILE = Path("/proc/pressure/memory")
_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_LINE = re.compile(r"^(some|full) avg10=([0-9.]+)(?:.* total=([0-9]+))?", re.MULTILINE)
# Shares of the last ten seconds in which some task (or every task) waited for memory.
SOME_STALLED, ALL_STALLED = 0.10, 0.05
# Of waiting between two looks; any machine waits for less than that now and then.
GOES_ON_SECONDS = 0.01
# Shares of all memory that are left: below the first, tasks wait for what we could give back; below the last, it is
# almost too late. A plan that uses its whole budget leaves more than each of the last two, also on large machines
# (room.py).
LITTLE_LEFT, VERY_LITTLE_LEFT, NOTHING_LEFT = 0.10, 0.03, 0.015
MOST_VERY_LITTLE_BYTES, MOST_NOTHING_BYTES = 3 * MAX_HEADROOM_BYTES // 4, 3 * MAX_HEADROOM_BYTES // 8


@dataclass(frozen=True, slots=True)
class Stalls:
    """Shares of the last ten seconds in which some task, and in which every task, waited for memory.

    `is_own`: counted for our own control group instead of the whole machine; it is our own if it has a limit.
    `total_seconds` is how long some task has waited since the start; None where that is not reported.
    """

    some: float = 0.0
    full: float = 0.0
    is_own: bool = False
    total_seconds: float | None = None

    def since(self, before: Stalls) -> Stalls:
        """Returns the same if tasks have waited since `before`, and no stalls if all waiting is older."""
        if self.total_seconds is None or before.total_seconds is None:
            return self
        return self if self.total_seconds - before.total_seconds >= GOES_ON_SECONDS else Stalls(is_own=self.is_own)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the system reports of memory at one moment; `num_refused` counts how often our group reached its limit."""

    capacity_bytes: int
    free_bytes: int
    num_refused: int = 0
    stalls: Stalls = field(default_factory=Stalls)

    @property
    def is_little(self) -> bool:
        """Whether tasks wait for memory that we could give back."""
        return self.free_bytes < LITTLE_LEFT * self.capacity_bytes

    @property
    def is_very_little(self) -> bool:
        """Whether any sign of a shortage of memory is to be believed."""
        return self.free_bytes < min(VERY_LITTLE_LEFT * self.capacity_bytes, MOST_VERY_LITTLE_BYTES)

    @property
    def is_nothing(self) -> bool:
        """Whether it is almost too late."""
        return self.free_bytes < min(NOTHING_LEFT * self.capacity_bytes, MOST_NOTHING_BYTES)


def level(now: Sample, before: Sample | None = None) -> PressureLevel:
    """Returns how short memory is; `before` is the previous sample, taken some seconds ago."""
    stalls = now.stalls if before is None else now.stalls.since(before.stalls)
    was_refused = before is not None and now.num_refused > before.num_refused
    if now.is_nothing or (stalls.full >= ALL_STALLED and (stalls.is_own or now.is_very_little)):
        return "full"
    if now.is_very_little and (was_refused or stalls.some > 0):
        return "some"
    if stalls.some >= SOME_STALLED and (stalls.is_own or now.is_little):
        return "some"
    return "none"


def sample(hardware: Hardware, stalls: Stalls) -> Sample:
    """Returns a sample of main memory, from what is known of the machine."""
    refused = hardware.cgroup.num_refused if hardware.cgroup is not None else 0
    return Sample(hardware.ram_capacity_bytes, hardware.ram_free_bytes, refused, stalls)


class PressureGauge:
    """Computes the level at each look; owned by its caller. `read_stalls` is called once in each look."""

    def __init__(self, read_stalls: Callable[[], Stalls] | None = None) -> None:
        self._read_stalls = read_stalls if read_stalls is not None else _StallFile().read
        self._before: Sample | None = None

    def look(self, hardware: Hardware, leaving_bytes: int = 0) -> PressureLevel:
        """Computes how short memory is.

        Args:
            hardware: How much of it is left.
            leaving_bytes: Pages of a model's file that leave memory when anything else needs room. A pass that reads
                them again waits for memory by the system's count, so while there are any, only what is left counts.
        """
        stalls, left_bytes = self._read_stalls(), hardware.ram_free_bytes + leaving_bytes
        if leaving_bytes or not hardware.is_limited:
            # The group of a login session has all programs of that session in it.
            stalls = replace(stalls, is_own=False)
        now = sample(replace(hardware, ram_free_bytes=left_bytes), stalls)
        found = level(now, self._before)
        self._before = now
        return found


class _StallFile:
    """The file that counts stalls: that of our own version 2 control group if there is one, else the machine's."""

    def __init__(self) -> None:
        own = _own_file()
        self._file, self._is_own = (own, True) if own is not None else (_SYSTEM_FILE, False)

    def read(self) -> Stalls:
        """Reads the stalls; there are none where the system does not count them."""
        try:
            return stalls_of(self._file.read_text(encoding="ascii"), is_own=self._is_own)
        except (OSError, ValueError):
            return Stalls()


def stalls_of(text: str, *, is_own: bool) -> Stalls:
    """Parses such a file: "some avg10=1.50 … total=…" in per cent and µs, and the same for "full"."""
    lines = {name: (float(average) / 100, total) for name, average, total in _LINE.findall(text)}
    some, total = lines.get("some", (0.0, ""))
    return Stalls(some, lines.get("full", (0.0, ""))[0], is_own, int(total) / 1e6 if total else None)


def _own_file() -> Path | None:
    """Returns the file of our version 2 group; not that of the root group, which counts the whole machine."""
    try:
        lines = _OWN_GROUP.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    paths = [line.split(":", 2)[2].strip("/") for line in lines if line.startswith("0::")]
    folders = [_GROUPS / path for path in paths if path]
    # A container may show only its own part of the tree. Memory is counted at its root, but not at the root of all
    # groups.
    if paths and (_GROUPS / "memory.current").is_file():
        folders.append(_GROUPS)
    return next((file for folder in folders if (file := folder / "memory.pressure").is_file()), None)
