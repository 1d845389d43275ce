"""How an answer ended when it did not come to its end: a sentence, and the ways on."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from app import theme
from app.widgets import bits
from app.widgets.picture import Picture


class OutcomeLine(QFrame):
    """Hidden while an answer runs and when it has finished well."""

    retry_wanted = Signal()
    go_on_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._icon = Picture("failed", "bad")
        self._sentence = bits.label("", wraps=True, selectable=True)
        self._retry = bits.button(self.tr("Ask again"), icon="regenerate", clicked=self.retry_wanted.emit)
        self.go_on = bits.button(self.tr("Continue"), icon="resume", clicked=self.go_on_wanted.emit)
        layout = bits.row(self._icon, spacing=12)
        layout.setContentsMargins(14, 10, 10, 10)
        layout.addWidget(self._sentence, 1)
        layout.addWidget(self.go_on)
        layout.addWidget(self._retry)
        self.setLayout(layout)
        self.hide()

    @property
    def sentence(self) -> str:
        return "" if self.isHidden() else self._sentence.text()

    def show_failure(self, sentence: str, *, can_go_on: bool = False) -> None:
        self._show("error", sentence, can_go_on)

    def show_stopped(self, sentence: str = "", *, can_go_on: bool = False) -> None:
        self._show("soft", sentence or self.tr("You stopped this answer."), can_go_on)

    def show_cut(self, sentence: str, *, can_go_on: bool) -> None:
        """It is complete but for that: asking again is offered where it is of all complete answers."""
        self._show("soft", sentence, can_go_on)
        self._retry.hide()

    def _show(self, card: str, sentence: str, can_go_on: bool) -> None:
        self._icon.show_icon(*(("failed", "bad") if card == "error" else ("stop", "muted")))
        self._sentence.setText(sentence)
        self.go_on.setVisible(can_go_on)
        self._retry.show()
        theme.restyle(self, card=card)
        self.show()
