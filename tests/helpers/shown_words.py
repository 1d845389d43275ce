"""The words that a widget shows, read from its labels."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QWidget


def shown_words(widget: QWidget) -> list[str]:
    """The text of every label in it that is not hidden or empty."""
    return [label.text() for label in widget.findChildren(QLabel) if label.text() and label.isVisibleTo(widget)]
