"""One block of an answer's prose: rich text as high as it needs to be, with citations drawn as small chips."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import cast

from PySide6.QtCore import QEvent, QPoint, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QColor,
    QDesktopServices,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlock,
    QTextFormat,
    QTextLine,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.tips import plain_tip
from app.widgets.answer_text import AnswerText
from app.widgets.markdown_blocks import CITE_SCHEME

# The most digits of a citation's number.
_MOST_DIGITS = 6
_OPENABLE = ("http", "https", "mailto")


class Prose(AnswerText):
    """Shows HTML that we made; opens only web and mail links, in the user's applications."""

    citation_clicked = Signal(int)  # the number as the reader sees it, 1-based
    citation_hovered = Signal(int, QPoint)  # the same, and the place for a tooltip; 0 when the mouse leaves it

    def __init__(self, html: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._html = ""
        self._look = theme.current()
        self.setObjectName("prose")
        self.setAccessibleName(self.tr("Answer text"))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setIndentWidth(24)
        self.viewport().setMouseTracking(True)
        self.anchorClicked.connect(self._on_anchor_clicked)
        self.highlighted.connect(self._on_link_hovered)
        if html:
            self.show_html(html)

    def show_html(self, html: str) -> None:
        """Shows `html`; citations are links to `cite:n`."""
        self._html = html
        self.document().setDefaultStyleSheet(document_style(theme.current()))
        self.put_html(html)
        # The Tab key stops only at prose with a link.
        has_links = "<a " in html
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus if has_links else Qt.FocusPolicy.ClickFocus)
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(320, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # the conversation scrolls, not the block

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        # Qt changes palettes several times while it polishes a new widget; only a new theme matters.
        if event.type() == QEvent.Type.PaletteChange and self._look is not theme.current():
            self._look = theme.current()
            self.show_html(self._html)
        elif event.type() == QEvent.Type.FontChange:
            self._fit()

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.citation_hovered.emit(0, QPoint())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        QToolTip.hideText()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.current().accent_soft))
        for chip in self.citation_rects():
            painter.drawRoundedRect(chip, 5, 5)
        painter.setBrush(QColor(theme.current().border_strong))
        for bar in self._quote_bars():
            painter.drawRoundedRect(bar, 1.5, 1.5)
        painter.end()
        super().paintEvent(event)

    def citation_rects(self) -> Iterator[QRectF]:
        """Yields the places of the citations, in pixels of the viewport."""
        if f"{CITE_SCHEME}:" not in self._html:
            return
        block = self.document().begin()
        while block.isValid():
            yield from self._rects_in(block)
            block = block.next()

    def _quote_bars(self) -> Iterator[QRectF]:
        """Yields the lines at the left of quoted blocks, which CSS borders of QTextDocument cannot draw."""
        if "<blockquote" not in self._html:
            return
        layout = self.document().documentLayout()
        block = self.document().begin()
        while block.isValid():
            if block.blockFormat().intProperty(QTextFormat.Property.BlockQuoteLevel):
                text = layout.blockBoundingRect(block)
                yield QRectF(0, text.top(), 3, text.height())
            block = block.next()

    def _rects_in(self, block: QTextBlock) -> Iterator[QRectF]:
        origin = self.document().documentLayout().blockBoundingRect(block).topLeft()
        fragments = block.begin()
        while not fragments.atEnd():
            fragment = fragments.fragment()
            if fragment.charFormat().anchorHref().startswith(f"{CITE_SCHEME}:"):
                start = fragment.position() - block.position()
                line = block.layout().lineForTextPosition(start)
                if line.isValid():
                    left, right = _x(line, start), _x(line, start + fragment.length())
                    height = min(line.ascent() + line.descent(), line.height())
                    top = origin.y() + line.y() + line.ascent() + line.descent() - height
                    yield QRectF(origin.x() + left, top + 1, right - left, height - 2)
            fragments += 1

    def _fit(self) -> None:
        document = self.document()
        document.setTextWidth(self.viewport().width())
        height = round(document.size().height()) + 1
        if height != self.height():
            self.setFixedHeight(height)

    def _on_anchor_clicked(self, url: QUrl) -> None:
        if url.scheme() == CITE_SCHEME:
            if number := _cited(url):
                self.citation_clicked.emit(number)
        elif url.scheme() in _OPENABLE:
            QDesktopServices.openUrl(url)

    def _on_link_hovered(self, url: QUrl) -> None:
        number = _cited(url)
        where = self.cursor().pos()
        self.citation_hovered.emit(number, where)
        if not number:
            QToolTip.showText(where, plain_tip(url.toString()) if url.scheme() in _OPENABLE else "")


def _cited(url: QUrl) -> int:
    """Returns the number of a citation; 0 for any other link, because a model may write anything."""
    number = url.path() if url.scheme() == CITE_SCHEME else ""
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS else 0


def _x(line: QTextLine, position: int) -> float:
    # PySide's signature says `object`; it is a pair of the x and its position.
    return float(cast("tuple[float, int]", line.cursorToX(position))[0])


@cache
def document_style(look: theme.Theme) -> str:
    """Returns CSS in the theme's colours, limited to what QTextDocument supports."""
    mono = ", ".join(f"'{family}'" for family in theme.mono_families())
    # `pre` keeps the narrow no-break spaces of citations, which Qt would replace by plain ones and merge.
    return f"""
      p {{ line-height: 118%; margin: 0; }}
      li {{ line-height: 118%; margin-bottom: 4px; }}
      ul, ol {{ margin: 0; }}
      h1, h2, h3, h4 {{ margin: 4px 0 0 0; font-weight: 600; }}
      h1 {{ font-size: x-large; }} h2 {{ font-size: large; }} h3, h4 {{ font-size: medium; }}
      a {{ color: {look.accent}; text-decoration: none; }}
      a.cite {{ color: {look.accent}; font-weight: 600; font-size: small; white-space: pre; }}
      code {{ font-family: {mono}; background-color: {look.sunken}; }}
      pre {{ font-family: {mono}; background-color: {look.sunken}; }}
      blockquote {{ color: {look.muted}; margin: 0 0 0 16px; }}
      table {{ border-collapse: collapse; border: 1px solid {look.border}; }}
      th {{ background-color: {look.sunken}; font-weight: 600; text-align: left; }}
      th, td {{ border: 1px solid {look.border}; padding: 6px 12px; }}
    """
