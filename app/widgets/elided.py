"""One line of text, cut with an ellipsis to the available width, with the whole text as its tooltip."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.tips import plain_tip
from app.widgets.bits import Role

if TYPE_CHECKING:
    from PySide6.QtGui import QPaintEvent


class ElidedLabel(QLabel):
    """A label that may become as narrow as its layout requires; with `letters` it has the width of so many letters."""

    def __init__(
        self,
        text: str = "",
        role: Role = "plain",
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle,
        parent: QWidget | None = None,
        *,
        letters: int = 0,
    ) -> None:
        super().__init__(text, parent)
        self._mode, self._letters = mode, letters
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        across = QSizePolicy.Policy.Fixed if letters else QSizePolicy.Policy.Expanding
        self.setSizePolicy(across, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return QSize(self._letters * self.fontMetrics().averageCharWidth(), hint.height()) if self._letters else hint

    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        shown = self.fontMetrics().elidedText(self.text(), self._mode, self.width())
        self.setToolTip(plain_tip(self.text()) if shown != self.text() else "")
        # The painter mirrors the alignment in a right-to-left layout. The style would do the same, but would load a
        # large class before the first paint.
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(self.rect(), self.alignment(), shown)
        painter.end()
