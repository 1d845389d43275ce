"""The turnstile before the model: one batch at a time, and a question never queues behind documents.

A question waits for at most the one small batch that is already inside.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Turnstile:
    """Lets one thread in; those who are urgent go first."""

    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_taken: bool = False
    _urgent_waiting: int = 0

    @contextmanager
    def pass_through(self, *, is_urgent: bool) -> Iterator[None]:
        """Holds the turnstile for the block inside."""
        self._enter(is_urgent)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, is_urgent: bool) -> None:
        with self._changed:
            self._urgent_waiting += is_urgent
            self._changed.wait_for(lambda: not self._is_taken and (is_urgent or not self._urgent_waiting))
            self._urgent_waiting -= is_urgent
            self._is_taken = True

    def _leave(self) -> None:
        with self._changed:
            self._is_taken = False
            self._changed.notify_all()
