"""SerialExecutor: requests that must keep their order are carried out one after another, on a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait


class SerialExecutor:
    """Carries out work in order on its own thread; used by one other thread."""

    def __init__(self, name: str) -> None:
        """Prepares; `name` is that of the thread."""
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted is done."""
        return self._last is None or self._last.done()

    def submit(self, work: Callable[[], None]) -> None:
        """Queues work behind everything before it."""
        self._last = self._pool.submit(work)

    def end(self) -> Future[None] | None:
        """Accepts no more work; returns the future of the last, None without any."""
        self._pool.shutdown(wait=False)
        return self._last


def end_all(lanes: Sequence[SerialExecutor], patience_seconds: float) -> None:
    """Ends all, and waits up to `patience_seconds` for their work, some of which may hang."""
    wait([last for lane in lanes if (last := lane.end()) is not None], patience_seconds)
