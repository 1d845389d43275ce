"""The quotes that the reader found in the files, shown before the model's answer or instead of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app import theme
from app.printable import printable
from app.tips import plain_tip
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import place_text
from app.widgets.marked_label import MarkedLabel
from app.widgets.opening_frame import OpeningFrame
from app.widgets.standing_chip import StandingChip
from app.widgets.turn_texts import shown_quote

if TYPE_CHECKING:
    from app.models.standings import Standing
    from engine.protocol import Quote


class QuoteLine(OpeningFrame):
    """One quote and its place; `opened` by a click or Enter."""

    def __init__(self, quote: Quote, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("quote")
        place = place_text(quote.document, quote.page, quote.place)
        self._name = self.tr("Quote from %1").replace("%1", place)
        self.setAccessibleName(self._name)
        self.standing = StandingChip()
        self.setAccessibleDescription(quote.text)
        self.setToolTip(plain_tip(printable(quote.document)))
        self.text = MarkedLabel(shown_quote(quote.text))
        foot = bits.row(bits.chip(str(quote.passage + 1), "accent"), spacing=8)
        foot.addWidget(ElidedLabel(place, "small"), 1)
        foot.addWidget(self.standing)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 2, 8, 2)
        layout.setSpacing(6)
        layout.addWidget(self.text)
        layout.addLayout(foot)

    def show_standing(self, standing: Standing) -> None:
        """Shows whether its document is out of reach or was removed."""
        self.standing.show_standing(standing)
        self.setAccessibleName(" · ".join(part for part in (self._name, self.standing.words) if part))


class QuotesCard(QFrame):
    """A card of quotes that can be folded to its title; hidden while there are none."""

    opened = Signal(int)  # index of the passage a quote comes from

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._quotes: tuple[Quote, ...] = ()
        self._quote_lines: list[QuoteLine] = []
        self._is_open = True
        self._title = ElidedLabel("", "section", Qt.TextElideMode.ElideRight)
        self._fold = bits.tool("chevron-up", self.tr("Hide the quotes"), self._on_fold, side=16)
        self._body = QWidget()
        self._lines = QVBoxLayout(self._body)
        self._lines.setContentsMargins(0, 4, 0, 4)
        self._lines.setSpacing(14)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 6, 8, 8)
        layout.setSpacing(2)
        layout.addLayout(bits.row(self._title, self._fold))
        layout.addWidget(self._body)
        self.hide()

    @property
    def quotes(self) -> tuple[Quote, ...]:
        return self._quotes

    def show_quotes(self, quotes: Sequence[Quote]) -> None:
        if tuple(quotes) == self._quotes:
            return
        self._quotes = tuple(quotes)
        while (item := self._lines.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        self._quote_lines = [QuoteLine(quote) for quote in quotes]
        for quote, line in zip(quotes, self._quote_lines, strict=True):
            line.opened.connect(lambda index=quote.passage: self.opened.emit(index))
            self._lines.addWidget(line)
        found = self.tr("1 quote from your files") if len(quotes) == 1 else self.tr("%1 quotes from your files")
        self._title.setText(found.replace("%1", str(len(quotes))))
        self.setVisible(bool(quotes))

    def quote_lines(self) -> tuple[QuoteLine, ...]:
        return tuple(self._quote_lines)

    def show_standings(self, standings: Sequence[Standing]) -> None:
        """Shows the states of the documents of the answer's passages, in the passages' order."""
        for quote, line in zip(self._quotes, self._quote_lines, strict=True):
            if quote.passage < len(standings):
                line.show_standing(standings[quote.passage])

    @property
    def is_open(self) -> bool:
        return self._is_open

    def set_open(self, is_open: bool) -> None:
        """Shows or folds the quotes; folded, only the title is visible, as below a written answer."""
        if is_open == self._is_open:
            return
        self._is_open = is_open
        self._body.setVisible(is_open)
        theme.dress(self._fold, "chevron-up" if is_open else "chevron-down", side=16)
        bits.rename(self._fold, self.tr("Hide the quotes") if is_open else self.tr("Show the quotes"))

    def _on_fold(self) -> None:
        self.set_open(not self._is_open)
