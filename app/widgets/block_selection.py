"""A selection that continues from one block of an answer to the next, as if all of them were one text.

Each block keeps its own part, as Qt does it; this module knows where the selection began, and joins the parts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent, QTextDocumentFragment
from PySide6.QtWidgets import QApplication, QWidget

from app.widgets.answer_text import AnswerText
from app.widgets.edge_scroll import EdgeScroll
from app.widgets.markdown_blocks import CITE_SCHEME

_LEAVING = (
    Qt.FocusReason.MouseFocusReason,
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
)
# Outside of the answer a citation is neither a link nor a bare number.
_CITATION = re.compile(rf'<a href="{CITE_SCHEME}:(\d+)">.*?</a>', re.DOTALL)
# Colours of our theme, which may be unreadable on another background.
_COLOUR = re.compile(r' bgcolor="#\w+"|[\w-]*color:#\w+;')
_TAG = re.compile(r"<[^>]*>")
_CELL_END = re.compile(r"</p></td>\s*<td[^>]*>\s*<p[^>]*>")
# Stands for a tab, which HTML would turn into a space.
_TAB = "\ue000"
_BODY = re.compile(r"<body[^>]*>(.*)</body>", re.DOTALL)


class BlockSelection:
    """A selection over the blocks that `texts` returns, in their order; the anchor is in the block where it began."""

    def __init__(self, view: QWidget, texts: Callable[[], Sequence[AnswerText]]) -> None:
        """`view` holds the blocks: as long as the focus is inside it, the selection stays."""
        self._view, self._texts = view, texts
        self._origin: AnswerText | None = None
        self._is_dragging = self._is_extending = self._is_on_selected = False
        self._edge = EdgeScroll(view)
        self._edge.scrolled.connect(self._on_scrolled)

    # --- what blocks report ---

    def press(self, text: AnswerText, event: QMouseEvent) -> bool:
        """Begins at the mouse, or extends to it with Shift; returns whether the event is handled."""
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        where = event.globalPosition().toPoint()
        self._is_dragging = True
        self._is_extending = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier) and self._origin is not None
        if self._is_extending:
            self._extend(text, text.position_at(where))
            return True
        cursor = text.textCursor()
        is_within = cursor.selectionStart() <= text.position_at(where) <= cursor.selectionEnd()
        # The text may be dragged away; if it is not, the selection ends with the button.
        self._is_on_selected = cursor.hasSelection() and is_within and len(self._selected()) > 1
        if not self._is_on_selected:
            self._begin(text)
        return False

    def drag(self, text: AnswerText, event: QMouseEvent) -> bool:
        """Extends to the mouse; returns whether the event is handled: within one block Qt does it."""
        if not self._is_dragging or not event.buttons() & Qt.MouseButton.LeftButton or self._is_on_selected:
            return False
        where = event.globalPosition().toPoint()
        self._edge.follow(where)
        over = self._text_at(where)
        if over is None or (over is text and not self._is_extending):
            self.clear_but(text)
            return False
        self._extend(over, self._position_in(over, where))
        return True

    def release(self, text: AnswerText) -> None:
        if self._is_on_selected:
            self._begin(text)
        self._is_dragging = self._is_extending = self._is_on_selected = False
        self._edge.stop()

    def leave(self, reason: Qt.FocusReason) -> None:
        """Ends the selection if a block has lost the focus to a widget outside by the mouse or the Tab key."""
        focused = QApplication.focusWidget()
        if reason in _LEAVING and (focused is None or not self._view.isAncestorOf(focused)):
            self.clear()

    def drop(self, texts: Sequence[AnswerText]) -> None:
        """Forgets blocks that were removed."""
        if self._origin is not None and self._origin in texts:
            self._origin = None
            self._edge.stop()

    # --- what users do ---

    def select_all(self) -> None:
        texts = self._texts()
        for text in texts:
            text.select_range(0, text.num_characters)
        self._origin = texts[0] if texts else None

    def clear(self) -> None:
        for text in self._texts():
            text.unselect()

    def clear_but(self, kept: AnswerText) -> None:
        for text in self._selected():
            if text is not kept:
                text.unselect()

    def copy(self) -> None:
        """Puts the selection on the clipboard; an empty selection leaves the clipboard as it is."""
        if self._selected():
            QGuiApplication.clipboard().setMimeData(self.mime())

    def mime(self) -> QMimeData:
        """Returns the selection as plain text and as HTML."""
        parts = [_CITATION.sub(r"[\1]", text.textCursor().selection().toHtml()) for text in self._selected()]
        made = QMimeData()
        made.setText("\n\n".join(map(_plain, parts)))
        made.setHtml("\n".join(_TAG.sub(lambda tag: _COLOUR.sub("", tag[0]), _body(part)) for part in parts))
        return made

    # --- inside ---

    def _begin(self, text: AnswerText) -> None:
        self.clear_but(text)
        self._origin = text

    def _selected(self) -> list[AnswerText]:
        return [text for text in self._texts() if text.textCursor().hasSelection()]

    def _extend(self, to: AnswerText, position: int) -> None:
        texts, origin = list(self._texts()), self._origin
        if origin is None:
            return
        begin, end, anchor = texts.index(origin), texts.index(to), origin.textCursor().anchor()
        for index, text in enumerate(texts):
            first, last = (0, text.num_characters) if begin <= end else (text.num_characters, 0)
            if min(begin, end) <= index <= max(begin, end):
                text.select_range(anchor if text is origin else first, position if text is to else last)
            else:
                text.unselect()

    def _on_scrolled(self) -> None:
        if (over := self._text_at(self._edge.where)) is not None:
            self._extend(over, self._position_in(over, self._edge.where))

    def _text_at(self, where: QPoint) -> AnswerText | None:
        """Returns the block at the height of a point, or the next one below; the last one for a point below all."""
        texts = self._texts()
        below = (text for text in texts if text.mapFromGlobal(where).y() < text.height())
        return next(below, texts[-1] if texts else None)

    def _position_in(self, text: AnswerText, where: QPoint) -> int:
        height = text.mapFromGlobal(where).y()
        if height < 0:
            return 0
        return text.num_characters if height >= text.height() else text.position_at(where)


def _plain(html: str) -> str:
    """Returns Qt's plain text of HTML, but with a row of a table on one line."""
    fragment = QTextDocumentFragment.fromHtml(_CELL_END.sub(_TAB, html))
    return fragment.toPlainText().replace(_TAB, "\t").strip("\n")


def _body(html: str) -> str:
    found = _BODY.search(html)
    return found[1].strip() if found is not None else html
