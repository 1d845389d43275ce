"""The sources of the selected answer, and the page that one of them stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import PageReply, Passage, WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient
    from app.models.turns import TurnView


class SourcesModel(QObject):
    """`passages` of the turn that was shown last; `selected` is the index of the opened one, or None."""

    passages_changed = Signal()  # passages, turn_id
    selection_changed = Signal()  # selected
    page_requested = Signal(object)  # the Passage whose page is on its way
    page_ready = Signal(object)  # protocol.PageReply
    page_failed = Signal(str)  # a sentence

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.turn_id = ""
        self.passages: tuple[Passage, ...] = ()
        self.selected: int | None = None
        # Only the reply to the newest request is wanted: people click faster than a page is rendered.
        self._newest = 0

    @property
    def passage(self) -> Passage | None:
        return None if self.selected is None else self.passages[self.selected]

    def show_turn(self, turn: TurnView | None) -> None:
        """Shows a turn's passages; the same turn with the same passages changes nothing."""
        turn_id, passages = (turn.turn_id, turn.passages) if turn else ("", ())
        if (turn_id, passages) == (self.turn_id, self.passages):
            return
        self.turn_id, self.passages = turn_id, passages
        self._newest += 1
        self._select(None)
        self.passages_changed.emit()

    def open_passage(self, index: int, width_px: int = 900) -> None:
        """Asks for the page of passage `index` with its span marked; it comes as `page_ready` or `page_failed`."""
        if not 0 <= index < len(self.passages):
            return
        self._select(index)
        passage = self.passages[index]
        self._ask(passage, passage.page, (passage.start, passage.end), width_px)

    def open_page(self, page: int, width_px: int = 900) -> None:
        """Asks for another page of the selected passage's document; the mark shows on the passage's own page only."""
        passage = self.passage
        if passage is not None:
            span = (passage.start, passage.end) if page == passage.page else (0, 0)
            self._ask(passage, page, span, width_px)

    def close_page(self) -> None:
        """Nothing is selected any more; a page on its way is not wanted."""
        self._newest += 1
        self._select(None)

    def _ask(self, passage: Passage, page: int | None, span: tuple[int, int], width_px: int) -> None:
        self._newest += 1
        number = self._newest
        wanted = protocol.PageRequest(
            document_id=passage.document_id, page=page, start=span[0], end=span[1], width_px=width_px
        )
        self.page_requested.emit(passage)
        self._client.request(
            protocol.PAGE,
            wanted,
            lambda reply: self._on_page(number, reply),
            lambda error: self._on_error(number, error),
        )

    def _on_page(self, number: int, reply: PageReply) -> None:
        if number == self._newest:
            self.page_ready.emit(reply)

    def _on_error(self, number: int, error: WireError) -> None:
        if number == self._newest:
            self.page_failed.emit(f"{error.sentence} {error.way_out}".strip())

    def _select(self, index: int | None) -> None:
        if index != self.selected:
            self.selected = index
            self.selection_changed.emit()
