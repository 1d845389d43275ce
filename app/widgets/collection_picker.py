"""Which collections are asked, or listed: a button with a menu, with "all" first and, in a chat, "none" last.

A click on a name chooses that one alone. Several are ticked in a submenu, which stays open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QCoreApplication, QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeyEvent, QMouseEvent, QPaintEvent
from PySide6.QtWidgets import QMenu, QPushButton, QSizePolicy, QStyle, QStyleOptionButton, QStylePainter, QWidget

from app import theme
from app.tips import plain_tip
from app.widgets import bits

# The length of each of two names, so that both are seen; with less room, the whole text is cut.
_NAME_CHARS = 24
# The minimum, however little room there is.
_FEWEST_LETTERS = 8
_WITH_SHORTCUT = Qt.TextFlag.TextShowMnemonic.value
# In the button's tooltip.
_MOST_NAMED = 20


class CollectionPicker(QPushButton):
    """Cuts its text to the available width. `chosen` carries the names of collections, () for all.

    `is_of_chat`: offers a new collection as well, and to ask no files at all. `is_of_list`: for a list of files instead
    of questions, so only one collection or all can be chosen.
    """

    chosen = Signal(object)  # tuple[str, ...]
    none_chosen = Signal()  # the model alone should answer
    new_wanted = Signal()

    def __init__(self, parent: QWidget | None = None, *, is_of_chat: bool = False, is_of_list: bool = False) -> None:
        super().__init__(parent)
        self._is_of_chat, self._is_of_list = is_of_chat, is_of_list
        self._names: tuple[str, ...] = ()
        self._current: tuple[str, ...] = ()
        self._gone = frozenset[str]()
        self._asks_none = self._is_stale = False
        self._alone: dict[str | None, QAction] = {}
        self._ticks: dict[str, QAction] = {}
        self._none: QAction | None = None
        self.setProperty("kind", "picker")
        self.setAutoDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        theme.dress(self, "library")
        self._menu, self._several = QMenu(self), TickMenu(self)
        self._several.setAccessibleName(self.tr("Collections to ask"))
        self._group = QActionGroup(self)
        self._menu.aboutToShow.connect(self._on_opening)
        self.setMenu(self._menu)
        bits.opens_popup(self, self._menu)
        self._rebuild()
        self._show()

    @property
    def current(self) -> tuple[str, ...]:
        """Returns the names of the chosen collections; () stands for all."""
        return self._current

    @property
    def is_gone(self) -> bool:
        """Returns whether all chosen collections are gone."""
        return bool(self._current) and self._gone.issuperset(self._current)

    @property
    def several(self) -> TickMenu:
        """Returns the menu in which several are ticked."""
        return self._several

    def minimumSizeHint(self) -> QSize:
        hint = self.sizeHint()
        narrow = self._beside + _FEWEST_LETTERS * self.fontMetrics().averageCharWidth()
        return QSize(min(hint.width(), narrow), hint.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        option.text = self.cut_text
        QStylePainter(self).drawControl(QStyle.ControlElement.CE_PushButton, option)

    @property
    def cut_text(self) -> str:
        """Returns its text, cut to the available width."""
        room = self.width() - self._beside
        return self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, room, _WITH_SHORTCUT)

    @property
    def _beside(self) -> int:
        """Returns the width of the paddings, the icon and the arrow."""
        return self.sizeHint().width() - self.fontMetrics().size(_WITH_SHORTCUT, self.text()).width()

    def show_collections(
        self, names: Sequence[str], current: Sequence[str], *, gone: Collection[str] = (), asks_none: bool = False
    ) -> None:
        """Shows the choice; `gone` are those of `current` that no longer exist. `asks_none`: no files are asked."""
        listed = self._listed
        self._names, self._current = tuple(names), tuple(current)
        self._gone, self._asks_none = frozenset(gone), asks_none
        if self._listed != listed:
            self._is_stale = True
            # An open menu is rebuilt when it opens the next time.
            if not self._menu.isVisible():
                self._rebuild()
        self._show()

    # --- what is shown ---

    @property
    def _listed(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns what can be chosen alone, and what can be ticked, which includes gone ones, to untick them."""
        if self._is_of_list or max(len(self._names), len(self._current)) < 2:
            return self._names, ()
        return self._names, (*self._names, *(name for name in self._current if name in self._gone))

    @property
    def _ticked(self) -> tuple[str, ...]:
        return () if self._asks_none else self._current

    def _show(self) -> None:
        text = words_of(self._current, self._gone) if self._current else self._all_text()
        if self._asks_none:
            text = self._none_text()
        self.setText(f" {bits.literal(text)}")
        named = [_marked(name, self._gone) for name in self._ticked]
        self.setAccessibleName(self._what().replace("%1", ", ".join(named) if len(named) > 1 else text))
        what_for = self.tr("Which files are listed") if self._is_of_list else self.tr("Which files answers come from")
        if len(named) > _MOST_NAMED:
            named[_MOST_NAMED:] = ["…"]
        self.setToolTip(plain_tip("\n".join((what_for, *named)) if len(named) > 1 else what_for))
        self._mark()

    def _what(self) -> str:
        if self._is_of_list:
            return self.tr("Collection whose files are listed: %1")
        return self.tr("Collections to ask: %1") if len(self._ticked) > 1 else self.tr("Collection to ask: %1")

    def _mark(self) -> None:
        """Marks in the menus what is chosen."""
        ticked = self._ticked
        alone = None if not ticked else ticked[0]
        for name, action in self._alone.items():
            action.setChecked(name == alone and len(ticked) < 2 and not self._asks_none)
        for name, action in self._ticks.items():
            action.setChecked(name in ticked)
            # The collection may have been renamed while the menu is open.
            action.setEnabled(name in self._names or name in self._gone)
        if self._none is not None:
            self._none.setChecked(self._asks_none)
        words = self.tr("Several collections")
        if len(ticked) > 1:
            words = self.tr("Several collections: %1").replace("%1", str(len(ticked)))
        self._several.setTitle(words)
        self._several.menuAction().setChecked(len(ticked) > 1)

    def _rebuild(self) -> None:
        self._is_stale = False
        self._menu.clear()
        self._several.clear()
        alone, ticks = self._listed
        self._alone = {None: self._add(self._all_text())}
        self._alone |= {name: self._add(bits.literal(name)) for name in alone}
        for name, action in self._alone.items():
            action.triggered.connect(lambda _checked, name=name: self._choose(() if name is None else (name,)))
        self._ticks = {}
        if ticks:
            self._add_several(ticks)
        if self._is_of_chat:
            self._menu.addSeparator()
            self._none = self._add(self._none_text())
            self._none.triggered.connect(self._on_none_chosen)
            self._menu.addSeparator()
            self._menu.addAction(self.tr("New collection…"), self.new_wanted.emit)

    def _add(self, text: str) -> QAction:
        action = self._menu.addAction(text)
        action.setCheckable(True)
        action.setActionGroup(self._group)
        return action

    def _add_several(self, names: Sequence[str]) -> None:
        self._menu.addSeparator()
        entry = self._menu.addMenu(self._several)
        entry.setCheckable(True)
        entry.setActionGroup(self._group)
        for name in names:
            action = self._several.addAction(bits.literal(_marked(name, self._gone)))
            action.setCheckable(True)
            action.triggered.connect(lambda is_ticked, name=name: self._on_ticked(name, is_ticked))
            self._ticks[name] = action

    def _all_text(self) -> str:
        return self.tr("All collections") if self._is_of_list else self.tr("All files")

    def _none_text(self) -> str:
        return self.tr("No files · the model alone")

    # --- wishes ---

    def _on_opening(self) -> None:
        if self._is_stale:
            self._rebuild()
        self._mark()

    def _on_ticked(self, name: str, is_ticked: bool) -> None:
        wanted = {*self._ticked, name} if is_ticked else {*self._ticked} - {name}
        # The open menu does not list collections that were renamed since; they come last.
        listed = (*self._ticks, *(one for one in self._ticked if one not in self._ticks))
        self._choose(tuple(one for one in listed if one in wanted))

    def _choose(self, names: tuple[str, ...]) -> None:
        if names != self._current or self._asks_none:
            self.show_collections(self._names, names, gone=self._gone.intersection(names))
            self.chosen.emit(names)

    def _on_none_chosen(self) -> None:
        if not self._asks_none:
            self.show_collections(self._names, self._current, gone=self._gone, asks_none=True)
            self.none_chosen.emit()


