"""A label with room for its widest possible text, in any font, so that its neighbours do not move."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app.widgets.bits import Role


class RoomyLabel(QLabel):
    """As wide as `widest`, or as its text if that is wider."""

    def __init__(self, widest: str, role: Role = "plain", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._widest = widest
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        return hint.expandedTo(QSize(self.fontMetrics().horizontalAdvance(self._widest), hint.height()))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()
