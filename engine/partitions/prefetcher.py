"""The prefetcher reads the next cold partition while the last one is searched: one thread, one file at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Reading:
    """A partition being read into memory. Its buffer must not be used until `wait` or `cancel` has returned."""

    def __init__(self, future: Future[None], cancelled: threading.Event) -> None:
        self._future, self._cancelled = future, cancelled

    def wait(self) -> None:
        """Waits until it is read. Raises what reading raised, or Cancelled after `cancel`."""
        self._future.result()

    def cancel(self) -> None:
        """Stops the read, and returns when the buffer is no longer written to."""
        self._cancelled.set()
        if not self._future.cancel():
            self._future.exception()


class Prefetcher:
    """One reading thread, which starts with the first read or `start`. Used by the thread that sweeps."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")

    def start(self) -> None:
        """Starts the thread now: started by a thread of low priority, it would keep that (see yielding.py)."""
        self._pool.submit(lambda: None)

    def read(self, fill: Callable[[threading.Event], None]) -> Reading:
        """Starts `fill` on the thread; it should end early when its event is set."""
        cancelled = threading.Event()
        return Reading(self._pool.submit(fill, cancelled), cancelled)

    def close(self) -> None:
        self._pool.shutdown()
