"""Chooses the embedding model, and says before it is chosen what that means for the library."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from app.widgets import bits
from app.windows import file_choices

_WIDTH_PX = 520


class EmbedderDialog(QDialog):
    """`chosen` carries a name or a folder; "" is the model that comes with Ragdoll."""

    chosen = Signal(str)

    def __init__(self, current: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Embedding model"))
        self.setMinimumWidth(_WIDTH_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._current = current
        self.field = QLineEdit(current)
        self.field.setPlaceholderText(self.tr("the one that comes with Ragdoll"))
        self.field.setAccessibleName(self.tr("Name or folder of the embedding model"))
        self.field.setAcceptDrops(False)
        folder = bits.button(self.tr("Folder…"), icon="library", clicked=self._choose_folder)
        self.use = bits.button(self.tr("Use this model"), "primary", clicked=self.accept)
        self.use.setDefault(True)
        self.built_in = bits.button(self.tr("Use the built-in one"), clicked=self._on_built_in)
        self.built_in.setVisible(bool(current))
        self.use.setEnabled(False)
        self.field.textChanged.connect(self._on_typed)
        line = bits.row(self.field, folder)
        line.setStretch(0, 1)
        layout = bits.column(bits.label(self.tr("Another embedding model"), "heading"), spacing=12)
        what = self.tr("A folder with a sentence-transformers model, or the name of one on this computer.")
        layout.addWidget(bits.label(what, wraps=True))
        layout.addLayout(line)
        layout.addWidget(bits.label(self._consequence(), "small", wraps=True))
        buttons = bits.row(self.built_in, None, bits.button(self.tr("Cancel"), clicked=self.reject), self.use)
        layout.addSpacing(4)
        layout.addLayout(buttons)
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self.field.setFocus()

    def _consequence(self) -> str:
        return self.tr(
            "All files are embedded again, in the background: that takes about as long as indexing them did. "
            "The present model answers until all have moved, and you can go back. Other languages than English "
            "are found by meaning only with a multilingual model."
        )

    def accept(self) -> None:
        if self.use.isEnabled():
            self._choose(self.field.text().strip())

    def _choose(self, model: str) -> None:
        self.chosen.emit(model)
        super().accept()

    def _on_built_in(self) -> None:
        self._choose("")

    def _on_typed(self, text: str) -> None:
        self.use.setEnabled(text.strip() not in ("", self._current))

    def _choose_folder(self) -> None:
        file_choices.choose_folder(self, lambda paths: self.field.setText(paths[0]))
