"""Keys that scroll a chat, wherever in it or below it the focus is: widgets without use for them ignore them.

A page next to the chat takes those that are meant for it.
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
    """To the beginning or to the end."""
    return any(event.matches(key) for key in _TO_ENDS)


def goes_to_end(event: QKeyEvent, bar: QScrollBar) -> bool:
    """Does it, where the key says so: Qt's own views that cannot be written in leave that to what is around them."""
    if event.matches(_Keys.MoveToStartOfDocument):
        bar.triggerAction(QAbstractSlider.SliderAction.SliderToMinimum)
    elif event.matches(_Keys.MoveToEndOfDocument):
        bar.triggerAction(QAbstractSlider.SliderAction.SliderToMaximum)
    else:
        return False
    return True


def is_any(event: QKeyEvent) -> bool:
    return any(event.matches(key) for key in (*_BY_PAGES, *_TO_ENDS, *_BY_LINES))
