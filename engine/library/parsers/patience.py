"""Patience: how long a process may take, hardly counting the time in which other processes used the processor.

Reading has a low priority, so on a busy machine a second's work may take half a minute; that is no fault of the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

# On a machine that is busy for hours, a file that hangs must still be noticed.
MAX_STRETCH = 10.0
Clock = Callable[[], float]


class Patience:
    """A time limit that begins when it is created: `seconds` on an idle machine, at most `max_stretch` times that."""

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
        """The remaining time; 0 or negative when the limit is reached."""
        passed = self._clock() - self._begun
        left = self._seconds - passed
        if left > 0:
            return left
        stood = max(0.0, self._stood_in_line(self._pid) - self._stood_before)
        return min(left + stood, self._most_seconds - passed)


def seconds_in_line(pid: int) -> float:
    """Returns how long the process was runnable but waited for a processor; 0 if the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
