"""Files that were not indexed: each with its reason, and a way to try again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text, file_name, printable
from app.widgets.library_table import STATES, state_name
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import Document

# Beyond these the table, filtered by state, is the better place to read.
MAX_SHOWN = 50


class ProblemList(QFrame):
    """A card, hidden while nothing is wrong."""

    retry_wanted = Signal(list)  # paths

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._documents: tuple[Document, ...] = ()
        self._title = bits.label("", "strong")
        retry_all = bits.button(self.tr("Try all again"), "ghost", "regenerate", self._on_retry_all)
        self._rows = QVBoxLayout()
        self._rows.setSpacing(4)
        self._more = bits.label("", "small")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 8, 8, 12)
        layout.setSpacing(6)
        layout.addLayout(bits.row(self._title, None, retry_all))
        layout.addLayout(self._rows)
        layout.addWidget(self._more)
        self.hide()

    @property
    def documents(self) -> tuple[Document, ...]:
        return self._documents

    def show_problems(self, documents: Sequence[Document], total: int) -> None:
        """`documents` are the first of `total` that were skipped or failed."""
        shown = tuple(documents[:MAX_SHOWN])
        self.setVisible(bool(shown))
        self._title.setText(
            self.tr("1 file was not indexed")
            if total == 1
            else self.tr("%1 files were not indexed").replace("%1", count_text(total))
        )
        self._more.setVisible(total > len(shown))
        self._more.setText(self.tr("and %1 more").replace("%1", count_text(total - len(shown))))
        if shown != self._documents:
            self._documents = shown
            self._rebuild()

    def _rebuild(self) -> None:
        while (item := self._rows.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for document in self._documents:
            self._rows.addWidget(self._row(document))

    def _row(self, document: Document) -> QWidget:
        icon, colour, _ = STATES[document.state]
        picture = Picture(icon, colour, 18)
        picture.setToolTip(state_name(document.state))
        picture.setAccessibleName(state_name(document.state))
        name = ElidedLabel(file_name(document.path), "plain")
        reason = bits.label(document.reason, "small", wraps=True, selectable=True)
        retry = bits.tool("regenerate", self._retry_name(document), lambda: self.retry_wanted.emit([document.path]), 16)
        row = QWidget()
        row.setToolTip(printable(document.path))
        words = bits.column(name, reason, spacing=0)
        line = bits.row(picture, spacing=12)
        line.addLayout(words, 1)
        line.addWidget(retry, 0, Qt.AlignmentFlag.AlignTop)
        row.setLayout(line)
        return row

    def _retry_name(self, document: Document) -> str:
        return self.tr("Try %1 again").replace("%1", file_name(document.path))

    def _on_retry_all(self) -> None:
        self.retry_wanted.emit([document.path for document in self._documents])
