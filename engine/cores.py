"""Shares the cores between answers that are written and searches, as sharing.py decides.

The retrieval thread says when it searches; the generation thread asks before each step whether it may compute now, and
before each pass with how many threads. Usable from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.memory.sharing import UNMEASURED, Sharing, pass_threads
from engine.yielding import at_most_threads

# The most that answers pause for searches if taking turns is better; a longer search is bound by the disk.
MOST_WAIT_SECONDS = 1.0
# How often a waiting thread checks whether anything else has come for it.
_LOOK_SECONDS = 0.02
# The share of a deviation by which a search corrects the expected duration of searches.
_LEARNING_RATE = 0.3


class Cores:
    """Knows who computes now; `sharing` is called each time, because it may change at any moment."""

    def __init__(
        self, sharing: Callable[[], Sharing] = lambda: UNMEASURED, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sharing, self._clock = sharing, clock
        self._changed = threading.Condition()
        self._since: float | None = None
        # How long searches take, alongside steps or not; None before the first.
        self._usual_seconds: float | None = None
        # Since when the next step waits: one search may follow the other at once.
        self._held_since: float | None = None
        self._is_writing = False

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Marks a search of the retrieval thread; while answers are written, fewer threads may scan for it."""
        if self._since is not None:
            # Another question overtakes in the middle of it.
            yield
            return
        since = self._clock()
        with self._changed:
            self._since = since
        try:
            most = self._sharing().scan_threads if self._is_writing else None
            with at_most_threads(most):
                yield
        finally:
            with self._changed:
                self._note_search(self._clock() - since)
                self._since = None
                self._changed.notify_all()

    def begin_step(self) -> None:
        """Notes that a step is about to be computed."""
        self._is_writing, self._held_since = True, None

    def threads_for(self, reading_seconds: float) -> int | None:
        """Returns the threads of a pass that reads prompts for `reading_seconds`; see `pass_threads`."""
        since = self._since
        if since is None:
            return None
        left_seconds = (self._usual_seconds or 0.0) - (self._clock() - since)
        return pass_threads(self._sharing(), reading_seconds, left_seconds)

    def rest(self) -> None:
        """Notes that nothing is being written."""
        self._is_writing, self._held_since = False, None

    def may_step(self) -> bool:
        """Returns whether the next step may be computed; if not, it has waited a moment, and is to be called again."""
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

    def _note_search(self, seconds: float) -> None:
        known = seconds if self._usual_seconds is None else self._usual_seconds
        self._usual_seconds = known + _LEARNING_RATE * (seconds - known)

    @property
    def _is_searching(self) -> bool:
        return self._since is not None
