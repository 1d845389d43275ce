"""Asks for the name of a preset: of one that is to be kept, or a new one for one that there is."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from app.widgets import bits

_WIDTH_PX = 420
_LONGEST_CHARS = 60


class PresetNameDialog(QDialog):
    """`given` carries the name, once it is one that can be had."""

    given = Signal(str)

    def __init__(self, name: str, taken: Iterable[str], parent: QWidget | None = None, *, is_new: bool = True) -> None:
        """`taken` are the names of the others: if it `is_new`, it may take the place of one of them."""
        super().__init__(parent)
        title = self.tr("Save as a preset") if is_new else self.tr("Rename “%1”").replace("%1", name)
        self.setWindowTitle(title)
        self.setMinimumWidth(_WIDTH_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._taken = {other.casefold() for other in taken}
        self._is_new = is_new
        self.field = QLineEdit(name)
        self.field.setMaxLength(_LONGEST_CHARS)
        self.field.setPlaceholderText(self.tr("Translator"))
        self.field.setAccessibleName(self.tr("Name of the preset"))
        self.field.setAcceptDrops(False)
        self.field.selectAll()
        self.words = bits.label("", "small", wraps=True)
        self.use = bits.button(self.tr("Save"), "primary", clicked=self.accept)
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
        self.use.setEnabled(bool(self.name) and (self._is_new or not is_taken))
        is_replaced = is_taken and self._is_new
        words = self.tr("It can be chosen in every chat, or be what new chats begin with.")
        if is_replaced:
            words = self.tr("The preset of that name gets these values. Chats that have its old ones keep them.")
        elif is_taken:
            words = self.tr("There is a preset of that name already.")
        self.words.setText(words)
        name = self.tr("Replace") if is_replaced else self.tr("Rename") if not self._is_new else self.tr("Save")
        self.use.setText(name)
        self.use.setAccessibleName(name)
