"""Keys that scroll a chat, wherever in it or below it the focus is: widgets that do not need them ignore them.

A page next to the chat handles its own.
"""

from __future__ import annotations

from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractSlider, QScrollBar

_Keys = QKeySequence.StandardKey
_BY_PAGES = (_Keys.MoveToPreviousPage, _Keys.MoveToNextPage)
_TO_ENDS = (_Keys.MoveToStartOfDocument, _Keys.MoveToEndOfDocument)
_BY_LINES = (_Keys.MoveToPreviousLine, _Keys.MoveToNextLine)


def is_by_page(event: QKeyEvent) -> bool:
    return any(event.matches(key) for key in _BY_PAGES)


def is_to_end(event: QKeyEvent) -> bool:
    """Returns whether a key goes to the beginning or the end."""
    return any(event.matches(key) for key in _TO_ENDS)


def goes_to_end(event: QKeyEvent, bar: QScrollBar) -> bool:
    """Scrolls to an end if the key says so, and returns whether; Qt's read-only views do not handle these keys."""
    if event.matches(_Keys.MoveToStartOfDocument):
        bar.triggerAction(QAbstractSlider.SliderAction.SliderToMinimum)
    elif event.matches(_Keys.MoveToEndOfDocument):
        bar.triggerAction(QAbstractSlider.SliderAction.SliderToMaximum)
    else:
        return False
    return True


def is_any(event: QKeyEvent) -> bool:
    return any(event.matches(key) for key in (*_BY_PAGES, *_TO_ENDS, *_BY_LINES))
