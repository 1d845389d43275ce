"""Fluctuating numbers as a plan should take them: their recent maximum or minimum.

The system drops pages of libraries while no question comes, and each question brings them back. A plan that followed
them would give layers that room every time, and take it back again.
"""

from __future__ import annotations

from collections.abc import Callable

# So that what comes with a question is, as a rule, remembered until the next one.
WITHIN_SECONDS = 60.0


class RecentExtreme:
    """The maximum (`max`) or minimum (`min`) seen in the current minute and in the last one before that had any number.

    It is 0 before the first number. Not thread-safe.
    """

    def __init__(self, which: Callable[[int, int], int]) -> None:
        self._which = which
        self._since: float | None = None
        self._now = self._before = 0

    @property
    def value(self) -> int:
        return self._which(self._now, self._before)

    def see(self, number: int, now: float) -> None:
        """Takes in the number at time `now`, in seconds of a monotonic clock."""
        if self._since is None:
            # The minimum stays 0 then: a number that was seen once may have been that of a moment.
            self._since, self._now = now, number
        elif now - self._since >= WITHIN_SECONDS:
            self._since, self._before, self._now = now, self._now, number
        else:
            self._now = self._which(self._now, number)
