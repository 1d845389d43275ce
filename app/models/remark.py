"""The latest decision about memory, shown in the status bar for as long as it takes to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

if TYPE_CHECKING:
    from app.models.memory import MemoryModel
    from engine.protocol import Decision

# A sentence takes some seconds to notice, and some to read.
SHOWN_MS = 8000
_LEAST_MS = 2500


class RemarkModel(QObject):
    """`sentence` is "" while there is nothing new; decisions that come together are shown one after the other."""

    sentence_changed = Signal(str)  # the new sentence

    def __init__(self, memory: MemoryModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.sentence = ""
        self._waiting: list[str] = []
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._go_on)
        memory.decided.connect(self._on_decided)

    def _on_decided(self, decision: Decision) -> None:
        # The last ones, because earlier decisions no longer hold.
        self._waiting = [*self._waiting, decision.short or decision.sentence][-3:]
        if not self.sentence:
            self._go_on()
        elif self._timer.remainingTime() > _LEAST_MS:
            self._timer.start(_LEAST_MS)

    def _go_on(self) -> None:
        self.sentence = self._waiting.pop(0) if self._waiting else ""
        if self.sentence:
            self._timer.start(_LEAST_MS if self._waiting else SHOWN_MS)
        self.sentence_changed.emit(self.sentence)
