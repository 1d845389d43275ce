"""Asks for the password of one file, or one password for several; files that it opens are indexed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QLineEdit, QWidget

from app.printable import printable
from app.widgets import bits
from app.widgets.figures import count_text, file_name

_WIDTH_PX = 420
_MAX_NAMED = 3


class PasswordDialog(QDialog):
    """`given` carries the password and whether to remember it; a wrong password becomes the file's reason."""

    given = Signal(str, bool)

    def __init__(self, paths: Sequence[str], reason: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Enter password"))
        self.setMinimumWidth(_WIDTH_PX)
        self.field = QLineEdit()
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setAccessibleName(self.tr("Password"))
        self.field.setAcceptDrops(False)
        self.show_letters = bits.button(self.tr("Show"), "ghost", is_checkable=True)
        self.show_letters.setAccessibleName(self.tr("Show the password"))
        self.show_letters.toggled.connect(self._on_show_letters)
        self.remember = QCheckBox(self.tr("Remember it, to read the file again when it changes"))
        self.open_button = bits.button(self.tr("Open"), "primary", clicked=self.accept)
        self.open_button.setDefault(True)
        self.open_button.setEnabled(False)
        self.field.textChanged.connect(self._on_typed)
        cancel = bits.button(self.tr("Cancel"), clicked=self.reject)
        line = bits.row(self.field, self.show_letters, spacing=4)
        line.setStretch(0, 1)
        layout = bits.column(bits.label(self._title(paths), "heading", wraps=True), spacing=12)
        words = reason if len(paths) == 1 else "\n".join(_names(self, paths))
        if words:
            layout.addWidget(bits.label(words, "small", wraps=True))
        layout.addLayout(line)
        layout.addWidget(self.remember)
        layout.addSpacing(4)
        layout.addLayout(bits.row(None, cancel, self.open_button))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.field.setFocus()

    def accept(self) -> None:
        if self.field.text():
            self.given.emit(self.field.text(), self.remember.isChecked())
            super().accept()

    def _title(self, paths: Sequence[str]) -> str:
        if len(paths) == 1:
            return self.tr("Password for “%1”").replace("%1", file_name(printable(paths[0])))
        return self.tr("One password for %1 files").replace("%1", count_text(len(paths)))

    def _on_typed(self, text: str) -> None:
        self.open_button.setEnabled(bool(text))

    def _on_show_letters(self, is_shown: bool) -> None:
        self.field.setEchoMode(QLineEdit.EchoMode.Normal if is_shown else QLineEdit.EchoMode.Password)


def _names(widget: QWidget, paths: Sequence[str]) -> list[str]:
    names = [file_name(path) for path in paths[:_MAX_NAMED]]
    more = len(paths) - len(names)
    return [*names, widget.tr("and %1 more").replace("%1", count_text(more))] if more else names
