"""One passage as a card: its number, file and page, how well it fits, and its first lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QMenu, QVBoxLayout, QWidget

from app import theme
from app.outside import outside
from app.printable import printable
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import file_name, spot_text
from app.widgets.flow import FlowLayout
from app.widgets.opening_frame import OpeningFrame
from app.widgets.standing_chip import StandingChip
from app.widgets.wrapped_label import WrappedLabel

if TYPE_CHECKING:
    from app.models.standings import Standing
    from engine.protocol import Passage

_SNIPPET_CHARS = 220
_MARKDOWN_NAMES = (".md", ".markdown")
# The part from which a snippet is made, limited because the patterns below may scan from each sign to the end.
_MARKDOWN_CHARS = 2_000
# mdBook's includes of other files, mostly in code.
_MARKDOWN_INCLUDES = re.compile(r"\{\{#(?:include|rustdoc_include|playground|title)\b[^{}\n]*\}\}")
# Comments, code, strong and emphasised words, and links, which may contain a picture. In code the other signs do not
# count, nor do they in a power, a product, or the call of a list's element.
_MARKDOWN_PAIRS = (
    r"<!--[\s\S]*?-->"
    r"|(?<!`)(?P<ticks>`+)(?!`)(?P<code>.+?)(?P=ticks)(?!`)"
    r"|(?<!\w)\*\*(?=\S)(?P<strong>.+?)(?<=\S)\*\*(?!\w)"
    r"|(?<![\w*])\*(?=[^\s*])(?P<leaning>[^*\n]+?)(?<=\S)\*(?![\w*])"
    r"|(?<![\w_])_(?=[^\s_])(?P<stressed>[^_\n]+?)(?<=\S)_(?![\w_])"
    r"|(?<!\w)!?\[(?P<link>(?:!\[[^\[\]\n]*\]\([^)\s]*\)|[^\[\]\n])*+)\]\([^)\s]*\)"
)
# Fenced code, and the signs of headings and quotations.
_MARKDOWN_LINES = (
    r"^[ \t]*(?P<fence>`{3,}(?=[^`\n]*$)|~{3,}).*\n?(?P<fenced>[\s\S]*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|^[ \t]*(?:(?:>[ \t]?)+|#{1,6}[ \t]+)"
)
_MARKDOWN_IN_WORDS = re.compile(_MARKDOWN_PAIRS)
_MARKDOWN = re.compile(f"{_MARKDOWN_LINES}|{_MARKDOWN_PAIRS}", re.MULTILINE)


class ScoreBar(QWidget):
    """The relevance of a passage, as a share of the best one's score; the tooltip has the figure."""

    def __init__(self, share: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._share = min(1.0, max(0.0, share))
        self.setFixedSize(QSize(40, 4))
        self.setAccessibleDescription(
            self.tr("Relevance: %1 % of the best passage").replace("%1", str(round(share * 100)))
        )
        self.setToolTip(self.accessibleDescription())

    def paintEvent(self, _event: QPaintEvent) -> None:
        look = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.border))
        painter.drawRoundedRect(QRectF(self.rect()), 2, 2)
        painter.setBrush(QColor(look.accent))
        painter.drawRoundedRect(QRectF(0, 0, self.width() * self._share, self.height()), 2, 2)
        painter.end()


class SourceCard(OpeningFrame):
    """A card that is `opened` by a click or Enter; its menu has the other actions."""

    ask_wanted = Signal(object)  # the path of its file

    def __init__(self, number: int, passage: Passage, best_score: float, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sourceCard")
        spot = spot_text(passage.place, passage.page)
        name = file_name(passage.document)
        self._path, self._reason, self._is_removed = passage.document, "", False
        self._name = f"{number}: {name} {spot}".strip()
        self.setAccessibleName(self._name)
        self.standing = StandingChip()
        self.unread = bits.chip(self.tr("not read"))
        self.unread.setToolTip(self.tr("It did not fit into what the model could read."))
        self.unread.hide()
        self.setAccessibleDescription(passage.text)
        self.setToolTip(plain_tip(printable(passage.document)))
        share = passage.score / best_score if best_score > 0 else 0.0
        top = bits.row(bits.chip(str(number), "accent"), spacing=8)
        top.addWidget(ElidedLabel(name, "strong"), 1)
        # A document that is read as a whole also has passages that no search found.
        if share > 0:
            top.addWidget(ScoreBar(share))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 10, 12, 12)
        layout.setSpacing(6)
        layout.addLayout(top)
        where = " · ".join(part for part in (spot, passage.heading) if part)
        if where:
            layout.addWidget(ElidedLabel(where, "small", Qt.TextElideMode.ElideRight))
        # On their own line, because with large text they would leave no room for the name.
        notes = FlowLayout()
        notes.addWidget(self.standing)
        notes.addWidget(self.unread)
        layout.addLayout(notes)
        layout.addWidget(WrappedLabel(snippet(passage)))

    def show_standing(self, standing: Standing) -> None:
        """Shows whether its document is out of reach or was removed."""
        self.standing.show_standing(standing)
        self._is_removed, self._reason = standing.state == "removed", standing.reason
        self._say_name()

    def show_unread(self, is_unread: bool) -> None:
        """Shows whether it was found, but not given to the model."""
        self.unread.setVisible(is_unread)
        self._say_name()

    def set_selected(self, is_selected: bool) -> None:
        if bool(self.property("selected")) != is_selected:
            theme.restyle(self, selected=is_selected)

    def menu(self) -> QMenu:
        """Returns the menu for the passage and its file."""
        menu = QMenu(self)
        menu.addAction(self.tr("Show the page"), self.opened.emit)
        menu.addAction(self.tr("Open in default app"), lambda: outside().open_file(self._path, self._reason))
        menu.addAction(self.tr("Show in folder"), lambda: outside().show_in_folder(self._path, self._reason))
        asks = menu.addAction(self.tr("Ask about this file"), lambda: self.ask_wanted.emit(self._path))
        # A removed document can no longer be searched.
        asks.setEnabled(not self._is_removed)
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = self.menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        # `popup` instead of `exec`, because the card may be deleted, with the menu, while it is open.
        menu.popup(event.globalPos())

    def _say_name(self) -> None:
        unread = "" if self.unread.isHidden() else self.unread.text()
        self.setAccessibleName(" ".join(part for part in (self._name, self.standing.words, unread) if part))


def snippet(passage: Passage) -> str:
    """Returns the beginning of a passage on one line, cut at a word; Markdown is shown without its marks."""
    is_markdown = passage.document.lower().endswith(_MARKDOWN_NAMES)
    flat = " ".join((_without_markdown(passage.text) if is_markdown else passage.text).split())
    if len(flat) <= _SNIPPET_CHARS:
        return flat
    cut = flat[:_SNIPPET_CHARS]
    # Chinese has no spaces to cut at.
    return (cut.rsplit(" ", 1)[0] if " " in cut[-24:] else cut) + "…"


def _without_markdown(text: str) -> str:
    return _MARKDOWN.sub(_words_of, _MARKDOWN_INCLUDES.sub("", text[:_MARKDOWN_CHARS]))


def _words_of(found: re.Match[str]) -> str:
    """Returns the text between signs, without them."""
    groups = found.groupdict()
    if words := groups["strong"] or groups["leaning"] or groups["stressed"] or groups["link"]:
        return _MARKDOWN_IN_WORDS.sub(_words_of, words)
    return groups["code"] or groups.get("fenced") or ""
