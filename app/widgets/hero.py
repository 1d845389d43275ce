"""An empty chat: a greeting, and what the answers come from."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app import theme
from app.widgets import bits


class Hero(QWidget):
    """Says what the questions will be answered from."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        cat = QLabel()
        cat.setPixmap(theme.pixmap("ragdoll", 56, "black", self.devicePixelRatioF()))
        self._title = bits.label(self.tr("What would you like to know?"), "title", wraps=True)
        self._words = bits.label("", "muted", wraps=True)
        layout = QVBoxLayout(self)
        layout.setSpacing(8)
        layout.addStretch(2)
        for part in (cat, self._title, self._words):
            part.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addWidget(part)
        layout.addStretch(3)

    @property
    def sentence(self) -> str:
        return self._words.text()

    def show_sentence(self, sentence: str) -> None:
        self._words.setText(sentence)
