"""Keys that scroll a chat, wherever in it or below it the keyboard is: what has no use for them ignores them."""

from __future__ import annotations

from PySide6.QtGui import QKeyEvent, QKeySequence

_Keys = QKeySequence.StandardKey
_BY_PAGES = (_Keys.MoveToPreviousPage, _Keys.MoveToNextPage)
_TO_ENDS = (_Keys.MoveToStartOfDocument, _Keys.MoveToEndOfDocument)
_BY_LINES = (_Keys.MoveToPreviousLine, _Keys.MoveToNextLine)


def is_by_page(event: QKeyEvent) -> bool:
    return any(event.matches(key) for key in _BY_PAGES)


def is_to_end(event: QKeyEvent) -> bool:
    """To the beginning or to the end."""
    return any(event.matches(key) for key in _TO_ENDS)


def is_any(event: QKeyEvent) -> bool:
    return any(event.matches(key) for key in (*_BY_PAGES, *_TO_ENDS, *_BY_LINES))
