"""SerialExecutor: requests that must keep their order are carried out one after another, on a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait


class SerialExecutor:
    """Used by one thread, which is not its own."""

    def __init__(self, name: str) -> None:
        """`name` is the thread's."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Has it carried out behind all that came before."""
        self._last = self._pool.submit(work)

    def end(self) -> Future[None] | None:
        """Takes nothing more; what is carried out last, of what it has."""
        self._pool.shutdown(wait=False)
        return self._last


def end_all(lanes: Sequence[SerialExecutor], patience_seconds: float) -> None:
    """Ends them; waits so long for all that they have, some of which may hang."""
    wait([last for lane in lanes if (last := lane.end()) is not None], patience_seconds)
