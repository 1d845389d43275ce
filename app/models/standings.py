"""The present state of cited documents: in reach, offline with the reason, or removed from the library.

An answer keeps what was true when it was written, while its files may change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import Passage

if TYPE_CHECKING:
    from app.engine_client import EngineClient
    from app.models.library import LibraryModel


@dataclass(frozen=True, slots=True)
class Standing:
    """`reason` says why an offline document cannot be reached; "" if that is unknown."""

    state: Literal["here", "offline", "removed"] = "here"
    reason: str = ""


HERE = Standing()
_REMOVED = Standing("removed")


class Standings(QObject):
    """Follows the documents that were given to `watch`; asks again whenever the library has changed."""

    changed = Signal()

    def __init__(self, client: EngineClient, library: LibraryModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._known: dict[int, Standing] = {}
        self._watched: frozenset[int] = frozenset()
        library.collections_changed.connect(self._refresh)

    def watch(self, passages: Iterable[Passage]) -> None:
        """Follows the documents of these passages from now on."""
        watched = frozenset(passage.document_id for passage in passages)
        unknown = watched - self._watched
        self._watched = watched
        if unknown:
            self._ask(unknown)

    def of(self, passage: Passage) -> Standing:
        """Returns the last reported state; before any report, that from when the passage was found."""
        return self._known.get(passage.document_id) or (Standing("offline") if passage.is_offline else HERE)

    def _refresh(self) -> None:
        if self._watched:
            self._ask(self._watched)

    def _ask(self, document_ids: frozenset[int]) -> None:
        wanted = protocol.ListDocuments(document_ids=tuple(sorted(document_ids)), limit=len(document_ids))
        # If the engine cannot tell, the known state stays; after a restart the library is requested again.
        self._client.request(protocol.DOCUMENTS, wanted, lambda reply: self._on_documents(document_ids, reply))

    def _on_documents(self, asked: frozenset[int], reply: protocol.DocumentsReply) -> None:
        told = dict.fromkeys(asked, _REMOVED)
        for document in reply.documents:
            is_away = document.state == "offline"
            told[document.document_id] = Standing("offline", document.reason) if is_away else HERE
        before = {document_id: self._known.get(document_id) for document_id in asked}
        self._known.update(told)
        if before != told:
            self.changed.emit()
