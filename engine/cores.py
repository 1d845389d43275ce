"""The cores, shared between answers that are written and questions that are searched for, as sharing.py decided.

The retrieval thread says when it searches; the generation thread asks before each step. Usable from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.memory.sharing import UNMEASURED, Sharing
from engine.yielding import at_most_threads

# So long answers stand still for searches, where taking turns is the better way; a long one is bound by the disk.
MOST_WAIT_SECONDS = 1.0
# A thread that waits looks so often whether anything else has come for it.
_LOOK_SECONDS = 0.02


class Cores:
    """Who computes now; `sharing` is asked each time, so that it may change at any moment."""

    def __init__(
        self, sharing: Callable[[], Sharing] = lambda: UNMEASURED, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sharing, self._clock = sharing, clock
        self._changed = threading.Condition()
        self._since: float | None = None
        # Since when the next step waits: one search may follow the other at once.
        self._held_since: float | None = None
        self._is_writing = False

    @contextmanager
    def searching(self) -> Iterator[None]:
        """The retrieval thread searches; so many threads scan for it as it may have while answers are written."""
        if self._since is not None:
            # Somebody is let by in the middle of it.
            yield
            return
        with self._changed:
            self._since = self._clock()
        try:
            most = self._sharing().scan_threads if self._is_writing else None
            with at_most_threads(most):
                yield
        finally:
            with self._changed:
                self._since = None
                self._changed.notify_all()

    def begin_step(self) -> int | None:
        """A step is about to be computed; the threads that it may have, None for as many as it has alone."""
        self._is_writing, self._held_since = True, None
        return self._sharing().write_threads if self._is_searching else None

    def rest(self) -> None:
        """Nothing is being written."""
        self._is_writing, self._held_since = False, None

    def may_step(self) -> bool:
        """Whether the next step's turn has come; waits for a moment where it has not, so ask again."""
        if not self._is_searching or not self._sharing().in_turn:
            return True
        with self._changed:
            now = self._clock()
            if self._since is None or now - self._since >= MOST_WAIT_SECONDS:
                return True
            self._held_since = now if self._held_since is None else self._held_since
            if now - self._held_since >= MOST_WAIT_SECONDS:
                return True
            return self._changed.wait_for(lambda: self._since is None, _LOOK_SECONDS)

    @property
    def _is_searching(self) -> bool:
        return self._since is not None
