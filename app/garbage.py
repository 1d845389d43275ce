"""Python's garbage collection, on the main thread only: a Qt object that another thread deletes can end the process.

Python collects on whichever thread happens to allocate, and what it finds may be a widget or a timer in a reference
cycle. Here a timer of the main thread does it, by the same thresholds.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

INTERVAL_MS = 1000


class GarbageCollection(QObject):
    """Replaces the automatic collection of the process from `start` to `stop`; made on the main thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_enabled = False
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(collect_due)

    def start(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()
        # What is there already, mostly modules, stays as long as the process: looking at it would take 50 ms each time.
        gc.freeze()
        self._timer.start()

    def stop(self) -> None:
        self._timer.stop()
        gc.unfreeze()
        if self._was_enabled:
            gc.enable()


def collect_due() -> None:
    """Collects the oldest generation whose threshold is exceeded, and with it the younger ones, as Python does."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    due = [place for place, (count, most) in enumerate(zip(counts, thresholds, strict=True)) if most and count > most]
    if due:
        gc.collect(due[-1])
