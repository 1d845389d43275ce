"""What can be done with a whole turn: continue from it in a new chat, or delete it."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget


class TurnMenu(QMenu):
    """Offered below an answer that has ended."""

    new_chat_wanted = Signal()
    delete_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.new_chat = self.addAction(self.tr("Continue in a new chat"), self.new_chat_wanted.emit)
        self.addSeparator()
        self.delete = self.addAction(self.tr("Delete this question and its answer"), self.delete_wanted.emit)
