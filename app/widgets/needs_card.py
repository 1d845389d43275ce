"""What files that were not indexed need, counted: a password, text recognition, another try; with a button each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QWidget

from app.widgets import bits
from app.widgets.document_help import Help, helps_for
from app.widgets.figures import count_text
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import Document

_ICONS: dict[Help, tuple[str, str]] = {
    "password": ("lock", "warn"),
    "ocr": ("file-text", "warn"),
    "retry": ("failed", "bad"),
}


class NeedsCard(QFrame):
    """A card with what would help files that were not indexed; hidden if nothing would."""

    help_wanted = Signal(str, object)  # a Help, paths

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", "soft")
        self._paths: dict[Help, list[str]] = {}
        self._lines: dict[Help, QWidget] = {}
        self._words: dict[Help, QLabel] = {}
        self.buttons: dict[Help, QPushButton] = {}
        layout = bits.column(spacing=4)
        layout.setContentsMargins(16, 8, 8, 8)
        texts = {
            "password": self.tr("Enter password…"),
            "ocr": self.tr("How to read them…"),
            "retry": self.tr("Try all again"),
        }
        for offered in _ICONS:
            layout.addWidget(self._line(offered, texts[offered]))
        self.setLayout(layout)
        self.hide()

    def sentences(self) -> tuple[str, ...]:
        return tuple(self._words[offered].text() for offered in self._paths)

    def show_problems(self, documents: Sequence[Document], is_all: bool) -> None:
        """Shows what would help `documents`: all that were not indexed, or if not `is_all` the first of them."""
        self._paths = {
            offered: paths for offered, paths in helps_for(documents).items() if offered in _ICONS
        }  # fmt: skip
        for offered, line in self._lines.items():
            paths = self._paths.get(offered, [])
            line.setVisible(bool(paths))
            self._words[offered].setText(self._sentence(offered, len(paths), is_all))
        self.setVisible(bool(self._paths))

    def _line(self, offered: Help, text: str) -> QWidget:
        self._words[offered] = bits.label("", wraps=True)
        self.buttons[offered] = bits.button(text, "link", clicked=lambda: self._on_help(offered))
        line = bits.row(Picture(*_ICONS[offered], 18), spacing=12)
        line.addWidget(self._words[offered], 1)
        line.addWidget(self.buttons[offered])
        widget = QWidget()
        widget.setLayout(line)
        self._lines[offered] = widget
        return widget

    def _sentence(self, offered: Help, number: int, is_all: bool) -> str:
        one, many = {
            "password": (self.tr("1 file needs a password."), self.tr("%1 files need a password.")),
            "ocr": (
                self.tr("1 file holds scanned pages without text."),
                self.tr("%1 files hold scanned pages without text."),
            ),
            "retry": (self.tr("1 file failed."), self.tr("%1 files failed.")),
        }[offered]
        if number == 1 and is_all:
            return one
        return many.replace("%1", count_text(number) if is_all else self.tr("%1 or more").replace("%1", str(number)))

    def _on_help(self, offered: Help) -> None:
        if offered in self._paths:
            self.help_wanted.emit(offered, self._paths[offered])
