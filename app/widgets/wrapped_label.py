"""Plain text wrapped to its width; unlike in a QLabel, a word that is wider than a line is broken.

A QLabel asks for the width of its longest word, so a path or large text makes its panel wider than there is room.
"""

from __future__ import annotations

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.widgets.bits import Role

_NARROWEST_PX = 24


class WrappedLabel(QLabel):
    """A label that may be as narrow as its layout requires, with a height for its width."""

    def __init__(self, text: str = "", role: Role = "plain", parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setWordWrap(True)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return _height(self._laid(width))

    def minimumSizeHint(self) -> QSize:
        return QSize(_NARROWEST_PX, self.fontMetrics().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        self._laid(self.width()).draw(painter, QPointF(0, 0))
        painter.end()

    def _laid(self, width: int) -> QTextLayout:
        layout = QTextLayout(self.text(), self.font(), self)
        option = QTextOption(Qt.AlignmentFlag.AlignLeading)
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        option.setTextDirection(self.layoutDirection())
        layout.setTextOption(option)
        layout.beginLayout()
        top = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(max(1, width))
            line.setPosition(QPointF(0, top))
            top += line.height()
        layout.endLayout()
        return layout


def _height(layout: QTextLayout) -> int:
    lines = (layout.lineAt(number) for number in range(layout.lineCount()))
    return round(sum(line.height() for line in lines) + 0.5)
