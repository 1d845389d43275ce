"""A figure that changes many times a second: painted in place, without a new layout of the page."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme


class Figure(QWidget):
    """Bold text in one line. A QLabel would request a new layout at each `setText`, even if its size stays."""

    def __init__(self, text: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self._width = 0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_text(text)

    @property
    def text(self) -> str:
        return self._text

    def set_text(self, text: str) -> None:
        """Shows another figure; the width only grows, as long as the font stays."""
        if text == self._text:
            return
        self._text = text
        self.setAccessibleName(text)
        wide = self._needed_width()
        if wide > self._width:
            self._width = wide
            self.updateGeometry()
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._width = self._needed_width()
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        return QSize(self._width, QFontMetrics(self._bold()).height() + 4)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(self._bold())
        painter.setPen(QColor(theme.current().text))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter, self._text)
        painter.end()

    def _needed_width(self) -> int:
        return QFontMetrics(self._bold()).horizontalAdvance(self._text) + 2

    def _bold(self) -> QFont:
        bold = self.font()
        bold.setWeight(QFont.Weight.DemiBold)
        return bold
