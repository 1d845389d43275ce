"""Asks for the name of a preset that is saved, or the new name of an existing one."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtWidgets import QWidget

from app.windows.name_dialog import NameDialog

_LONGEST_CHARS = 60


class PresetNameDialog(NameDialog):
    """`given` carries the name, once it is valid."""

    def __init__(self, name: str, taken: Iterable[str], parent: QWidget | None = None, *, is_new: bool = True) -> None:
        """`taken` are the names of the other presets: if it `is_new`, it may replace one of them."""
        title = self.tr("Save as a preset") if is_new else self.tr("Rename “%1”").replace("%1", name)
        super().__init__(title, name, self.tr("Name of the preset"), self.tr("Save"), _LONGEST_CHARS, parent)
        self.field.setPlaceholderText(self.tr("Translator"))
        self._taken = {other.casefold() for other in taken}
        self._is_new = is_new
        self.field.textChanged.connect(self._show_name)
        self._show_name()

    def _show_name(self) -> None:
        is_taken = self.name.casefold() in self._taken
        self.use.setEnabled(bool(self.name) and (self._is_new or not is_taken))
        is_replaced = is_taken and self._is_new
        words = self.tr("It can be chosen in every chat, or be what new chats start with.")
        if is_replaced:
            words = self.tr("The preset of that name gets these values. Chats that have its old ones keep them.")
        elif is_taken:
            words = self.tr("A preset with this name already exists.")
        self.words.setText(words)
        name = self.tr("Replace") if is_replaced else self.tr("Rename") if not self._is_new else self.tr("Save")
        self.use.setText(name)
        self.use.setAccessibleName(name)
