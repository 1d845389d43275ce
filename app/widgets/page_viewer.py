"""A page of a document with the passage marked: a picture for PDF, text for everything else."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QKeyEvent, QResizeEvent, QTextCursor, QTextOption, QWheelEvent
from PySide6.QtWidgets import QFrame, QStackedWidget, QTextBrowser, QTextEdit, QVBoxLayout, QWidget

from app import theme
from app.outside import outside
from app.printable import printable
from app.tips import plain_tip
from app.widgets import bits, scroll_keys
from app.widgets.elided import ElidedLabel
from app.widgets.empty_state import EmptyState
from app.widgets.figures import file_name
from app.widgets.page_picture import ZOOM_STEP, PagePicture
from app.widgets.picture import Picture

# A line end after at least fifty characters, before a letter, a quotation mark or a bracket.
_HARD_WRAP = re.compile(r"(?<=[^\n]{50})\n(?=[^\W\d_]|[\"'“‘(])")
_PROSE_SUFFIXES = (".md", ".markdown", ".txt", ".rst", ".html", ".htm", ".docx", ".pdf")

if TYPE_CHECKING:
    from engine.protocol import PageReply


class _PageText(QTextBrowser):
    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("pageText")
        self.setAccessibleName(self.tr("Text of the page"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setAcceptDrops(False)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDocumentMargin(20)
        self._mark_position: int | None = None

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:
        """Loads nothing, because showing a document must never read another file."""
        return None

    def show_text(self, text: str, start: int, end: int) -> None:
        """Shows `text`, marks the characters from `start` to `end`, and scrolls to them."""
        self.setPlainText(text)
        marked = QTextEdit.ExtraSelection()
        marked.cursor = QTextCursor(self.document())
        marked.cursor.setPosition(_utf16(text, start))
        marked.cursor.setPosition(_utf16(text, end), QTextCursor.MoveMode.KeepAnchor)
        marked.format.setBackground(QColor(theme.current().mark))
        self.setExtraSelections([marked] if end > start else [])
        self._mark_position = _utf16(text, start) if end > start else 0
        self._scroll_to_mark()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keeps the mark in sight until the user scrolls, because a view that was not shown yet cannot scroll to it."""
        super().resizeEvent(event)
        self._scroll_to_mark()

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._mark_position = None
        super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self._mark_position = None
        if not scroll_keys.goes_to_end(event, self.verticalScrollBar()):
            super().keyPressEvent(event)

    def _scroll_to_mark(self) -> None:
        if self._mark_position is None:
            return
        here = QTextCursor(self.document())
        here.setPosition(self._mark_position)
        self.setTextCursor(here)
        bar, rect = self.verticalScrollBar(), self.cursorRect(here)
        bar.setValue(bar.value() + rect.top() - self.viewport().height() // 3)


class PageViewer(QWidget):
    """Shows `PageReply`s and requests others; the receiver of its signals knows which document is open."""

    page_wanted = Signal(int)  # 1-based
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._document, self._spot = "", ""
        self._reply: PageReply | None = None
        # The page that was requested last: users click faster than a page is rendered.
        self._wanted_page = 0
        self._name = ElidedLabel("", "strong")
        self._where = ElidedLabel("", "small", Qt.TextElideMode.ElideRight)
        self._heading = QWidget()
        self._heading.setLayout(bits.column(self._name, self._where, spacing=0))
        self._previous = bits.tool("chevron-left", self.tr("Previous page"), lambda: self._turn(-1))
        self._next = bits.tool("chevron-right", self.tr("Next page"), lambda: self._turn(1))
        self._zoom_out = bits.tool("zoom-out", self.tr("Smaller"), lambda: self._zoom(1 / ZOOM_STEP))
        self._zoom_in = bits.tool("zoom-in", self.tr("Larger"), lambda: self._zoom(ZOOM_STEP))
        self._fit = bits.tool("fit-width", self.tr("Fit the width"), lambda: self.picture.set_zoom(1.0))
        self.open_outside = bits.tool("open-external", self.tr("Open in default app"), self._on_open_outside)
        self.show_outside = bits.tool("library", self.tr("Show in folder"), self._on_show_outside)
        back = bits.tool("chevron-left", self.tr("Back to the sources"), self.closed.emit)
        self.picture, self.text = PagePicture(), _PageText()
        self._notice = EmptyState("file-text", self.tr("Opening the page…"))
        self._reason = bits.label("", "small", wraps=True, selectable=True)
        self._banner = self._build_banner()
        self._stack = QStackedWidget()
        for shown in (self._notice, self.picture, self.text):
            self._stack.addWidget(shown)
        head = bits.row(back, spacing=4)
        head.addWidget(self._heading, 1)
        head.addWidget(self.show_outside)
        head.addWidget(self.open_outside)
        head.setContentsMargins(8, 8, 8, 4)
        foot = bits.row(
            self._previous, self._next, None, self._zoom_out, self._zoom_in, self._fit, spacing=2
        )  # fmt: skip
        foot.setContentsMargins(8, 4, 8, 8)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(self._banner)
        layout.addWidget(self._stack, 1)
        layout.addLayout(foot)

    @property
    def reply(self) -> PageReply | None:
        """Returns what is shown; None while a page is being opened or could not be."""
        return self._reply

    @property
    def notice(self) -> str:
        """Returns the sentence in place of a page; "" while a page is shown."""
        return self._notice.sentence if self._stack.currentWidget() is self._notice else ""

    @property
    def where(self) -> str:
        """Returns which part of the document is shown, or will be."""
        return self._where.text()

    def shows(self, document: str) -> bool:
        """Returns whether a page of this document is shown right now."""
        return self._reply is not None and self._document == document

    def show_opening(self, document: str, spot: str) -> None:
        """Shows which document and place are being opened, before the page arrives."""
        self._reply = None
        self._name_document(document)
        self._spot = spot
        self._where.setText(spot)
        self._show_notice(self.tr("Opening the page…"))

    def show_problem(self, sentence: str) -> None:
        self._reply = None
        self._show_notice(sentence)

    def show_kept(self, document: str, spot: str, text: str, sentence: str, *, is_offline: bool) -> None:
        """Shows the passage as it was indexed, because its page cannot be shown; `sentence` says why."""
        self._reply = None
        self._name_document(document)
        self._where.setText(spot)
        words = self.tr("%1 This is the passage as it was indexed.").replace("%1", sentence)
        self._reason.setText(words)
        self._stack.setCurrentWidget(self.text)
        self.text.show_text(text, 0, 0)
        self._enable()
        self._banner.show()
        self._let_out(not is_offline)

    def show_page(self, reply: PageReply) -> None:
        self._reply, self._wanted_page = reply, reply.page or 0
        self._banner.hide()
        self._name_document(reply.document)
        self._where.setText(self._where_text(reply))
        if reply.image_png and not self._show_picture(reply):
            return
        if not reply.image_png:
            self._show_text(reply)
        self._enable()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and self._reply is not None and not self._reply.image_png:
            self._show_text(self._reply)

    def _show_picture(self, reply: PageReply) -> bool:
        try:
            png = base64.b64decode(reply.image_png, validate=True)
        except binascii.Error:
            png = b""
        # Shown first, as a text is.
        self._stack.setCurrentWidget(self.picture)
        if not self.picture.show_picture(png, reply.marks):
            self.show_problem(self.tr("The picture of this page cannot be shown."))
            return False
        self.picture.setAccessibleDescription(
            self.tr("%1, a picture with %2 marked places")
            .replace("%1", self._where.text())
            .replace("%2", str(len(reply.marks)))
        )
        return True

    def _show_text(self, reply: PageReply) -> None:
        # Shown first: only a laid-out view can scroll to the mark.
        self._stack.setCurrentWidget(self.text)
        text = unwrapped(reply.text) if _is_prose(reply.document) else reply.text
        self.text.show_text(text, reply.mark_start - reply.text_start, reply.mark_end - reply.text_start)

    def _name_document(self, document: str) -> None:
        self._document = document
        self._name.setText(file_name(document))
        self._heading.setToolTip(plain_tip(printable(document)))

    def _where_text(self, reply: PageReply) -> str:
        if reply.page is None:
            return reply.place or self._spot or (self.tr("Part of the text") if reply.text_start else "")
        if reply.place and reply.place != f"page {reply.page}":
            return self._place_text(reply)
        if not reply.num_pages:
            return self.tr("Page %1").replace("%1", str(reply.page))
        words = self.tr("Page %1 of %2")
        return words.replace("%1", str(reply.page)).replace("%2", str(reply.num_pages))

    def _place_text(self, reply: PageReply) -> str:
        """Returns `slide 4 · 4 of 20`: the document's own word for the page, its number and their count."""
        if not reply.num_pages:
            return reply.place
        words = self.tr("%1 · %2 of %3").replace("%3", str(reply.num_pages)).replace("%2", str(reply.page))
        return words.replace("%1", reply.place)

    def _build_banner(self) -> QWidget:
        card = bits.card("warning")
        inner = bits.row(Picture("info", "warn", 16), spacing=10)
        inner.addWidget(self._reason, 1)
        inner.setContentsMargins(12, 8, 12, 8)
        card.setLayout(inner)
        banner = QWidget()
        outer = bits.column(card)
        outer.setContentsMargins(12, 4, 12, 4)
        banner.setLayout(outer)
        banner.hide()
        return banner

    def _show_notice(self, sentence: str) -> None:
        self._banner.hide()
        self._notice.show_sentence(sentence)
        self._stack.setCurrentWidget(self._notice)
        self._enable()

    def _enable(self) -> None:
        self._let_out(True)
        self._previous.setEnabled(self._has_page(self._wanted_page - 1))
        self._next.setEnabled(self._has_page(self._wanted_page + 1))
        for control in (self._zoom_out, self._zoom_in, self._fit):
            control.setVisible(self._stack.currentWidget() is not self._notice)
        self._fit.setVisible(self._stack.currentWidget() is self.picture)

    def _has_page(self, page: int) -> bool:
        reply = self._reply
        return reply is not None and reply.page is not None and 1 <= page <= max(reply.page, reply.num_pages)

    def _turn(self, step: int) -> None:
        if self._has_page(self._wanted_page + step):
            self._wanted_page += step
            self._enable()
            self.page_wanted.emit(self._wanted_page)

    def _zoom(self, factor: float) -> None:
        if self._stack.currentWidget() is self.picture:
            self.picture.set_zoom(self.picture.zoom * factor)
        elif factor > 1:
            self.text.zoomIn(1)
        else:
            self.text.zoomOut(1)

    def _let_out(self, is_in_reach: bool) -> None:
        for control in (self.open_outside, self.show_outside):
            control.setEnabled(is_in_reach)

    def _on_open_outside(self) -> None:
        outside().open_file(self._document)

    def _on_show_outside(self) -> None:
        outside().show_in_folder(self._document)


def unwrapped(text: str) -> str:
    """Returns hard-wrapped text with whole paragraphs and the same number of characters.

    A line end becomes a space if the line is long and the next one continues with a word; lists, tables, headings,
    indented lines and empty ones keep theirs.
    """
    return _HARD_WRAP.sub(" ", text)


def _is_prose(document: str) -> bool:
    return document.lower().endswith(_PROSE_SUFFIXES)


def _utf16(text: str, offset: int) -> int:
    """Returns a character offset in UTF-16 units, which Qt counts."""
    return len(text[: max(0, offset)].encode("utf-16-le", "surrogatepass")) // 2
