"""Asks for a name: one line, a remark, and a button that is enabled once the name is valid."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QWidget

from app.widgets import bits

_WIDTH_PX = 420


class NameDialog(QDialog):
    """`given` carries the name. A subclass says in `words` what the name would do, and enables `use`."""

    given = Signal(str)

    def __init__(
        self, title: str, name: str, spoken: str, use: str, longest_chars: int, parent: QWidget | None = None
    ) -> None:
        """Builds the dialog.

        Args:
            title: The dialog's title.
            name: The initial text.
            spoken: The field's name for screen readers.
            use: The button's words.
            longest_chars: A longer name cannot be typed; the initial one is not cut.
            parent: As in Qt.
        """
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setMinimumWidth(_WIDTH_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.field = QLineEdit(name)
        # Qt counts in UTF-16 units.
        self.field.setMaxLength(max(longest_chars, len(name.encode("utf-16-le")) // 2))
        self.field.setAccessibleName(spoken)
        self.field.setAcceptDrops(False)
        self.field.selectAll()
        self.words = bits.label("", "small", wraps=True)
        self.use = bits.button(use, "primary", clicked=self.accept)
        self.use.setDefault(True)
        cancel = bits.button(self.tr("Cancel"), clicked=self.reject)
        layout = bits.column(bits.label(title, "heading", wraps=True), self.field, self.words, spacing=12)
        layout.addSpacing(4)
        layout.addLayout(bits.row(None, cancel, self.use))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)
        self.field.setFocus()

    @property
    def name(self) -> str:
        return " ".join(self.field.text().split())

    def accept(self) -> None:
        if self.use.isEnabled():
            self.given.emit(self.name)
            super().accept()
