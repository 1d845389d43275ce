"""How an incomplete answer ended: a sentence, and buttons to continue or ask again."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QWidget

from app import theme
from app.widgets import bits
from app.widgets.flow import FlowLayout, put_beside
from app.widgets.picture import Picture

# The least room for the sentence next to the buttons; with less, it is above them.
_SENTENCE_LETTERS = 32


class OutcomeLine(QFrame):
    """Hidden while an answer runs and when it is complete."""

    retry_wanted = Signal()
    go_on_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon = Picture("failed", "bad")
        self._sentence = bits.label("", wraps=True, selectable=True)
        self._retry = bits.button(self.tr("Ask again"), icon="regenerate", clicked=self.retry_wanted.emit)
        self.go_on = bits.button(self.tr("Continue"), icon="resume", clicked=self.go_on_wanted.emit)
        self._buttons = QWidget()
        flow = FlowLayout(self._buttons, spacing=8)
        flow.addWidget(self.go_on)
        flow.addWidget(self._retry)
        self._line = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._line.setSpacing(8)
        self._line.addWidget(self._sentence, 1)
        self._line.addWidget(self._buttons)
        layout = bits.row(self._icon, spacing=12)
        layout.setContentsMargins(14, 10, 10, 10)
        layout.addLayout(self._line, 1)
        self.setLayout(layout)
        self.hide()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    @property
    def sentence(self) -> str:
        return "" if self.isHidden() else self._sentence.text()

    def show_failure(self, sentence: str, *, can_go_on: bool = False) -> None:
        self._show("error", sentence, can_go_on)

    def show_stopped(self, sentence: str = "", *, can_go_on: bool = False) -> None:
        self._show("soft", sentence or self.tr("You stopped this answer."), can_go_on)

    def show_cut(self, sentence: str, *, can_go_on: bool) -> None:
        """Shows a cut-off answer without "Ask again", which is offered as for complete answers."""
        self._show("soft", sentence, can_go_on)
        self._retry.hide()
        self._fit()

    def _fit(self) -> None:
        needed = self._buttons.sizeHint().width() + _SENTENCE_LETTERS * self.fontMetrics().averageCharWidth()
        put_beside(self._line, self._buttons, is_beside=self.width() >= needed)

    def _show(self, card: str, sentence: str, can_go_on: bool) -> None:
        self._icon.show_icon(*(("failed", "bad") if card == "error" else ("stop", "muted")))
        self._sentence.setText(sentence)
        self.go_on.setVisible(can_go_on)
        self._retry.show()
        self._fit()
        theme.restyle(self, card=card)
        self.show()
