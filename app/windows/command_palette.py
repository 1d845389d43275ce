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
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.widgets import bits

_WIDTH_PX, _HEIGHT_PX, _ROW_PX, _ROW_PADDING_PX = 560, 400, 38, 16
# Thousands of chats are commands as well; whoever wants another types more of its name.
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Command:
    """Something that can be done; `hint` is its shortcut or what kind of thing it is."""

    title: str
    run: Callable[[], object]
    icon: str = "command"
    hint: str = ""


def matching(commands: Sequence[Command], typed: str) -> list[Command]:
    """Commands whose title holds every typed word, those that begin with the first word before the others."""
    words = typed.casefold().split()
    found = [command for command in commands if all(word in command.title.casefold() for word in words)]
    if words:
        found.sort(key=lambda command: not command.title.casefold().startswith(words[0]))
    return found


class _Hints(QStyledItemDelegate):
    """Puts a command's key at the right end of its line."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        super().paint(painter, option, index)
        hint = index.data(Qt.ItemDataRole.AccessibleDescriptionRole)
        painter.setPen(QColor(theme.current().muted))
        where = option.rect.adjusted(0, 0, -12, 0)
        painter.drawText(where, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, hint or "")


class CommandPalette(QDialog):
    """Made for one use: shows, runs at most one command, closes; `words` say what is searched."""

    def __init__(self, commands: Sequence[Command], parent: QWidget | None = None, words: str = "") -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        words = words or self.tr("Search chats and commands")
        self.setWindowTitle(words)
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.resize(_WIDTH_PX, _HEIGHT_PX)
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
