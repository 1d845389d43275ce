"""Which collection is asked, or listed: a button with a menu, "all" its first choice and, in a chat, none its last."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu, QPushButton, QWidget

from app import theme
from app.widgets import bits


class CollectionPicker(QPushButton):
    """`chosen` carries a collection's name, or None for all.

    `is_of_chat`: a new collection can be wished for here, and that no files are asked at all. `is_of_list`: nothing is
    asked of what is chosen, its files are listed.
    """

    chosen = Signal(object)  # str | None
    none_chosen = Signal()  # the model alone is to answer
    new_wanted = Signal()

    def __init__(self, parent: QWidget | None = None, *, is_of_chat: bool = False, is_of_list: bool = False) -> None:
        super().__init__(parent)
        self._is_of_chat, self._is_of_list = is_of_chat, is_of_list
        self._names: tuple[str, ...] = ()
        self._current: str | None = None
        self._is_gone = self._asks_none = False
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

    def show_collections(
        self, names: Sequence[str], current: str | None, *, is_gone: bool = False, asks_none: bool = False
    ) -> None:
        """`is_gone`: there is no such collection as `current` any more. `asks_none`: no files at all are."""
        shown = self._names, self._current, self._is_gone, self._asks_none
        if (tuple(names), current, is_gone, asks_none) == shown and self._menu.actions():
            # Somebody may be pointing at it.
            return
        self._names, self._current, self._is_gone, self._asks_none = tuple(names), current, is_gone, asks_none
        text = current if current is not None else self._all_text()
        if is_gone:
            text = self.tr("%1 (removed)").replace("%1", text)
        if asks_none:
            text = self._none_text()
        self.setText(f" {bits.literal(text)}")
        what = (
            self.tr("Collection whose files are listed: %1") if self._is_of_list else self.tr("Collection to ask: %1")
        )
        self.setAccessibleName(what.replace("%1", text))
        what_for = self.tr("Which files are listed") if self._is_of_list else self.tr("Which files answers come from")
        self.setToolTip(what_for)
        self._rebuild()

    def _rebuild(self) -> None:
        self._menu.clear()
        for name, text in [(None, self._all_text()), *((name, name) for name in self._names)]:
            action = self._add(bits.literal(text), is_current=name == self._current and not self._asks_none)
            action.triggered.connect(lambda _checked, name=name: self._on_chosen(name))
        if self._is_of_chat:
            self._menu.addSeparator()
            self._add(self._none_text(), is_current=self._asks_none).triggered.connect(self._on_none_chosen)
            self._menu.addSeparator()
            self._menu.addAction(self.tr("New collection…"), self.new_wanted.emit)

    def _add(self, text: str, *, is_current: bool) -> QAction:
        action = self._menu.addAction(text)
        action.setCheckable(True)
        action.setChecked(is_current)
        action.setActionGroup(self._group)
        return action

    def _all_text(self) -> str:
        return self.tr("All collections") if self._is_of_list else self.tr("All files")

    def _none_text(self) -> str:
        return self.tr("No files · the model alone")

    def _on_chosen(self, name: str | None) -> None:
        if name != self._current or self._asks_none:
            self.show_collections(self._names, name)
            self.chosen.emit(name)

    def _on_none_chosen(self) -> None:
        if not self._asks_none:
            self.show_collections(self._names, self._current, asks_none=True)
            self.none_chosen.emit()
