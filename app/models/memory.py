"""The newest picture of who holds how many bytes where, and the same facts as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.models.rows import replace_rows
from engine import protocol
from engine.protocol import MemoryReply, Notice, TierSnapshot

if TYPE_CHECKING:
    from app.engine_client import EngineClient

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One span, or what is free or held by others in a tier; `number` keeps equal spans apart."""

    tier: str
    owner: str
    what: str
    num_bytes: int
    state: str
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.tier, self.owner, self.what, self.number)


class MemoryModel(QObject):
    """`memory` is None until the engine has said something, and again when it is gone."""

    snapshot_changed = Signal()  # memory

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.memory: MemoryReply | None = None
        self.table = MemoryTable(self)
        client.became_ready.connect(self.refresh)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_state)

    @property
    def tiers(self) -> tuple[TierSnapshot, ...]:
        return self.memory.tiers if self.memory else ()

    def refresh(self) -> None:
        self._client.request(protocol.MEMORY, protocol.Nothing(), self._set)

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, protocol.MemorySnapshot):
            self._set(notice.memory)

    def _on_state(self, state: str) -> None:
        # What a process held, the system has back once it has ended.
        if state in ("restarting", "failed", "stopped"):
            self._set(None)

    def _set(self, memory: MemoryReply | None) -> None:
        if memory != self.memory:
            self.memory = memory
            self.table.take(self.tiers)
            self.snapshot_changed.emit()


class MemoryTable(QAbstractTableModel):
    """Columns: tier, owner, what, bytes, state; the accessible twin of the map."""

    ROW_ROLE = int(Qt.ItemDataRole.UserRole) + 1

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[MemoryRow] = []

    def take(self, tiers: tuple[TierSnapshot, ...]) -> None:
        new = [row for tier in tiers for row in self._rows_of(tier)]
        replace_rows(self, self._rows, new, lambda row: row.key, self._on_row_changed)

    def row(self, index: int) -> MemoryRow:
        return self._rows[index]

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else 5

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or role != Qt.ItemDataRole.DisplayRole:
            return None
        return (self.tr("Where"), self.tr("Who"), self.tr("What for"), self.tr("Bytes"), self.tr("State"))[section]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role == self.ROW_ROLE:
            return row
        if role == Qt.ItemDataRole.DisplayRole:
            return (row.tier, row.owner, row.what, str(row.num_bytes), row.state)[index.column()]
        return None

    def _rows_of(self, tier: TierSnapshot) -> list[MemoryRow]:
        seen: dict[tuple[str, str], int] = {}
        rows = []
        for span in tier.spans:
            number = seen.get((span.owner, span.what), 0)
            seen[(span.owner, span.what)] = number + 1
            rows.append(MemoryRow(tier.name, span.owner, span.what, span.num_bytes, span.state, number))
        rows.append(MemoryRow(tier.name, self.tr("everything else"), "", tier.other_bytes, ""))
        rows.append(MemoryRow(tier.name, self.tr("free"), "", tier.free_bytes, ""))
        return rows

    def _on_row_changed(self, row: int) -> None:
        self.dataChanged.emit(self.index(row, 0), self.index(row, self.columnCount() - 1))
