"""F6: from one part of the window to the next, in a circle."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.windows.page import Page


def focus_next(around: Sequence[QWidget], focused: QWidget | None) -> QWidget | None:
    """Moves the focus to the pane after the focused one; returns the widget that took it."""
    here = next((n for n, pane in enumerate(around) if _holds(pane, focused)), -1)
    for step in range(1, len(around) + 1):
        target = first_focusable(around[(here + step) % len(around)])
        if target is not None:
            target.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return target
    return None


def first_focusable(pane: QWidget) -> QWidget | None:
    """Returns the pane itself, or the first widget in it, that the Tab key reaches."""
    begin = pane.starting_point if isinstance(pane, Page) else pane.focusProxy() or pane
    candidates = [begin, *pane.findChildren(QWidget)]
    return next((widget for widget in candidates if widget is not None and _takes_tab(widget)), None)


def _holds(pane: QWidget, focused: QWidget | None) -> bool:
    return focused is not None and (pane is focused or pane.isAncestorOf(focused))


def _takes_tab(widget: QWidget) -> bool:
    is_reachable = bool(widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value)
    return is_reachable and widget.isVisible() and widget.isEnabled()
