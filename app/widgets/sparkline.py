"""A rate over the last minutes as a small line, which its description gives as figures."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme
from app.models.rates import WINDOW_S

_HEIGHT_PX = 26
_PADDING_PX = 3.0
_SHORTEST_S = 20.0


class Sparkline(QWidget):
    """Points are pairs of age in seconds and value; the newest is at the right, zero at the bottom."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points: tuple[tuple[float, float], ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(name)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        return self._points

    def sizeHint(self) -> QSize:
        return QSize(120, _HEIGHT_PX)

    def minimumSizeHint(self) -> QSize:
        return QSize(48, _HEIGHT_PX)

    def show_points(self, points: Sequence[tuple[float, float]], words: str) -> None:
        """Shows points; `words` describe them with the lowest and the highest value."""
        if tuple(points) != self._points:
            self._points = tuple(points)
            self.setAccessibleDescription(words)
            self.setToolTip(words)
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        look = theme.current()
        foot = self.height() - _PADDING_PX
        painter.setPen(QPen(QColor(look.border), 1))
        painter.drawLine(QPointF(0, foot), QPointF(self.width(), foot))
        line = self._line(foot)
        if line:
            self._paint_line(painter, line, foot, QColor(look.accent))
        painter.end()

    def _line(self, foot: float) -> list[QPointF]:
        highest = max((value for _, value in self._points), default=0.0) or 1.0
        wide, high = self.width() - 2 * _PADDING_PX, foot - _PADDING_PX
        # Otherwise, a rate of a few seconds would be a dot at the edge.
        span_s = min(WINDOW_S, max(_SHORTEST_S, self._points[0][0])) if self._points else WINDOW_S
        return [
            QPointF(_PADDING_PX + wide * max(0.0, 1 - age / span_s), foot - high * value / highest)
            for age, value in self._points
        ]

    def _paint_line(self, painter: QPainter, line: list[QPointF], foot: float, colour: QColor) -> None:
        shade = QLinearGradient(0, 0, 0, self.height())
        for place, alpha in ((0.0, 70), (1.0, 8)):
            shade.setColorAt(place, QColor(colour.red(), colour.green(), colour.blue(), alpha))
        painter.setPen(QPen(QColor(0, 0, 0, 0)))
        painter.setBrush(shade)
        painter.drawPolygon(QPolygonF([QPointF(line[0].x(), foot), *line, QPointF(line[-1].x(), foot)]))
        painter.setPen(QPen(colour, 1.5))
        painter.drawPolyline(QPolygonF(line))
        painter.setPen(QPen(QColor(0, 0, 0, 0)))
        painter.setBrush(colour)
        painter.drawEllipse(QRectF(line[-1].x() - 2, line[-1].y() - 2, 4, 4))
