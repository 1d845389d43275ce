"""The chats in the rail: searched, marked if they stand out, renamed in place, deleted with undo, one or several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QIdentityProxyModel,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QFocusEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QLineEdit, QListView, QMenu, QStyledItemDelegate, QVBoxLayout, QWidget

from app import theme
from app.sentences import listed
from app.widgets import bits
from app.widgets.figures import count_text
from app.widgets.undo_bar import UndoBar

if TYPE_CHECKING:
    from PySide6.QtWidgets import QStyleOptionViewItem

    from app.models.chat_list import ChatListModel, Deleted

_ROW_PX = 32
_TYPING_MS = 200
_CHOOSING = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
# Not when a menu opens, nor when a title is edited in place.
_LEAVING = (
    Qt.FocusReason.MouseFocusReason,
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)
Index = QModelIndex | QPersistentModelIndex


class _Titles(QIdentityProxyModel):
    """Adds to the chats what only a view needs: a mark before those that stand out, and editable titles."""

    renamed = Signal(str, str)

    def __init__(self, chats: ChatListModel, parent: QObject) -> None:
        super().__init__(parent)
        self._chats = chats
        self.setSourceModel(chats)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role == Qt.ItemDataRole.EditRole:
            return super().data(index, Qt.ItemDataRole.DisplayRole)
        if role == Qt.ItemDataRole.DecorationRole and (marks := self._marks(index)):
            icon, colour, _ = marks[0]
            return theme.icon(icon, getattr(theme.current(), colour))
        if role == Qt.ItemDataRole.AccessibleDescriptionRole and (marks := self._marks(index)):
            return listed(words for _, _, words in marks)
        return super().data(index, role)

    def _marks(self, index: Index) -> list[tuple[str, str, str]]:
        """Returns icon, colour and words of all that stands out of a chat; the first is shown."""
        chats = self._chats
        known = {
            chats.ANSWERING_ROLE: ("more", "accent", self.tr("An answer is being written")),
            chats.DRAFT_ROLE: ("rename", "muted", self.tr("Unsent text")),
            chats.PINNED_ROLE: ("pin", "muted", self.tr("Pinned")),
        }
        return [mark for role, mark in known.items() if super(_Titles, self).data(index, role)]

    def flags(self, index: Index) -> Qt.ItemFlag:
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole) -> bool:  # noqa: N802
        if role != Qt.ItemDataRole.EditRole:
            return False
        self.renamed.emit(str(super().data(index, self._chats.ID_ROLE)), str(value))
        return True


class _Rows(QStyledItemDelegate):
    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        natural = super().sizeHint(option, index)
        return QSize(natural.width(), max(_ROW_PX, natural.height()))


class _List(QListView):
    def setCurrentIndex(self, index: Index) -> None:  # noqa: N802 - Qt's name
        # Qt would ask the keyboard: while Ctrl is pressed, a chat that is opened would join the selected ones.
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)


class ChatListPanel(QWidget):
    """Shows a ChatListModel and passes wishes about its chats to it; the window opens chats.

    Several can be selected with Ctrl or Shift, to be exported or deleted together.
    """

    opened = Signal(str)  # conversation id
    export_wanted = Signal(str)  # the same
    duplicate_wanted = Signal(str)  # the same
    exports_wanted = Signal(object, str)  # conversation ids, "md" or "json"
    left = Signal()  # the focus should go back to the page

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chats: ChatListModel | None = None
        self._current = ""
        self.search = QLineEdit()
        self.search.setProperty("kind", "search")
        self.search.setPlaceholderText(self.tr("Search chats"))
        self.search.setAccessibleName(self.tr("Search chats"))
        self.search.setAcceptDrops(False)
        self.search.setClearButtonEnabled(True)
        self.search.installEventFilter(self)
        # Typing a word would start many searches; only the last one is needed.
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(self._search)
        self.search.textChanged.connect(lambda: self._typing.start())
        self.search.returnPressed.connect(self._search)
        self.list = _List()
        self.list.setAccessibleName(self.tr("Chats"))
        self.list.setItemDelegate(_Rows(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.list.setIconSize(QSize(14, 14))
        self.list.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.list.viewport().setAutoFillBackground(False)
        self.list.installEventFilter(self)
        self.list.clicked.connect(self._on_clicked)
        self.list.activated.connect(self._on_clicked)
        self.list.customContextMenuRequested.connect(self._on_menu)
        self._nothing = bits.label("", "small", wraps=True)
        self._nothing.setContentsMargins(10, 0, 10, 0)
        self.undo = UndoBar()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 8, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(self.search)
        layout.addWidget(self._nothing)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.undo)
        self._show_nothing()

    def attach(self, chats: ChatListModel) -> None:
        self._chats = chats
        titles = _Titles(chats, self)
        titles.renamed.connect(chats.rename)
        self.list.setModel(titles)
        self.undo.undone.connect(self.bring_back)
        chats.chats_deleted.connect(self._on_deleted)
        for changed in (chats.rowsInserted, chats.rowsRemoved, chats.modelReset, chats.rowsMoved):
            changed.connect(self._on_rows_changed)
        chats.rowsRemoved.connect(self._on_rows_removed)
        chats.looking_changed.connect(self._show_nothing)
        self._on_rows_changed()

    def show_current(self, conversation_id: str) -> None:
        """Marks the chat that is open; "" marks none."""
        if self._chats is None:
            # The focus may leave the list before there is a model.
            return
        before, self._current = self._current, conversation_id
        if before == conversation_id and self.list.hasFocus() and len(self.selected_ids()) > 1:
            # The user is selecting chats: a question that is asked in the meantime does not end that.
            return
        is_deleted = bool(before) and self._chats.row_of(before) is None
        if not conversation_id and is_deleted and self.list.hasFocus():
            # Deleted by keyboard: the current row is the next chat by now, and stays.
            return
        row = self._chats.row_of(conversation_id)
        index = QModelIndex() if row is None else self.list.model().index(row, 0)
        self.list.setCurrentIndex(index)
        if row is None:
            self.list.clearSelection()

    def id_at(self, index: Index) -> str:
        return str(index.data(self._chats.ID_ROLE)) if self._chats is not None else ""

    def selected_ids(self) -> tuple[str, ...]:
        """Returns the selected chats, in the order of the list."""
        if self._chats is None:
            return ()
        rows = sorted(self.list.selectionModel().selectedIndexes(), key=lambda index: index.row())
        return tuple(map(self.id_at, rows))

    def menu_for(self, index: QModelIndex) -> QMenu:
        """Returns the menu of a chat, or of all selected chats if it is one of several."""
        chats, chat_id = self._chats, self.id_at(index)
        menu = QMenu(self)
        if chats is None:
            return menu
        if len(selected := self.selected_ids()) > 1 and chat_id in selected:
            self._fill_for_several(menu, chats, selected)
            return menu
        is_pinned = bool(index.data(chats.PINNED_ROLE))
        menu.addAction(self.tr("Rename"), lambda: self.list.edit(index))
        pin = self.tr("Unpin") if is_pinned else self.tr("Pin")
        menu.addAction(pin, lambda: chats.set_pinned(chat_id, not is_pinned))
        menu.addAction(self.tr("Duplicate"), lambda: self.duplicate_wanted.emit(chat_id))
        menu.addAction(self.tr("Export…"), lambda: self.export_wanted.emit(chat_id))
        menu.addSeparator()
        menu.addAction(self.tr("Delete"), lambda: chats.delete(chat_id))
        return menu

    def _fill_for_several(self, menu: QMenu, chats: ChatListModel, selected: tuple[str, ...]) -> None:
        menu.addAction(self.tr("Export as Markdown…"), lambda: self.exports_wanted.emit(selected, "md"))
        menu.addAction(self.tr("Export as JSON…"), lambda: self.exports_wanted.emit(selected, "json"))
        menu.addSeparator()
        words = self.tr("Delete %1 chats").replace("%1", count_text(len(selected)))
        menu.addAction(words, lambda: chats.delete(*selected))

    def bring_back(self) -> None:
        """Restores what was deleted last, as long as Ragdoll runs, even when the offer is no longer shown."""
        if self._chats is None:
            return
        self._chats.undo_delete()
        # Offers what was deleted before it, or the same again if the disk refused it.
        if (deleted := self._chats.last_deleted) is not None:
            self.undo.offer(deleted.title, len(deleted.conversation_ids))
        else:
            self.undo.withdraw()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Deletes the selected chats on the Delete key, and restores the last ones on Ctrl+Z."""
        if watched is self.search:
            return self._filter_search(event) or super().eventFilter(watched, event)
        if isinstance(event, QFocusEvent) and event.lostFocus() and event.reason() in _LEAVING:
            # A user who moved through the list by keyboard has left it: the open chat is marked again.
            self.show_current(self._current)
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Delete and self._chats is not None and (selected := self.selected_ids()):
                self._chats.delete(*selected)
                return True
            if event.matches(QKeySequence.StandardKey.Undo):
                self.bring_back()
                return True
        return super().eventFilter(watched, event)

    def _filter_search(self, event: QEvent) -> bool:
        """Escape ends the search, then leaves the field: elsewhere in the window it stops answers."""
        if not isinstance(event, QKeyEvent) or event.key() != Qt.Key.Key_Escape:
            return False
        if event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        if event.type() == QEvent.Type.KeyPress and self.search.text():
            self.search.clear()
            self._search()
            return True
        if event.type() == QEvent.Type.KeyPress:
            self.left.emit()
            return True
        return False

    def _search(self) -> None:
        self._typing.stop()
        if self._chats is not None:
            self._chats.set_filter(self.search.text())

    def _on_clicked(self, index: Index) -> None:
        # Whoever selects several chats opens none of them.
        if len(self.selected_ids()) <= 1 and not QGuiApplication.keyboardModifiers() & _CHOOSING:
            self.opened.emit(self.id_at(index))

    def _on_deleted(self, deleted: Deleted) -> None:
        number = len(deleted.conversation_ids)
        self.undo.offer(deleted.title, number)
        self.undo.announce(number)

    def _on_rows_changed(self) -> None:
        # A user who moves through the list by keyboard stays there: Delete again is for the next chat.
        if not self.list.hasFocus():
            self.show_current(self._current)
        self._show_nothing()

    def _on_rows_removed(self, _parent: Index, first: int) -> None:
        num_chats = self._chats.rowCount() if self._chats is not None else 0
        if self.list.hasFocus() and num_chats and not self.selected_ids():
            # Where several can be selected, Qt moves to the chat before, and does not select it.
            self.list.setCurrentIndex(self.list.model().index(min(first, num_chats - 1), 0))

    def _show_nothing(self) -> None:
        num_chats = self._chats.rowCount() if self._chats is not None else 0
        if self._chats is not None and self._chats.is_looking:
            words = self.tr("Searching…")
        else:
            words = self.tr("No chat matches.") if self.search.text() else self.tr("Your chats appear here.")
        self._nothing.setText(words)
        self._nothing.setVisible(not num_chats)

    def _on_menu(self, where: QPoint) -> None:
        index = self.list.indexAt(where)
        if index.isValid():
            menu = self.menu_for(index)
            menu.exec(self.list.viewport().mapToGlobal(where))
            menu.deleteLater()
