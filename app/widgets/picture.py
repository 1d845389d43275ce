"""A decorative icon, redrawn in the theme's colour whenever the theme changes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QLabel, QWidget

from app import theme


class Picture(QLabel):
    """Shows an icon in `colour`, a field of Theme; the words next to it say the same."""

    def __init__(self, icon: str, colour: str = "muted", side: int = 20, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon, self._colour, self._side = icon, colour, side
        self._look = theme.current()
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setMinimumSize(side, side)
        self._draw()

    def show_icon(self, icon: str, colour: str) -> None:
        self._icon, self._colour = icon, colour
        self._draw()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._look is not theme.current():
            self._look = theme.current()
            self._draw()

    def _draw(self) -> None:
        colour = getattr(theme.current(), self._colour)
        self.setPixmap(theme.pixmap(self._icon, self._side, colour, self.devicePixelRatioF()))
