"""The thread of looks: searches for answers that are being written, with the lowest priority.

PipeRAG hides retrieval behind generation on separate processors. Here both need the same cores, and each step waits for
its slowest thread: any time that a search takes from one core delays the answer. So this thread only gets idle time,
and a look takes longer; the interval between two looks (refresh_policy.py) adapts to that.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from engine.looking_again import FoundAgain, LookAgain, TellFound
from engine.retrieval.batching import MAX_BATCH
from engine.retrieval.breadth import LookCosts
from engine.retrieval.looks import Looks
from engine.retrieval.reported import reported
from engine.retrieval.search import Searcher
from engine.spinning import idle_cores_wanted
from engine.yielding import yield_to_others

log = logging.getLogger(__name__)


class LookThread:
    """Starts with the first look; `tell` receives the result of each, unless its answer has ended before."""

    def __init__(
        self,
        open_searcher: Callable[[], Searcher],
        costs: LookCosts,
        tell: TellFound,
        do_people_wait: Callable[[], bool] = lambda: False,
    ) -> None:
        self._open_searcher, self._tell = open_searcher, tell
        self._looks = Looks(costs, tell, do_people_wait)
        self._queue: queue.Queue[LookAgain | None] = queue.Queue()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def put(self, look: LookAgain) -> None:
        """Queues a look; once the thread was stopped, no caller waits for it any more."""
        with self._changing:
            if self._is_closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="looks", daemon=True)
                self._thread.start()
            self._queue.put(look)

    def stop(self) -> None:
        """Ends the thread after the present search; waiting looks are dropped. A second call does nothing."""
        with self._changing:
            self._is_closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        yield_to_others()
        while looks := self._waiting():
            self._look(looks)

    def _waiting(self) -> list[LookAgain]:
        """Returns all waiting looks, at least one; none once the thread should end."""
        looks: list[LookAgain] = []
        while not self._is_closed and len(looks) < MAX_BATCH and not (looks and self._queue.empty()):
            look = self._queue.get()
            if look is not None:
                looks.append(look)
        return [] if self._is_closed else looks

    def _look(self, looks: list[LookAgain]) -> None:
        try:
            with idle_cores_wanted():
                self._looks.carry_out(self._open_searcher(), looks)
        except Exception as error:  # noqa: BLE001 - the edge of the thread; the answers go on from what they have
            reason = reported(error)
            log.info("nothing more was found for %d answers: %s", len(looks), reason)
            for look in looks:
                self._tell(FoundAgain(look.question_id, look.number, (), 0.0, reason))
