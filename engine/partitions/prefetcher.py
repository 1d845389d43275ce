"""The prefetcher reads the next cold partition while the last one is searched: one thread, one file at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Reading:
    """A partition on its way into memory. Its room is not to be touched until `wait` or `cancel` has returned."""

    def __init__(self, future: Future[None], cancelled: threading.Event) -> None:
        self._future, self._cancelled = future, cancelled

    def wait(self) -> None:
        """Returns when it is there. Raises what the filling raised, or Cancelled after `cancel`."""
        self._future.result()

    def cancel(self) -> None:
        """Calls the reading off and returns when nothing is written any more."""
        self._cancelled.set()
        if not self._future.cancel():
            self._future.exception()


class Prefetcher:
    """Used by the thread that sweeps, one sweep at a time. The thread starts with the first reading, or before."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")

    def start(self) -> None:
        """Starts the thread now: started by one that yields, it would yield for ever (see yielding.py)."""
        self._pool.submit(lambda: None)

    def read(self, fill: Callable[[threading.Event], None]) -> Reading:
        """Begins to `fill` some room, which ends early when the event is set."""
        cancelled = threading.Event()
        return Reading(self._pool.submit(fill, cancelled), cancelled)

    def close(self) -> None:
        self._pool.shutdown()
