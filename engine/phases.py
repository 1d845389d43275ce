"""Long phases that the window is told about, such as loading libraries; several may run at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.events import PhaseChanged, Publish


class Phases:
    """Publishes the newest phase that is still running, and "" once none is. Usable from any thread."""

    def __init__(self, publish: Publish) -> None:
        self._publish = publish
        self._running: list[str] = []
        self._lock = threading.Lock()

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Declares `phase` for the block inside."""
        with self._lock:
            self._running.append(phase)
            self._tell()
        try:
            yield
        finally:
            with self._lock:
                self._running.remove(phase)
                self._tell()

    def _tell(self) -> None:
        self._publish(PhaseChanged(self._running[-1] if self._running else ""))
