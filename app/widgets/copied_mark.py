"""A check mark on a copy button, shown for a moment after something was copied."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QAbstractButton

from app import theme

_SHOWN_MS = 1500


class CopiedMark(QObject):
    """Owned by a button with the icon "copy", which it shows again afterwards."""

    def __init__(self, button: QAbstractButton, side: int = 16) -> None:
        super().__init__(button)
        self._button, self._side = button, side
        self._shown = QTimer(self, singleShot=True, interval=_SHOWN_MS)
        self._shown.timeout.connect(lambda: theme.dress(button, "copy", side=side))

    def show(self) -> None:
        theme.dress(self._button, "check", "good", side=self._side)
        self._shown.start()
