"""Lately: which documents looks have found gone within the last hour, of themselves.

A large folder is deleted slowly, on a network drive or by a program that syncs: each look sees a few files missing,
and none of them that it was more than half of the folder.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.library.changes import is_below
from engine.library.pace import Clock

_REMEMBERED_SECONDS = 3600.0


class LatelyGone:
    """Paths, by when they were found gone. For the index thread alone; it is empty after a start of the engine."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gone: dict[str, float] = {}

    def note(self, went: Iterable[str], came: Iterable[str]) -> None:
        """The documents that left the library unasked, and those that came into it: what is there again is not gone."""
        now = self._clock()
        self._gone = {path: at for path, at in self._gone.items() if now - at < _REMEMBERED_SECONDS}
        self._gone.update(dict.fromkeys(went, now))
        for path in came:
            self._gone.pop(path, None)

    def count_below(self, folder: str) -> int:
        """How many documents of a folder have gone within the hour."""
        now = self._clock()
        return sum(now - at < _REMEMBERED_SECONDS and is_below(path, folder) for path, at in self._gone.items())

    def forget_below(self, folder: str) -> None:
        """The user has decided about that folder: what went before says nothing any more."""
        self._gone = {path: at for path, at in self._gone.items() if not is_below(path, folder)}
