"""An empty place: one icon, one sentence, one button."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.picture import Picture


class EmptyState(QWidget):
    """A placeholder; its button emits `chosen`, and is left out without a text."""

    chosen = Signal()

    def __init__(self, icon: str, sentence: str, button: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sentence = bits.label(sentence, "muted", wraps=True)
        self._sentence.setAlignment(Qt.AlignmentFlag.AlignCenter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 24, 24, 24)
        layout.setSpacing(16)
        layout.addStretch(2)
        layout.addWidget(Picture(icon, "faint", 40))
        layout.addWidget(self._sentence)
        if button:
            self.button = bits.button(button, "plain", clicked=self.chosen.emit)
            layout.addWidget(self.button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(3)

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def show_sentence(self, sentence: str) -> None:
        self._sentence.setText(sentence)
