"""Scrolls as long as the mouse is dragged beyond the edge of the visible part."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtWidgets import QScrollArea, QWidget

_STEP_MS = 40
# The maximum speed, reached that far from the edge.
_MOST_PX = 48


class EdgeScroll(QObject):
    """Scrolls the scroll area that contains `widget`; does nothing without one."""

    scrolled = Signal()  # something else is under the mouse now

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget, self._where = widget, QPoint()
        self._timer = QTimer(self, interval=_STEP_MS)
        self._timer.timeout.connect(self._on_due)

    @property
    def where(self) -> QPoint:
        """Returns the last position of the mouse on the screen."""
        return self._where

    def follow(self, where: QPoint) -> None:
        """Takes the position of the mouse while its button is down."""
        self._where = where
        if not self._num_beyond():
            self._timer.stop()
        elif not self._timer.isActive():
            self._timer.start()

    def stop(self) -> None:
        self._timer.stop()

    def _area(self) -> QScrollArea | None:
        parent = self._widget.parentWidget()
        while parent is not None and not isinstance(parent, QScrollArea):
            parent = parent.parentWidget()
        return parent

    def _num_beyond(self) -> int:
        """Returns how many pixels the mouse is above (negative) or below the visible part."""
        if (area := self._area()) is None:
            return 0
        height, seen = area.viewport().mapFromGlobal(self._where).y(), area.viewport().height()
        return min(0, height) + max(0, height - seen + 1)

    def _on_due(self) -> None:
        area, beyond = self._area(), self._num_beyond()
        if area is not None and beyond:
            bar = area.verticalScrollBar()
            bar.setValue(bar.value() + max(-_MOST_PX, min(beyond, _MOST_PX)))
            self.scrolled.emit()
