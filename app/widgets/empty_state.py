"""An empty place: one icon, one sentence, one button."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits


class EmptyState(QWidget):
    """`chosen` is emitted by the one button; without a button text there is none."""

    chosen = Signal()

    def __init__(self, icon: str, sentence: str, button: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon = icon
        self._picture = QLabel()
        self._picture.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._sentence = bits.label(sentence, "muted", wraps=True)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._sentence.setMaximumWidth(360)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.setSpacing(16)
        layout.addStretch(2)
        layout.addWidget(self._picture)
        layout.addWidget(self._sentence, 0, Qt.AlignmentFlag.AlignHCenter)
        if button:
            self.button = bits.button(button, "plain", clicked=self.chosen.emit)
            layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)
        self._paint_icon()

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def show_sentence(self, sentence: str) -> None:
        self._sentence.setText(sentence)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange:
            self._paint_icon()

    def _paint_icon(self) -> None:
        self._picture.setPixmap(theme.pixmap(self._icon, 40, theme.current().faint, self.devicePixelRatioF()))
