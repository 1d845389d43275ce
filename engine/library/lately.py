"""Lately: which documents looks have found gone within the last hour, of themselves.

A large folder may be deleted slowly, on a network drive or by a sync program: each look sees only a few files missing,
and none sees that it is more than half of the folder.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.library.changes import is_below
from engine.library.pace import Clock

_REMEMBERED_SECONDS = 3600.0


class LatelyGone:
    """Paths with the time at which they were found gone. For the index thread only; empty when the engine starts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gone: dict[str, float] = {}

    def note(self, went: Iterable[str], came: Iterable[str]) -> None:
        """Notes paths that left the library unasked, and forgets those that have come (back) into it."""
        now = self._clock()
        self._gone = {path: at for path, at in self._gone.items() if now - at < _REMEMBERED_SECONDS}
        self._gone.update(dict.fromkeys(went, now))
        for path in came:
            self._gone.pop(path, None)

    def count_below(self, folder: str) -> int:
        """Counts the documents of a folder that were found gone within the last hour."""
        now = self._clock()
        return sum(now - at < _REMEMBERED_SECONDS and is_below(path, folder) for path, at in self._gone.items())

    def forget_below(self, folder: str) -> None:
        """Forgets the paths of a folder, because the user has decided about them."""
        self._gone = {path: at for path, at in self._gone.items() if not is_below(path, folder)}
