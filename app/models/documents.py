"""The documents of a collection as a table that asks the engine for more rows only when they are scrolled to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.models.rows import replace_rows
from app.tips import plain_tip
from engine import protocol, wire
from engine.protocol import Document, DocumentState

if TYPE_CHECKING:
    from app.engine_client import EngineClient

Index = QModelIndex | QPersistentModelIndex
PAGE_ROWS = 500
NAME, STATE, CHUNKS, SIZE, REASON = range(5)
_FIXED = {CHUNKS, SIZE}


class DocumentsTable(QAbstractTableModel):
    """Columns NAME, STATE, CHUNKS, SIZE, REASON; `DOCUMENT_ROLE` gives the `Document` itself.

    CHUNKS and SIZE are given as numbers (chunks, bytes) under EditRole, for delegates that format them.
    """

    DOCUMENT_ROLE = int(Qt.ItemDataRole.UserRole) + 1

    total_changed = Signal()  # total or by_state: how many documents there are in all, loaded or not
    loaded = Signal()  # the reply has arrived, even if it is empty
    range_changed = Signal()  # collection or name
    fetch_failed = Signal(str, str)  # a sentence, a way out

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._rows: list[Document] = []
        self._total = 0
        self._collection: str | None = None
        self._states: tuple[DocumentState, ...] = ()
        self._name = ""
        self._by_state: dict[str, int] = {}
        self._is_fetching = False
        self._is_stale = False
        self._is_shown = False
        # Replies to requests from before the last change of filter are ignored.
        self._generation = 0

    @property
    def total(self) -> int:
        return self._total

    @property
    def collection(self) -> str | None:
        return self._collection

    @property
    def by_state(self) -> dict[str, int]:
        """Returns how many documents match the name and the collection, by state, whatever states are shown."""
        return self._by_state

    @property
    def name(self) -> str:
        return self._name

    def document(self, row: int) -> Document | None:
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def show(self, collection: str | None, states: tuple[DocumentState, ...] = (), name: str = "") -> None:
        """Shows the documents of one collection or all, in these states or all, with `name` in their path."""
        is_other_range = (collection, name) != (self._collection, self._name)
        self._collection, self._states, self._name = collection, states, name
        self._generation += 1
        self._is_fetching = self._is_stale = False
        self.beginResetModel()
        self._rows.clear()
        self.endResetModel()
        self._set_total(0, self._by_state)
        self.refresh()
        if is_other_range:
            self.range_changed.emit()

    def refresh(self) -> None:
        """Requests as many rows as are loaded again, once they are shown; rows that stay keep their place."""
        if self._is_fetching or not self._is_shown:
            self._is_stale = True
            return
        self._fetch(0, max(PAGE_ROWS, len(self._rows)))

    def set_shown(self, is_shown: bool) -> None:
        """Tells whether the user sees the table. Many rows take noticeable time, so hidden ones are not refreshed."""
        self._is_shown = is_shown
        if not self._is_fetching:
            self._catch_up()

    # --- Qt ---

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else 5

    def canFetchMore(self, parent: Index) -> bool:  # noqa: N802 - Qt's name
        return not parent.isValid() and not self._is_fetching and len(self._rows) < self._total

    def fetchMore(self, parent: Index) -> None:  # noqa: N802 - Qt's name
        if self.canFetchMore(parent):
            self._fetch(len(self._rows), PAGE_ROWS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or role != Qt.ItemDataRole.DisplayRole:
            return None
        return (self.tr("Name"), self.tr("State"), self.tr("Chunks"), self.tr("Size"), self.tr("Reason"))[section]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        document = self.document(index.row())
        if document is None:
            return None
        if role == self.DOCUMENT_ROLE:
            return document
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip("\n".join(part for part in (shown(document.path), document.reason) if part))
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == NAME:
            return ". ".join(part for part in (shown(os.path.basename(document.path)), document.reason) if part)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return self._cell(document, index.column(), as_number=role == Qt.ItemDataRole.EditRole)
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in _FIXED:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return None

    # --- inside ---

    def _cell(self, document: Document, column: int, as_number: bool) -> str | int:
        if column in (CHUNKS, SIZE):
            number = document.num_chunks if column == CHUNKS else document.size_bytes
            # Qt's int has 32 bits, so larger numbers are passed as text.
            return number if as_number and number < 2**31 else str(number)
        names: dict[str, str] = {
            "pending": self.tr("waiting"),
            "indexed": self.tr("indexed"),
            "skipped": self.tr("skipped"),
            "failed": self.tr("failed"),
            "offline": self.tr("offline"),
        }
        return {NAME: shown(os.path.basename(document.path)), STATE: names[document.state], REASON: document.reason}[
            column
        ]

    def _fetch(self, offset: int, limit: int) -> None:
        self._is_fetching = True
        generation = self._generation
        wanted = protocol.ListDocuments(
            collection=self._collection, states=self._states, name=self._name, offset=offset, limit=limit
        )  # fmt: skip
        self._client.request(
            protocol.DOCUMENTS,
            wanted,
            lambda reply: self._on_documents(generation, offset, reply),
            lambda error: self._on_error(generation, error),
        )

    def _on_documents(self, generation: int, offset: int, reply: protocol.DocumentsReply) -> None:
        if generation != self._generation:
            return
        self._is_fetching = False
        known = {document.document_id for document in reply.documents}
        kept = [document for document in self._rows[:offset] if document.document_id not in known]
        replace_rows(self, self._rows, [*kept, *reply.documents], lambda row: row.document_id, self._on_row_changed)
        self._set_total(reply.total, reply.by_state)
        self.loaded.emit()
        self._catch_up()

    def _on_error(self, generation: int, error: wire.WireError) -> None:
        if generation != self._generation:
            return
        self._is_fetching = False
        if error.kind == "NothingThere" and self._collection is not None:
            # The document was deleted, or removed with its last folder.
            self.show(None, self._states, self._name)
            return
        # A dead engine is reported elsewhere, once; after its restart the library is requested again.
        if error.kind != "EngineDied":
            self.fetch_failed.emit(error.sentence, error.way_out)

    def _catch_up(self) -> None:
        if self._is_stale and self._is_shown:
            self._is_stale = False
            self.refresh()

    def _on_row_changed(self, row: int) -> None:
        self.dataChanged.emit(self.index(row, 0), self.index(row, self.columnCount() - 1))

    def _set_total(self, total: int, by_state: dict[str, int]) -> None:
        if (total, by_state) != (self._total, self._by_state):
            self._total, self._by_state = total, by_state
            self.total_changed.emit()


def shown(path: str) -> str:
    """Returns a path as text; bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(path).decode("utf-8", "replace")
