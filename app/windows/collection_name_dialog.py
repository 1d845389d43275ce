"""Asks for another name of a collection; what has it already, chats and other applications, follows."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from app.widgets import bits

_WIDTH_PX = 420
_LONGEST_CHARS = 100


class CollectionNameDialog(QDialog):
    """`given` carries the new name, once it is one that can be had."""

    given = Signal(str)

    def __init__(self, name: str, taken: Iterable[str], parent: QWidget | None = None) -> None:
        """`taken` are the names of the other collections."""
        super().__init__(parent)
        title = self.tr("Rename “%1”").replace("%1", name)
        self.setWindowTitle(title)
        self.setMinimumWidth(_WIDTH_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._name, self._taken = name, {other.casefold() for other in taken}
        self.field = QLineEdit(name)
        self.field.setMaxLength(max(_LONGEST_CHARS, len(name.encode("utf-16-le")) // 2))
        self.field.setAccessibleName(self.tr("Name of the collection"))
        self.field.setAcceptDrops(False)
        self.field.selectAll()
        self.words = bits.label("", "small", wraps=True)
        self.use = bits.button(self.tr("Rename"), "primary", clicked=self.accept)
        self.use.setDefault(True)
        self.field.textChanged.connect(self._show_name)
        cancel = bits.button(self.tr("Cancel"), clicked=self.reject)
        layout = bits.column(bits.label(title, "heading", wraps=True), self.field, self.words, spacing=12)
        layout.addSpacing(4)
        layout.addLayout(bits.row(None, cancel, self.use))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self._show_name()
        self.field.setFocus()

    @property
    def name(self) -> str:
        return " ".join(self.field.text().split())

    def accept(self) -> None:
        if self.use.isEnabled():
            self.given.emit(self.name)
            super().accept()

    def _show_name(self) -> None:
        is_taken = self.name.casefold() in self._taken
        self.use.setEnabled(bool(self.name) and not is_taken and self.name != self._name)
        words = self.tr("Chats that ask this collection go on asking it. Its files and folders keep their names.")
        self.words.setText(self.tr("There is a collection of that name already.") if is_taken else words)
