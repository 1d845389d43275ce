"""Every keyboard shortcut of the window, once: its key, its words, what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget


@dataclass(frozen=True, slots=True)
class Shortcut:
    """`keys` in Qt's notation; `does` is shown in the list of shortcuts and in the command palette.

    `also` are other keys that do the same and are not listed, such as what "+" is on other keyboards.
    """

    keys: str
    does: str
    run: Callable[[], object]
    icon: str = "command"
    also: tuple[str, ...] = ()


def install(window: QWidget, shortcuts: Sequence[Shortcut]) -> list[QShortcut]:
    """Makes the keys work in the whole window."""
    installed = []
    for shortcut in shortcuts:
        for keys in (shortcut.keys, *shortcut.also):
            made = QShortcut(QKeySequence(keys), window)
            made.activated.connect(lambda run=shortcut.run: run())
            installed.append(made)
    return installed
