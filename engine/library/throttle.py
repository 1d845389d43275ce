"""A throttle for frequent events: the first passes at once, the next ones after a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Throttle:
    """Is due at most once in `interval_seconds`; owned by one thread."""

    interval_seconds: float
    clock: Callable[[], float] = time.monotonic
    _last: float | None = field(default=None)

    def is_due(self) -> bool:
        now = self.clock()
        if self._last is not None and now - self._last < self.interval_seconds:
            return False
        self._last = now
        return True
