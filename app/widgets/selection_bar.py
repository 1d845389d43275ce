"""What is selected in the table, its reason, and buttons for what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QPushButton, QWidget

from app.widgets import bits
from app.widgets.document_help import HELP_WORDS, Help, helps_for, words_of
from app.widgets.figures import count_text
from app.widgets.flow import FlowLayout

if TYPE_CHECKING:
    from engine.protocol import Document


class SelectionBar(QWidget):
    """A bar below the table; hidden while nothing is selected."""

    help_wanted = Signal(str, object)  # a Help, paths
    reindex_wanted = Signal(object)  # paths
    remove_wanted = Signal(object)  # paths

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._documents: tuple[Document, ...] = ()
        self._words = bits.label("", "small", wraps=True, selectable=True)
        self.help_buttons: dict[Help, QPushButton] = {
            offered: bits.button(words_of(offered), clicked=partial(self._on_help, offered)) for offered in HELP_WORDS
        }
        self.again = bits.button(self.tr("Index again"), clicked=lambda: self.reindex_wanted.emit(self._paths()))
        self.remove = bits.button(
            self.tr("Remove…"), "danger", clicked=lambda: self.remove_wanted.emit(self._paths())
        )  # fmt: skip
        buttons = QWidget()
        flow = FlowLayout(buttons, spacing=8)
        for button in (*self.help_buttons.values(), self.again, self.remove):
            flow.addWidget(button)
        layout = bits.column(bits.line(), spacing=0)
        inner = bits.column(self._words, buttons, spacing=8)
        inner.setContentsMargins(12, 10, 12, 10)
        layout.addLayout(inner)
        self.setLayout(layout)
        self.hide()

    @property
    def sentence(self) -> str:
        return self._words.text()

    def show_selected(self, documents: Sequence[Document]) -> None:
        self._documents = tuple(documents)
        self.setVisible(bool(documents))
        self._words.setText(self._sentence())
        helps = helps_for(documents)
        for offered, button in self.help_buttons.items():
            button.setVisible(offered in helps)
        # "Try again" for failed files does the same as "Index again".
        self.again.setVisible("retry" not in helps and "next" not in helps)

    def _sentence(self) -> str:
        documents = self._documents
        if len(documents) != 1:
            return self.tr("%1 files selected").replace("%1", count_text(len(documents)))
        return documents[0].reason or self.tr("1 file selected")

    def _paths(self) -> list[str]:
        return [document.path for document in self._documents]

    def _on_help(self, offered: Help) -> None:
        paths = helps_for(self._documents).get(offered)
        if paths:
            self.help_wanted.emit(offered, paths)
