"""Rates of links: how many bytes pass in a second, from totals that only grow."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

import psutil

# A rate is the mean of this many seconds: it follows what happens, and a single read does not make it jump.
WINDOW_SECONDS = 2.0


class Rates:
    """Computes rates from totals, which it remembers between calls. Usable from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def of(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns by name how much each total grew per second recently; 0 if a total is new or has restarted."""
        now = self._clock()
        with self._lock:
            return {name: self._rate(name, total, now) for name, total in totals.items()}

    def _rate(self, name: str, total: float, now: float) -> float:
        seen = self._seen.setdefault(name, deque())
        if seen and total < seen[-1][1]:
            seen.clear()
        seen.append((now, total))
        # The newest entry that is old enough stays, so that the window is whole.
        while len(seen) > 2 and now - seen[1][0] >= WINDOW_SECONDS:
            seen.popleft()
        since, before = seen[0]
        return (total - before) / max(now - since, WINDOW_SECONDS / 4)


def disk_totals() -> dict[str, float]:
    """Returns what this process has read from disks and written to them so far; {} if that is not reported."""
    try:
        counts = psutil.Process().io_counters()
    except (AttributeError, NotImplementedError, psutil.Error, OSError):
        return {}
    return {"disk_read": float(counts.read_bytes), "disk_written": float(counts.write_bytes)}
