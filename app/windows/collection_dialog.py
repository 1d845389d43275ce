"""Asks for the name of a new collection and its first files; it is created when something is added to it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from app.widgets import bits
from app.windows.collection_name_dialog import LONGEST_CHARS

_WIDTH_PX = 420


class CollectionDialog(QDialog):
    """`folder_wanted` and `files_wanted` carry the name; an existing collection gets more files."""

    folder_wanted = Signal(str)
    files_wanted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("New collection"))
        self.setMinimumWidth(_WIDTH_PX)
        self.field = QLineEdit()
        self.field.setMaxLength(LONGEST_CHARS)
        self.field.setPlaceholderText(self.tr("Contracts"))
        self.field.setAccessibleName(self.tr("Name of the collection"))
        self.field.setAcceptDrops(False)
        self.folder_button = bits.button(self.tr("Choose a folder…"), "primary", clicked=self.accept)
        self.folder_button.setDefault(True)
        self.files_button = bits.button(self.tr("Choose files…"), clicked=self._on_files)
        self.field.textChanged.connect(self._show_name)
        cancel = bits.button(self.tr("Cancel"), clicked=self.reject)
        words = self.tr("A set of folders and files that you can ask separately.")
        layout = bits.column(bits.label(self.tr("New collection"), "heading"), spacing=12)
        layout.addWidget(bits.label(words, "small", wraps=True))
        layout.addWidget(self.field)
        layout.addSpacing(4)
        layout.addLayout(bits.row(None, cancel, self.files_button, self.folder_button))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._show_name()
        self.field.setFocus()

    @property
    def name(self) -> str:
        return " ".join(self.field.text().split())

    def accept(self) -> None:
        if self.name:
            self.folder_wanted.emit(self.name)
            super().accept()

    def _on_files(self) -> None:
        self.files_wanted.emit(self.name)
        super().accept()

    def _show_name(self) -> None:
        for button in (self.folder_button, self.files_button):
            button.setEnabled(bool(self.name))
