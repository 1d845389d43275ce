"""Patience: how long a process may take, hardly counting the time in which other processes used the processor.

Reading stands back behind the embedder and everything else that runs, so on a busy machine a second's work may take
half a minute: that is no fault of the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

# A machine that is busy with something else for hours must not keep a file that hangs from being noticed.
MAX_STRETCH = 10.0
Clock = Callable[[], float]


class Patience:
    """Begins when it is made. `seconds` is what it may take on a machine of its own, times `max_stretch` on any."""

    def __init__(
        self,
        pid: int,
        seconds: float,
        max_stretch: float = MAX_STRETCH,
        clock: Clock = time.monotonic,
        stood_in_line: Callable[[int], float] | None = None,
    ) -> None:
        self._pid, self._seconds, self._clock = pid, seconds, clock
        self._most_seconds = seconds * max_stretch
        self._stood_in_line = stood_in_line or seconds_in_line
        self._begun, self._stood_before = clock(), self._stood_in_line(pid)

    @property
    def left_seconds(self) -> float:
        """Negative or 0 when it is at its end."""
        passed = self._clock() - self._begun
        left = self._seconds - passed
        if left > 0:
            return left
        stood = max(0.0, self._stood_in_line(self._pid) - self._stood_before)
        return min(left + stood, self._most_seconds - passed)


def seconds_in_line(pid: int) -> float:
    """How long the process has been ready to run without a processor for it; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
