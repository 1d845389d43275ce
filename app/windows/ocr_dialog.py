"""Explains how scanned pages get their text: which free program reads them, how to install it, what to do then."""

from __future__ import annotations

import sys

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QWidget

from app.widgets import bits

_WIDTH_PX = 480
_COMMANDS = {
    "linux": "sudo apt install tesseract-ocr",
    "darwin": "brew install tesseract tesseract-lang",
    "win32": "winget install UB-Mannheim.TesseractOCR",
}


class OcrDialog(QDialog):
    """Emits `retry_wanted` once Tesseract is installed; `languages_wanted` opens the setting."""

    retry_wanted = Signal()
    languages_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Scanned pages"))
        self.setMinimumWidth(_WIDTH_PX)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        title = bits.label(self.tr("These pages are pictures of text"), "heading", wraps=True)
        words = self.tr(
            "Ragdoll reads them with Tesseract, a free program that runs on this computer like everything else. "
            "Install it, then try again; pages with text of their own need none of this. Pictures in documents are "
            "read with it as well."
        )
        command = _COMMANDS.get(sys.platform, _COMMANDS["linux"])
        shown = bits.label(command, "plain", selectable=True)
        shown.setAccessibleName(self.tr("Command that installs Tesseract: %1").replace("%1", command))
        self.copy = bits.tool("copy", self.tr("Copy the command"), lambda: QGuiApplication.clipboard().setText(command))
        card = bits.card("soft")
        line = bits.row(shown, None, self.copy)
        line.setContentsMargins(14, 6, 6, 6)
        card.setLayout(line)
        more = self.tr("For documents that are not English, install their language too and choose it in the settings.")
        self.retry = bits.button(self.tr("It is installed, try again"), "primary", clicked=self._on_retry)
        self.languages = bits.button(self.tr("Choose languages…"), clicked=self._on_languages)
        close = bits.button(self.tr("Close"), clicked=self.reject)
        layout = bits.column(title, bits.label(words, wraps=True), card, bits.label(more, "small", wraps=True), 4)
        layout.setSpacing(12)
        layout.addLayout(bits.row(self.languages, None, close, self.retry))
        layout.setContentsMargins(24, 20, 24, 20)
        self.setLayout(layout)

    def _on_retry(self) -> None:
        self.retry_wanted.emit()
        self.accept()

    def _on_languages(self) -> None:
        self.languages_wanted.emit()
        self.accept()
