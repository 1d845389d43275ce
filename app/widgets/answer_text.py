"""The text of one block of an answer: the base of prose and code, with a selection that continues in other blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, QPoint, QRect, QUrl
from PySide6.QtGui import QColor, QContextMenuEvent, QFocusEvent, QKeyEvent, QKeySequence, QMouseEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QMenu, QSizePolicy, QTextBrowser, QTextEdit, QWidget

from app import theme
from app.models.matches import Span, in_units, spans_of
from app.widgets import scroll_keys

if TYPE_CHECKING:
    from app.widgets.block_selection import BlockSelection

_ASIDE_PX = 24


class AnswerText(QTextBrowser):
    """Shows HTML that we made and loads nothing; it is selected alone until it joins a selection of many blocks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._selection: BlockSelection | None = None
        self._spans: list[Span] = []
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setAcceptDrops(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(0)
        self.viewport().setAutoFillBackground(False)

    def join(self, selection: BlockSelection) -> None:
        """Makes the selection here a part of `selection`, which continues in other blocks."""
        self._selection = selection

    def put_html(self, html: str) -> None:
        """Shows `html`, keeping the selection of the previous text."""
        cursor = self.textCursor()
        anchor, position = cursor.anchor(), cursor.position()
        self.setHtml(html)
        if anchor != position:
            self.select_range(anchor, position)

    @property
    def num_characters(self) -> int:
        """Returns the last position in the text, which is behind its last character."""
        return self.document().characterCount() - 1

    def select_range(self, anchor: int, position: int) -> None:
        """Selects from `anchor` to `position`, in either direction, without scrolling lines of code."""
        aside = self.horizontalScrollBar().value()
        self.setTextCursor(self._cursor(anchor, position))
        self.horizontalScrollBar().setValue(aside)

    def _cursor(self, anchor: int, position: int | None = None) -> QTextCursor:
        made = QTextCursor(self.document())
        made.setPosition(min(anchor, self.num_characters))
        if position is not None:
            made.setPosition(min(position, self.num_characters), QTextCursor.MoveMode.KeepAnchor)
        return made

    def unselect(self) -> None:
        cursor = self.textCursor()
        if cursor.hasSelection():
            cursor.clearSelection()
            self.setTextCursor(cursor)

    def position_at(self, where: QPoint) -> int:
        """Returns the position in the text nearest to a point of the screen."""
        return self.cursorForPosition(self.viewport().mapFromGlobal(where)).position()

    def menu_at(self, where: QPoint) -> QMenu:
        """Returns Qt's menu for a point of the viewport; its "Select All" selects the whole answer."""
        menu = self.createStandardContextMenu(where)
        for action in menu.actions():
            if self._selection is not None and action.objectName() == "select-all":
                action.triggered.disconnect()
                action.triggered.connect(self._selection.select_all)
        return menu

    def seek(self, sought: str) -> int:
        """Finds matches and returns their number; `mark` marks them."""
        text = self.document().toRawText()
        self._spans = in_units(text, spans_of(text, sought))
        return len(self._spans)

    def mark(self, current: int | None = None) -> None:
        """Marks all matches, and the one with that number as the current one."""
        if self._spans or self.extraSelections():
            self.setExtraSelections([_mark(self._cursor(*span), n == current) for n, span in enumerate(self._spans)])

    def place_of(self, number: int) -> QRect:
        """Returns where a match is, after scrolling long lines of code so that it is visible."""
        cursor, bar = self._cursor(self._spans[number][0]), self.horizontalScrollBar()
        left = self.cursorRect(cursor).left()
        if not 0 <= left < self.viewport().width() - _ASIDE_PX:
            bar.setValue(bar.value() + left - self.viewport().width() // 2)
        return self.cursorRect(cursor)

    # --- Qt ---

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:
        """Loads nothing, because an answer must never make the window read a file or the network."""
        return None

    def createMimeDataFromSelection(self) -> QMimeData:  # noqa: N802 - Qt's name
        """Returns what Qt copies, drags, and pastes by the middle button, from all blocks with a selection."""
        return self._selection.mime() if self._selection is not None else super().createMimeDataFromSelection()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self._selection is None or not self._selection.press(self, event):
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._selection is None or not self._selection.drag(self, event):
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if self._selection is not None:
            self._selection.release(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._selection is not None and event.matches(QKeySequence.StandardKey.SelectAll):
            self._selection.select_all()
        elif self._selection is not None and event.matches(QKeySequence.StandardKey.Copy):
            self._selection.copy()
        elif scroll_keys.is_any(event):
            # This widget is as high as its text, so the conversation scrolls instead.
            event.ignore()
        else:
            super().keyPressEvent(event)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Clears the selection of other blocks, because Qt marks the next link by selecting it."""
        if self._selection is not None:
            self._selection.clear_but(self)
        return super().focusNextPrevChild(is_next)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if self._selection is not None:
            self._selection.leave(event.reason())

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.menu_at(event.pos())
        menu.exec(event.globalPos())
        menu.deleteLater()


def _mark(cursor: QTextCursor, is_current: bool) -> QTextEdit.ExtraSelection:
    look, made = theme.current(), QTextEdit.ExtraSelection()
    made.cursor = cursor
    made.format.setBackground(QColor(look.accent if is_current else look.mark))
    if is_current:
        made.format.setForeground(QColor(look.on_accent))
        made.format.setFontUnderline(True)
    return made
