"""What just moved in memory, as a line of words that stays long enough to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QWidget

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.memory_words import moves_sentence

if TYPE_CHECKING:
    from app.models.memory_moves import Move

_GATHER_MS = 1000
_STANDS_MS = 6000


class MovesLine(QWidget):
    """Collects moves for a second and shows them together, because ten lines a second could not be read."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._gathered: list[Move] = []
        self._tells_streaming = False
        self._words = ElidedLabel(self.tr("Nothing is moving right now."), "small", Qt.TextElideMode.ElideRight)
        self.setLayout(bits.row(self._words, spacing=8))
        self._gather = QTimer(self, singleShot=True, interval=_GATHER_MS)
        self._gather.timeout.connect(self._tell)
        self._stands = QTimer(self, singleShot=True, interval=_STANDS_MS)
        self._stands.timeout.connect(self._rest)

    def indent(self, left_px: int) -> None:
        """Aligns the line with the lanes, which begin after their names."""
        if self.contentsMargins().left() != left_px:
            self.setContentsMargins(left_px, 0, 0, 0)

    @property
    def sentence(self) -> str:
        return self._words.text()

    def note(self, moves: Sequence[Move]) -> None:
        """Adds what moved since the last snapshot."""
        if moves:
            self._gathered += moves
            if not self._gather.isActive():
                self._gather.start()

    def show_streaming(self, is_streaming: bool) -> None:
        """Shows whether layers pass through memory right now, which moves no span because their slots stay.

        Nothing is read for a moment between two reads of a pass, so the words stay for a while like all others.
        """
        if is_streaming and (self._tells_streaming or not self._stands.isActive()):
            self._say(self.tr("Streamed layers pass through memory, one after the other."), tells_streaming=True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._gather.stop()
        self._gathered.clear()

    def _tell(self) -> None:
        told = moves_sentence(self._gathered)
        self._gathered.clear()
        if told:
            self._say(self.tr("Right now: %1").replace("%1", told))

    def _say(self, words: str, *, tells_streaming: bool = False) -> None:
        self._tells_streaming = tells_streaming
        if words != self._words.text():
            self._words.setText(words)
        self._stands.start()

    def _rest(self) -> None:
        self._stands.stop()
        self._tells_streaming = False
        self._words.setText(self.tr("Nothing is moving right now."))
