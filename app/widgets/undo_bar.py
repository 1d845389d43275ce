"""A line that offers to take back the last deletion for a while."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text

UNDO_MS = 8000


class UndoBar(QWidget):
    """Hidden unless it offers something."""

    undone = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, singleShot=True, interval=UNDO_MS)
        self._timer.timeout.connect(self.hide)
        self.button = bits.button(self.tr("Undo"), "link", clicked=self._on_undo)
        self.words = ElidedLabel("", "small")
        line = bits.row(self.words, self.button)
        line.setStretch(0, 1)
        line.setContentsMargins(10, 4, 6, 4)
        self.setLayout(line)
        self.hide()

    def offer(self, title: str, number: int = 1) -> None:
        """Offers to restore the chat with that title, or several chats."""
        if number > 1:
            self._show(self.tr("%1 chats deleted").replace("%1", count_text(number)))
        else:
            self._show(self.tr("“%1” deleted").replace("%1", title) if title else self.tr("Chat deleted"))

    def offer_turn(self) -> None:
        """Offers to restore a question with its answer."""
        self._show(self.tr("Question and answer deleted"))

    def announce(self, number: int = 1) -> None:
        """Makes a screen reader say what was deleted and that it can be restored, although the focus is elsewhere."""
        spoken = self.tr("%1. Ctrl+Z restores it.") if number == 1 else self.tr("%1. Ctrl+Z restores them.")
        self._say(spoken.replace("%1", self.words.text()))

    def announce_turn(self) -> None:
        """Makes a screen reader say what was deleted."""
        self._say(self.words.text())

    def withdraw(self) -> None:
        self._timer.stop()
        self.hide()

    def _show(self, words: str) -> None:
        self.words.setText(words)
        self.show()
        self._timer.start()

    def _say(self, spoken: str) -> None:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, spoken))

    def _on_undo(self) -> None:
        self.withdraw()
        self.undone.emit()
