"""Numbers that come and go, as a plan should take them: the most or the least of late.

Pages of libraries are dropped while nobody asks and come back with each question. A plan that followed them would give
layers the room every time, and take it back.
"""

from __future__ import annotations

from collections.abc import Callable

# So that whatever comes with a question is remembered until the next one, by and large.
WITHIN_SECONDS = 60.0


class OfLate:
    """The most (`max`) or the least (`min`) within the last minute, or up to two. Not for several threads at once."""

    def __init__(self, which: Callable[[int, int], int]) -> None:
        self._which = which
        self._since = float("-inf")
        self._now = self._before = 0

    def after(self, number: int, now: float) -> int:
        """What it is, `number` being seen at `now`: seconds of a clock that never goes back."""
        if now - self._since >= WITHIN_SECONDS:
            is_old = now - self._since >= 2 * WITHIN_SECONDS
            self._since, self._before, self._now = now, number if is_old else self._now, number
        self._now = self._which(self._now, number)
        return self._which(self._now, self._before)
