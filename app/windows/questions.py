"""Message boxes that ask before something is lost, or offer something; each opens and returns at once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from app import theme


def ask_first(parent: QWidget, sentence: str, what_is_lost: str, yes: str, on_yes: Callable[[], object]) -> QMessageBox:
    """Says what is lost, with Cancel as the default; `on_yes` is called when the button named `yes` is pressed."""
    box = _box(parent, sentence, what_is_lost)
    box.setIconPixmap(theme.pixmap("warning", 36, theme.current().warn, parent.devicePixelRatioF()))
    yes_button = box.addButton(yes, QMessageBox.ButtonRole.DestructiveRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    yes_button.clicked.connect(lambda: on_yes())
    box.open()
    return box


def offer(
    parent: QWidget, sentence: str, detail: str, yes: str, on_yes: Callable[[], object], on_no: Callable[[], object]
) -> QMessageBox:
    """Offers something harmless, as the default; `on_no` is called when it is declined."""
    box = _box(parent, sentence, detail)
    box.setIconPixmap(theme.pixmap("info", 36, theme.current().accent, parent.devicePixelRatioF()))
    yes_button = box.addButton(yes, QMessageBox.ButtonRole.AcceptRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(yes_button)

    def on_finished() -> None:
        (on_yes if box.clickedButton() is yes_button else on_no)()

    box.finished.connect(on_finished)
    box.open()
    return box


def _box(parent: QWidget, sentence: str, detail: str) -> QMessageBox:
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(sentence)
    box.setInformativeText(detail)
    return box
