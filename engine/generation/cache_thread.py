"""The thread that moves kept KV between memory and disk: the most urgent job first, idle work in small portions.

Other threads wait for it only when they read or close: all slow disk operations happen here.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable
from enum import IntEnum

log = logging.getLogger(__name__)

# When closing stops waiting, a running job gets this long to notice.
_GRACE_SECONDS = 0.25


class Urgency(IntEnum):
    """The order of jobs: a prompt waits for reads, and removals make room for writes."""

    READ = 0
    REMOVE = 1
    WRITE = 2
    NOTE = 3
    END = 4


class CacheThread:
    """Runs queued jobs; whenever there is none, a portion of `beside`.

    `beside` returns in how many seconds it wants to go on (0: at once), or None if it has nothing to do. `is_hurried`
    is set when closing stops waiting: from then on jobs do as little as they can.
    """

    def __init__(self, name: str, beside: Callable[[], float | None]) -> None:
        self.is_hurried = False
        self._beside = beside
        self._jobs: queue.PriorityQueue[tuple[int, int, Callable[[], None]]] = queue.PriorityQueue()
        self._serial = itertools.count()
        # A process that ends without closing this must not wait for it: only cached data is lost.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, urgency: Urgency, job: Callable[[], None]) -> None:
        self._jobs.put((urgency, next(self._serial), job))

    def close(self, seconds: float | None = None) -> bool:
        """Ends once all jobs are done, or after `seconds`; returns False if a disk still holds it up.

        A second call does nothing.
        """
        if self._thread.is_alive():
            self.put(Urgency.END, lambda: None)
            self._thread.join(seconds)
            self.is_hurried = True
            self._thread.join(_GRACE_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        patience: float | None = 0.0
        while True:
            try:
                urgency, _, job = self._jobs.get(block=patience != 0, timeout=patience)
            except queue.Empty:
                patience = self._take_portion()
                continue
            if urgency == Urgency.END:
                return
            self._carry_out(job)
            # A job refers to memory that should be freed once it is done.
            del job
            patience = 0.0

    def _take_portion(self) -> float | None:
        try:
            return self._beside()
        except Exception:  # the edge of a thread: jobs that others wait for must still be done
            log.exception("What is kept on disk could not be looked through")
            return None

    def _carry_out(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:  # likewise
            log.exception("background work on the files of kept KV failed")
