"""Questions that must be answered before something is lost: what is lost is said, and Cancel is the default."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from app import theme


def ask_first(parent: QWidget, sentence: str, what_is_lost: str, yes: str, on_yes: Callable[[], object]) -> QMessageBox:
    """Opens the question and returns at once; `on_yes` is called when the button named `yes` is pressed."""
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setIconPixmap(theme.pixmap("warning", 36, theme.current().warn, parent.devicePixelRatioF()))
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(sentence)
    box.setInformativeText(what_is_lost)
    yes_button = box.addButton(yes, QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    yes_button.clicked.connect(lambda: on_yes())
    box.open()
    return box
