"""Which collection a chat asks: a button with a menu, "All files" being the first choice."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from app import theme
from app.widgets import bits


class CollectionPicker(QPushButton):
    """`chosen` carries a collection's name, or None for all. `makes_new`: a new one can be wished for here."""

    chosen = Signal(object)  # str | None
    new_wanted = Signal()

    def __init__(self, parent: QWidget | None = None, *, makes_new: bool = False) -> None:
        super().__init__(parent)
        self._makes_new = makes_new
        self._names: tuple[str, ...] = ()
        self._current: str | None = None
        self._is_gone = False
        self.setProperty("kind", "picker")
        self.setAutoDefault(False)
        theme.dress(self, "library")
        self._menu = QMenu(self)
        self._group = QActionGroup(self)
        self.setMenu(self._menu)
        bits.opens_popup(self, self._menu)
        self.show_collections((), None)

    @property
    def current(self) -> str | None:
        return self._current

    @property
    def is_gone(self) -> bool:
        """Whether there is no such collection any more."""
        return self._is_gone

    def show_collections(self, names: Sequence[str], current: str | None, *, is_gone: bool = False) -> None:
        """`is_gone`: there is no such collection as `current` any more."""
        if (tuple(names), current, is_gone) == (self._names, self._current, self._is_gone) and self._menu.actions():
            # Somebody may be pointing at it.
            return
        self._names, self._current, self._is_gone = tuple(names), current, is_gone
        text = current if current is not None else self.tr("All files")
        if is_gone:
            text = self.tr("%1 (removed)").replace("%1", text)
        self.setText(f" {bits.literal(text)}")
        self.setAccessibleName(self.tr("Collection to ask: %1").replace("%1", text))
        self.setToolTip(self.tr("Which files answers come from"))
        self._rebuild()

    def _rebuild(self) -> None:
        self._menu.clear()
        for name, text in [(None, self.tr("All files")), *((name, name) for name in self._names)]:
            action = self._menu.addAction(bits.literal(text))
            action.setCheckable(True)
            action.setChecked(name == self._current)
            action.setActionGroup(self._group)
            action.triggered.connect(lambda _checked, name=name: self._on_chosen(name))
        if self._makes_new:
            self._menu.addSeparator()
            self._menu.addAction(self.tr("New collection…"), self.new_wanted.emit)

    def _on_chosen(self, name: str | None) -> None:
        if name != self._current:
            self.show_collections(self._names, name)
            self.chosen.emit(name)
