"""Short-lived marks below a lane where something just moved; they fade."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

LIFE_S = 0.9
_STEP_MS = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark from `start` to `end` as fractions of a lane; `has_gone` is painted differently."""

    start: float
    end: float
    has_gone: bool
    made_at: float


class MoveMarks(QObject):
    """Owns the marks of one lane; its timer runs only while there are any."""

    faded = Signal()  # marks are weaker, or gone

    def __init__(self, parent: QObject, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._clock = clock
        self._marks: list[Mark] = []
        self._timer = QTimer(self, interval=_STEP_MS)
        self._timer.timeout.connect(self._on_step)

    def add(self, start: float, end: float, *, has_gone: bool = False) -> None:
        self._marks.append(Mark(start, end, has_gone, self._clock()))
        if not self._timer.isActive():
            self._timer.start()

    def strengths(self) -> tuple[tuple[Mark, float], ...]:
        """Returns the marks with their strengths, from 1 (new) to 0."""
        now = self._clock()
        aged = [(mark, 1 - (now - mark.made_at) / LIFE_S) for mark in self._marks]
        return tuple((mark, strength) for mark, strength in aged if strength > 0)

    def clear(self) -> None:
        self._marks.clear()
        self._timer.stop()

    def _on_step(self) -> None:
        self._marks = [mark for mark, _ in self.strengths()]
        if not self._marks:
            self._timer.stop()
        self.faded.emit()
