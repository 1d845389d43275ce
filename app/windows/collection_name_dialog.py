"""Asks for a new name of a collection; chats and other applications that use it follow."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtWidgets import QWidget

from app.windows.name_dialog import NameDialog

LONGEST_CHARS = 100


class CollectionNameDialog(NameDialog):
    """`given` carries the new name, once it is valid."""

    def __init__(self, name: str, taken: Iterable[str], parent: QWidget | None = None) -> None:
        """`taken` are the names of the other collections."""
        title = self.tr("Rename “%1”").replace("%1", name)
        spoken, use = self.tr("Name of the collection"), self.tr("Rename")
        super().__init__(title, name, spoken, use, LONGEST_CHARS, parent)
        self._name, self._taken = name, {other.casefold() for other in taken}
        self.field.textChanged.connect(self._show_name)
        self._show_name()

    def _show_name(self) -> None:
        is_taken = self.name.casefold() in self._taken
        self.use.setEnabled(bool(self.name) and not is_taken and self.name != self._name)
        words = self.tr("Chats that ask this collection keep asking it. Its files and folders keep their names.")
        self.words.setText(self.tr("A collection with this name already exists.") if is_taken else words)