class TickMenu(QMenu):
    """A menu that stays open while its entries are ticked, by the mouse, the space bar or the enter key."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("ticks", True)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._tick(self.actionAt(event.position().toPoint())):
            super().mouseReleaseEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_tick = event.key() in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if not (is_tick and self._tick(self.activeAction())):
            super().keyPressEvent(event)

    def _tick(self, action: QAction | None) -> bool:
        if action is None or not (action.isCheckable() and action.isEnabled()):
            return False
        action.trigger()
        return True


def words_of(names: Sequence[str], gone: Collection[str] = ()) -> str:
    """Returns words for chosen collections: the name of one, both of two, the first of more; "" for none."""
    if len(names) < 2:
        return "".join(_marked(name, gone) for name in names)
    first, second = (_marked(_short(name), gone, name) for name in names[:2])
    if len(names) == 2:
        # Either name may contain the placeholder of the other.
        before, _, after = _tr("%1 + %2").partition("%2")
        return before.replace("%1", first) + second + after.replace("%1", first)
    return _tr("%1 + %2 more").replace("%2", str(len(names) - 1)).replace("%1", first)


def _marked(shown: str, gone: Collection[str], name: str = "") -> str:
    return _tr("%1 (removed)").replace("%1", shown) if (name or shown) in gone else shown


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else f"{name[: _NAME_CHARS - 1]}…"


def _tr(text: str) -> str:
    return QCoreApplication.translate("CollectionPicker", text)
