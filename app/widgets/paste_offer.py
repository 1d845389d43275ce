"""The offer below a question, after a long text was pasted, to attach it as a file that can be asked about."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from app.widgets import bits


class PasteOffer(QWidget):
    """A line with the offer; hidden until there is one."""

    accepted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = bits.label("", "small", wraps=True)
        self.keep = bits.button(self.tr("Attach as a file"), "link", clicked=self.accepted.emit)
        line = bits.row(spacing=8)
        line.addWidget(self.words, 1)
        line.addWidget(self.keep, 0, Qt.AlignmentFlag.AlignTop)
        self.setLayout(line)
        self.hide()

    def offer(self, words: str, *, can_keep: bool = True) -> None:
        """Shows the offer; without `can_keep` only the words, because nothing saves files."""
        self.words.setText(words)
        self.keep.setVisible(can_keep)
        self.show()
        spoken = f"{words} {self.keep.text()}" if can_keep else words
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, spoken))
