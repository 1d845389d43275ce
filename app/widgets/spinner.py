"""A small turning arc that shows activity; it turns only while it is visible."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QHideEvent, QPainter, QPaintEvent, QPen, QShowEvent
from PySide6.QtWidgets import QWidget

from app import theme

_STEP_MS = 40
_STEP_DEGREES = 14
_ARC_DEGREES = 100


class Spinner(QWidget):
    """A turning arc; the words next to it say what is going on."""

    def __init__(self, side: int = 14, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._angle = 0
        self._timer = QTimer(self, interval=_STEP_MS)
        self._timer.timeout.connect(self._turn)
        self.setFixedSize(QSize(side, side))
        self.setAccessibleDescription(self.tr("Working"))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()

    def paintEvent(self, _event: QPaintEvent) -> None:
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        circle = QRectF(self.rect()).adjusted(1.5, 1.5, -1.5, -1.5)
        painter.setPen(QPen(QColor(look.border_strong), 2))
        painter.drawEllipse(circle)
        painter.setPen(QPen(QColor(look.accent), 2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawArc(circle, -self._angle * 16, -_ARC_DEGREES * 16)
        painter.end()

    def _turn(self) -> None:
        self._angle = (self._angle + _STEP_DEGREES) % 360
        self.update()
