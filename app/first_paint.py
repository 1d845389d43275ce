"""Tells when a window's first paint is on the screen, so that everything heavy can come after it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

# A window that starts minimised or covered is never painted; its engine must start nevertheless.
LONGEST_WAIT_MS = 2000


class FirstPaint(QObject):
    """Watches `window` until `painted`, which comes once, from the event loop."""

    painted = Signal()  # the first paint was flushed, or did not come within LONGEST_WAIT_MS

    def __init__(self, window: QWidget, longest_wait_ms: int = LONGEST_WAIT_MS) -> None:
        super().__init__(window)
        self._window = window
        self._is_over = False
        window.installEventFilter(self)
        QTimer.singleShot(longest_wait_ms, self, self._tell)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            # Children are painted and all is flushed before the event loop runs again.
            self._window.removeEventFilter(self)
            QTimer.singleShot(0, self, self._tell)
        return False

    def _tell(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._window.removeEventFilter(self)
            self.painted.emit()
