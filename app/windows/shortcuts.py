"""Every keyboard shortcut of the window, once: its key, its words, what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget


@dataclass(frozen=True, slots=True)
class Shortcut:
    """`keys` in Qt's notation; `does` is shown in the list of shortcuts and in the command palette."""

    keys: str
    does: str
    run: Callable[[], object]
    icon: str = "command"


def install(window: QWidget, shortcuts: Sequence[Shortcut]) -> list[QShortcut]:
    """Makes the keys work in the whole window."""
    installed = []
    for shortcut in shortcuts:
        made = QShortcut(QKeySequence(shortcut.keys), window)
        made.activated.connect(lambda run=shortcut.run: run())
        installed.append(made)
    return installed
