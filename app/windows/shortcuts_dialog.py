"""All keyboard shortcuts on one card (Ctrl+/)."""

from __future__ import annotations

from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QDialog, QGridLayout, QVBoxLayout, QWidget

from app.widgets import bits


class ShortcutsDialog(QDialog):
    """Takes (what it does, key) pairs; the window knows them, this only shows them."""

    def __init__(self, shortcuts: list[tuple[str, str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Keyboard shortcuts"))
        grid = QGridLayout()
        grid.setHorizontalSpacing(48)
        grid.setVerticalSpacing(8)
        for row, (what, key) in enumerate(shortcuts):
            grid.addWidget(bits.label(what), row, 0)
            shown = QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
            grid.addLayout(bits.row(None, bits.label(shown, "key")), row, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 20, 24, 20)
        layout.setSpacing(16)
        layout.addWidget(bits.label(self.windowTitle(), "heading"))
        layout.addLayout(grid)
        close = bits.button(self.tr("Close"), clicked=self.accept)
        layout.addLayout(bits.row(None, close))
