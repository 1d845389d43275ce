"""Debouncing: which changed paths have been quiet for long enough to be looked at. Pure: no thread, no disk.

A burst of changes counts as one change. A file that keeps changing waits longer each time, up to a limit. A path that
vanished waits until nothing else vanishes, so that the deletion of a folder is seen as a whole. Changes below a folder
that already waits belong to that folder's change.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

# A first change is due after this time without another one …
SETTLE_SECONDS = 0.4
# … a repeated one after at most this …
MAX_SETTLE_SECONDS = 2.0
# … and a file that never stops changing (a log) after this in any case.
PATIENCE_SECONDS = 60.0
# A move to another file system is a copy and then a deletion. The deletion must come due after the copies in both
# cases; otherwise the documents would be removed before the copies are known, and all be embedded again.
GONE_SETTLE_SECONDS = 2.5
GONE_PATIENCE_SECONDS = 65.0
# More paths than this are reported as the folders that contain them.
MAX_PATHS = 2000


@dataclass(frozen=True, slots=True)
class State:
    """What is at a path, as seen by the caller: equal states mean no change; `content` is None if nothing is there."""

    content: Hashable
    is_folder: bool


GONE = State(None, False)


@dataclass(slots=True)
class _Change:
    """A change at one path that may still continue."""

    first: float
    last: float
    settle_seconds: float
    state: State


class Debouncer:
    """Collects changes, and returns those that have ended."""

    def __init__(self) -> None:
        self._changes: dict[str, _Change] = {}
        self._last_gone = 0.0

    def __len__(self) -> int:
        return len(self._changes)

    def note(self, path: str, state: State, now: float) -> None:
        """Notes a change at `path`, which is in this state now; times are in seconds of any clock."""
        known = self._changes.get(path) or self._folder_above(path)
        if known is not None and known.state.is_folder:
            self._touch(known, now)
            return
        if known is None:
            self._changes[path] = _Change(now, now, SETTLE_SECONDS, state)
        else:
            known.state = state
            self._touch(known, now)
        if state == GONE:
            self._last_gone = now

    def quiet(self, now: float) -> tuple[str, ...]:
        """Returns the paths that nothing was heard of for long enough; look at them, and pass their states to `due`."""
        return tuple(path for path, change in self._changes.items() if self._due_at(change) <= now)

    def due(self, states: Mapping[str, State], now: float) -> tuple[str, ...]:
        """Returns those of these paths that are still quiet and in the same state, and forgets them."""
        still = [path for path in self.quiet(now) if path in states and self._is_still(path, states[path], now)]
        for path in still:
            del self._changes[path]
        return coalesced(still)

    def next_due(self) -> float | None:
        """Returns when to call `quiet` again; None when nothing waits."""
        return min(map(self._due_at, self._changes.values()), default=None)

    def _folder_above(self, path: str) -> _Change | None:
        above = os.path.dirname(path)
        while above != path:
            change = self._changes.get(above)
            if change is not None and change.state.is_folder:
                return change
            path, above = above, os.path.dirname(above)
        return None

    def _touch(self, change: _Change, now: float) -> None:
        # A later change is a repeated one; within a burst it is still the same.
        if now - change.last > SETTLE_SECONDS / 2:
            change.settle_seconds = min(2 * change.settle_seconds, MAX_SETTLE_SECONDS)
        change.last = now

    def _due_at(self, change: _Change) -> float:
        if change.state == GONE:
            return min(max(change.last, self._last_gone) + GONE_SETTLE_SECONDS, change.first + GONE_PATIENCE_SECONDS)
        return min(change.last + change.settle_seconds, change.first + PATIENCE_SECONDS)

    def _is_still(self, path: str, state: State, now: float) -> bool:
        """Returns whether nothing changed unheard: a network drive may report a change late, or not at all."""
        change = self._changes[path]
        if state == change.state or now >= change.first + PATIENCE_SECONDS:
            return True
        change.state = state
        self._touch(change, now)
        return False


def coalesced(paths: Iterable[str]) -> tuple[str, ...]:
    """Returns the paths without those below others; too many are replaced by the folders that contain them."""
    outermost = _outermost(set(paths))
    while len(outermost) > MAX_PATHS:
        outermost = _outermost({os.path.dirname(path) for path in outermost})
    return outermost


def _outermost(paths: set[str]) -> tuple[str, ...]:
    return tuple(sorted(path for path in paths if not _has_above(path, paths)))


def _has_above(path: str, paths: set[str]) -> bool:
    above = os.path.dirname(path)
    while above != path:
        if above in paths:
            return True
        path, above = above, os.path.dirname(above)
    return False
