"""Numbers that come and go, as a plan should take them: the most or the least of late.

Pages of libraries are dropped while nobody asks and come back with each question. A plan that followed them would give
layers the room every time, and take it back.
"""

from __future__ import annotations

from collections.abc import Callable

# So that whatever comes with a question is remembered until the next one, by and large.
WITHIN_SECONDS = 60.0


class OfLate:
    """The most (`max`) or the least (`min`) that was seen in this minute and the one before in which anything was.

    0 before the first. Not for several threads at once.
    """

    def __init__(self, which: Callable[[int, int], int]) -> None:
        self._which = which
        self._since: float | None = None
        self._now = self._before = 0

    @property
    def value(self) -> int:
        return self._which(self._now, self._before)

    def see(self, number: int, now: float) -> None:
        """Takes in what it is at `now`: seconds of a clock that never goes back."""
        if self._since is None:
            # Of the least that leaves 0: what was seen once may be a moment's.
            self._since, self._now = now, number
        elif now - self._since >= WITHIN_SECONDS:
            self._since, self._before, self._now = now, self._now, number
        else:
            self._now = self._which(self._now, number)
