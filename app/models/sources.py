"""The sources of the selected answer, and the page of one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import PageReply, Passage, Refresh
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient
    from app.models.standings import Standing, Standings
    from app.models.turns import TurnView

NO_SPAN = (0, 0)


class SourcesModel(QObject):
    """`passages` of the turn that was shown last; `selected` is the index of the opened one, or None.

    `refreshes` say which of them came while the answer was being written, `unread` are the indices of those that the
    model had no room for. Unless the turn `searches`, there are none, or only those of earlier turns that it cites.
    """

    passages_changed = Signal()  # passages, refreshes, unread, searches, turn_id
    selection_changed = Signal()  # selected
    page_requested = Signal(object)  # the Passage whose page is on its way
    page_ready = Signal(object)  # protocol.PageReply
    page_failed = Signal(str)  # a sentence
    passage_kept = Signal(object, str)  # a Passage to show in place of its page, and a sentence that says why
    standings_changed = Signal()  # what `standing` returns

    def __init__(self, client: EngineClient, standings: Standings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._standings = standings
        standings.changed.connect(self._on_standings_changed)
        self.turn_id = ""
        self.passages: tuple[Passage, ...] = ()
        self.refreshes: tuple[Refresh, ...] = ()
        self.unread: tuple[int, ...] = ()
        self.searches = True
        self.selected: int | None = None
        self._is_without_page = False
        self._marked_page: int | None = None
        # Only the reply to the newest request is used: users click faster than a page is rendered.
        self._newest = 0

    @property
    def passage(self) -> Passage | None:
        return None if self.selected is None else self.passages[self.selected]

    def standing(self, passage: Passage) -> Standing:
        """Returns the present state of a passage's document."""
        return self._standings.of(passage)

    def show_turn(self, turn: TurnView | None) -> None:
        """Shows a turn's passages; the same turn with the same passages changes nothing.

        If passages were only added, the selection stays, with its page.
        """
        turn_id, passages, refreshes = (turn.turn_id, turn.passages, turn.refreshes) if turn else ("", (), ())
        unread = turn.scope.unread if turn and turn.scope else ()
        if (turn_id, passages, refreshes, unread) == (self.turn_id, self.passages, self.refreshes, self.unread):
            return
        has_grown = turn_id == self.turn_id and passages[: len(self.passages)] == self.passages
        self.turn_id, self.passages, self.refreshes, self.unread = turn_id, passages, refreshes, unread
        self.searches = turn is None or turn.searches
        if not has_grown:
            self._newest += 1
            self._select(None)
        self.passages_changed.emit()

    def open_passage(self, index: int, width_px: int = 900) -> None:
        """Requests the page of passage `index` with its span marked; it comes as `page_ready`.

        If it is not available, as for a file out of reach or no longer in the library, `passage_kept` comes instead:
        the indexed text can still be read.
        """
        if not 0 <= index < len(self.passages):
            return
        self._select(index)
        passage = self.passages[index]
        self._marked_page = passage.page
        standing = self.standing(passage)
        if standing.state != "here":
            self._newest += 1
            self.page_requested.emit(passage)
            self._tell_standing(passage, standing)
            return
        self._ask(passage, passage.page, (passage.start, passage.end), width_px)

    def open_page(self, page: int, width_px: int = 900) -> None:
        """Requests another page of the selected passage's document; the mark is shown on the page that has it now."""
        passage = self.passage
        if passage is None:
            return
        if page == self._marked_page:
            # Requested with the cited page, from which the engine finds the present one.
            self._ask(passage, passage.page, (passage.start, passage.end), width_px)
        else:
            self._ask(passage, page, NO_SPAN, width_px)

    def close_page(self) -> None:
        """Clears the selection and ignores a requested page."""
        self._newest += 1
        self._select(None)

    def _ask(self, passage: Passage, page: int | None, span: tuple[int, int], width_px: int) -> None:
        self._is_without_page = False
        self._newest += 1
        number = self._newest
        cited = passage.text if span != NO_SPAN else ""
        wanted = protocol.PageRequest(
            document_id=passage.document_id, page=page, start=span[0], end=span[1], text=cited, width_px=width_px
        )
        self.page_requested.emit(passage)
        self._client.request(
            protocol.PAGE,
            wanted,
            lambda reply: self._on_page(number, passage, bool(cited), reply),
            lambda error: self._on_error(number, passage, page, error),
        )

    def _on_page(self, number: int, passage: Passage, is_of_passage: bool, reply: PageReply) -> None:
        if number != self._newest:
            return
        if reply.is_changed:
            # The present text there is not what the answer is based on.
            self.passage_kept.emit(passage, self.tr("The passage was not found in the current version of this file."))
            return
        if is_of_passage:
            self._marked_page = reply.page
        self.page_ready.emit(reply)

    def _on_error(self, number: int, passage: Passage, page: int | None, error: WireError) -> None:
        if number != self._newest:
            return
        self._is_without_page = True
        sentence = f"{error.sentence} {error.way_out}".strip()
        if page == passage.page:
            self.passage_kept.emit(passage, sentence)
        else:
            self.page_failed.emit(sentence)

    def _on_standings_changed(self) -> None:
        self.standings_changed.emit()
        passage, index = self.passage, self.selected
        if not self._is_without_page or passage is None or index is None:
            return
        # An unreachable file may be back; a page that is shown stays, whatever happens to its file.
        if self.standing(passage).state == "here":
            self.open_passage(index)

    def _tell_standing(self, passage: Passage, standing: Standing) -> None:
        self._is_without_page = True
        if standing.state == "removed":
            sentence = self.tr("This document was removed from the library.")
        else:
            sentence = standing.reason or self.tr("This file cannot be reached right now.")
        self.passage_kept.emit(passage, sentence)

    def _select(self, index: int | None) -> None:
        if index != self.selected:
            self.selected = index
            self.selection_changed.emit()
