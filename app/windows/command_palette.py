"""Type a few letters, pick a command, a chat or an earlier question, press Enter: what Ctrl+K opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.widgets import bits

_LETTERS, _LINES, _ROW_PX, _ROW_PADDING_PX = 80, 25, 38, 16
# The margins to the window, at both sides together with those above and below.
_ASIDE_PX, _ABOVE_PX = 12, 120
_HINT_GAP_PX = 12
Index = QModelIndex | QPersistentModelIndex
# Thousands of chats are commands as well; a user who wants another one types more of its name.
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Command:
    """Something that can be done; `hint` is its shortcut or what kind of thing it is."""

    title: str
    run: Callable[[], object]
    icon: str = "command"
    hint: str = ""


def matching(commands: Sequence[Command], typed: str) -> list[Command]:
    """Returns commands whose title has every typed word, those that begin with the first word before the others."""
    words = typed.casefold().split()
    found = [command for command in commands if all(word in command.title.casefold() for word in words)]
    if words:
        found.sort(key=lambda command: not command.title.casefold().startswith(words[0]))
    return found


class _Hints(QStyledItemDelegate):
    """Draws a command's key at the right end of its line, and elides the title before it."""

    def __init__(self, view: QListWidget) -> None:
        super().__init__(view)
        self._view = view

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        if hint := _hint(index):
            words = self._view.style().subElementRect(QStyle.SubElement.SE_ItemViewItemText, option, self._view)
            room = words.width() - option.fontMetrics.horizontalAdvance(hint) - 2 * _HINT_GAP_PX
            option.text = option.fontMetrics.elidedText(option.text, Qt.TextElideMode.ElideRight, max(0, room))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        painter.setPen(QColor(theme.current().muted))
        where = option.rect.adjusted(0, 0, -_HINT_GAP_PX, 0)
        painter.drawText(where, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, _hint(index))


def _hint(index: Index) -> str:
    return str(index.data(Qt.ItemDataRole.AccessibleDescriptionRole) or "")


class CommandPalette(QDialog):
    """Made for one use: runs at most one command, then closes; `words` say what is searched."""

    def __init__(self, commands: Sequence[Command], parent: QWidget, words: str = "") -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        words = words or self.tr("Search chats and commands")
        self.setWindowTitle(words)
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.resize(self._size_in(parent.window()))
        self._commands = tuple(commands)
        self.field = QLineEdit()
        self.field.setAcceptDrops(False)
        self.field.setPlaceholderText(f"{words}…")
        self.field.setAccessibleName(words)
        self.list = QListWidget()
        self.list.setAccessibleName(self.tr("Matches"))
        self.list.setItemDelegate(_Hints(self.list))
        self.list.setIconSize(QSize(18, 18))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        popup = QFrame()
        popup.setObjectName("popup")
        inner = bits.column(self.field, self.list, spacing=8)
        inner.setContentsMargins(12, 12, 12, 8)
        popup.setLayout(inner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(popup)
        self.field.textChanged.connect(self._show_matches)
        self.field.installEventFilter(self)
        self.list.itemClicked.connect(lambda _item: self._run_current())
        self._show_matches("")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Lets the arrow keys move in the list while the field keeps the focus."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up):
                step = 1 if event.key() == Qt.Key.Key_Down else -1
                self.list.setCurrentRow((self.list.currentRow() + step) % max(1, self.list.count()))
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._run_current()
                return True
        return super().eventFilter(watched, event)

    def _size_in(self, window: QWidget) -> QSize:
        width = bits.letters_wide(self, _LETTERS, window.width() - 2 * _ASIDE_PX)
        return QSize(width, min(_LINES * self.fontMetrics().lineSpacing(), window.height() - _ABOVE_PX))

    def titles(self) -> list[str]:
        return [self.list.item(row).text() for row in range(self.list.count())]

    def _show_matches(self, typed: str) -> None:
        self.list.clear()
        for command in islice(matching(self._commands, typed), _MOST_SHOWN):
            item = QListWidgetItem(theme.icon(command.icon, theme.current().muted), command.title)
            item.setData(Qt.ItemDataRole.AccessibleDescriptionRole, command.hint)
            item.setSizeHint(QSize(0, max(_ROW_PX, self.list.fontMetrics().height() + _ROW_PADDING_PX)))
            item.setData(Qt.ItemDataRole.UserRole, command)
            self.list.addItem(item)
        self.list.setCurrentRow(0)

    def _run_current(self) -> None:
        item = self.list.currentItem()
        self.accept()
        if item is not None:
            item.data(Qt.ItemDataRole.UserRole).run()
