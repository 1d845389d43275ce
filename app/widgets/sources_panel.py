"""The passages of an answer as cards; a click opens the page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QScrollArea, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.empty_state import EmptyState
from app.widgets.source_card import SourceCard

if TYPE_CHECKING:
    from app.models.standings import Standing
    from engine.protocol import Passage, Refresh


class SourcesPanel(QWidget):
    """Shows one answer's passages; numbers are 1-based as in the text, indices 0-based as in `passages`."""

    opened = Signal(int)  # index of the passage whose page is wanted
    ask_wanted = Signal(object)  # the path of a passage's file
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._passages: tuple[Passage, ...] = ()
        self._cards: list[SourceCard] = []
        self._headings: list[QLabel] = []
        self._title = bits.label(self.tr("Sources"), "heading")
        self._count = bits.label("", "small")
        close = bits.tool("close", self.tr("Hide sources"), self.closed.emit)
        head = bits.row(self._title, self._count, None, close, spacing=8)
        head.setContentsMargins(16, 10, 8, 6)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QWidget()
        column.setObjectName("column")
        self._column = QVBoxLayout(column)
        self._column.setContentsMargins(12, 4, 12, 16)
        self._column.setSpacing(8)
        self._column.addStretch(1)
        self._scroll.setWidget(column)
        self.empty = EmptyState("quote", "")
        self.show_searches(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self.empty, 1)
        self._show_which()

    @property
    def passages(self) -> tuple[Passage, ...]:
        return self._passages

    def cards(self) -> tuple[SourceCard, ...]:
        return tuple(self._cards)

    def show_passages(self, passages: Sequence[Passage], refreshes: Sequence[Refresh] = ()) -> None:
        """Shows the passages; those that `refreshes` brought are below a line that says so."""
        passages = tuple(passages)
        if passages == self._passages:
            return
        if not self._passages or passages[: len(self._passages)] != self._passages:
            self._drop_cards()
            self._scroll.verticalScrollBar().setValue(0)
        self._passages = passages
        # Passages of an old answer may be missing, if they cannot be read any more.
        starts = [0, *(refresh.first_passage for refresh in refreshes if refresh.first_passage <= len(passages))]
        for start, end in pairwise([*starts, len(passages)]):
            self._show_group(start, end)
        self._count.setText(str(len(passages)) if passages else "")
        self._show_which()

    def headings(self) -> tuple[str, ...]:
        """Returns the headings above passages that came later."""
        return tuple(heading.text() for heading in self._headings)

    def show_standings(self, standings: Sequence[Standing]) -> None:
        """Shows the states of the passages' documents, in their order."""
        for card, standing in zip(self._cards, standings, strict=True):
            card.show_standing(standing)

    def show_unread(self, unread: Collection[int]) -> None:
        """Marks the passages, by index, that the model had no room for."""
        for index, card in enumerate(self._cards):
            card.show_unread(index in unread)

    def show_searches(self, searches: bool) -> None:
        """Shows whether passages may come, or nothing is searched for this answer."""
        awaited = self.tr("The passages that an answer is based on appear here.")
        self.empty.show_sentence(awaited if searches else self.tr("Your files are not searched for this answer."))

    def select(self, index: int | None) -> None:
        """Marks the card at `index` and scrolls to it; None marks none."""
        for position, card in enumerate(self._cards):
            card.set_selected(position == index)
            if position == index:
                self._scroll.ensureWidgetVisible(card, 0, 16)

    def _show_group(self, start: int, end: int) -> None:
        """Adds the missing cards of passages that were found together; scores are relative to the best of these."""
        passages = self._passages[start:end]
        best = max((passage.score for passage in passages), default=0.0)
        for index in range(max(start, len(self._cards)), end):
            if index == start > 0:
                self._headings.append(
                    bits.label(self.tr("Found while the answer was being written"), "small", wraps=True)
                )
                self._add(self._headings[-1])
            card = SourceCard(index + 1, self._passages[index], best)
            card.opened.connect(lambda index=index: self.opened.emit(index))
            card.ask_wanted.connect(self.ask_wanted)
            self._cards.append(card)
            self._add(card)

    def _add(self, part: QWidget) -> None:
        # Before the stretch.
        self._column.insertWidget(self._column.count() - 1, part)

    def _drop_cards(self) -> None:
        bits.drop(self._column, (*self._cards, *self._headings))
        self._cards.clear()
        self._headings.clear()

    def _show_which(self) -> None:
        self._scroll.setVisible(bool(self._passages))
        self.empty.setVisible(not self._passages)
