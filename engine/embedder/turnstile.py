"""The turnstile of the model: at most as many batches at once as it has places, and questions before documents.

A question waits for at most one of the small batches that are already running.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Turnstile:
    """A semaphore with numbered places, where urgent threads go first."""

    num_places: int = 1
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _taken: set[int] = field(default_factory=set)
    _urgent_waiting: int = 0

    @property
    def num_inside(self) -> int:
        """How many threads are inside now."""
        return len(self._taken)

    @contextmanager
    def pass_through(self, *, is_urgent: bool) -> Iterator[int]:
        """Holds the lowest free place during the block, and yields its number."""
        place = self._enter(is_urgent)
        try:
            yield place
        finally:
            with self._changed:
                self._taken.discard(place)
                self._changed.notify_all()

    @contextmanager
    def keep_out(self) -> Iterator[None]:
        """Takes all places during the block, after the threads inside have left."""
        with ExitStack() as places:
            for _ in range(self.num_places):
                places.enter_context(self.pass_through(is_urgent=True))
            yield

    def _enter(self, is_urgent: bool) -> int:
        with self._changed:
            self._urgent_waiting += is_urgent
            self._changed.wait_for(
                lambda: len(self._taken) < self.num_places and (is_urgent or not self._urgent_waiting)
            )
            self._urgent_waiting -= is_urgent
            place = min(set(range(self.num_places)) - self._taken)
            self._taken.add(place)
            return place
