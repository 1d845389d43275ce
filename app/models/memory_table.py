"""The memory map's facts as a Qt table: what can be read out, sorted and looked up row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.models.memory_moves import keyed
from app.models.rows import replace_rows
from engine.protocol import TierSnapshot

Index = QModelIndex | QPersistentModelIndex
TIER, OWNER, WHAT, BYTES, STATE = range(5)


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One span, or what is free, allowed or held by others in a tier; `number` keeps equal spans apart."""

    tier: str
    owner: str
    what: str
    num_bytes: int
    state: str
    number: int = 0

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.tier, self.owner, self.what, self.number)


class MemoryTable(QAbstractTableModel):
    """Columns: tier, owner, what, bytes, state; the accessible form of the map."""

    ROW_ROLE = int(Qt.ItemDataRole.UserRole) + 1

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[MemoryRow] = []
        self._tiers: tuple[TierSnapshot, ...] = ()
        self._is_asleep = False

    def sleep(self) -> None:
        """While the table is hidden, snapshots are kept and not turned into rows."""
        self._is_asleep = True

    def wake(self) -> None:
        self._is_asleep = False
        self.take(self._tiers)

    def take(self, tiers: tuple[TierSnapshot, ...]) -> None:
        """Shows these tiers; while asleep, not before `wake`."""
        self._tiers = tiers
        if self._is_asleep:
            return
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
        return (self.tr("Location"), self.tr("Owner"), self.tr("Content"), self.tr("Bytes"), self.tr("State"))[section]

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
        rows = [
            MemoryRow(tier.name, span.owner, span.what, span.num_bytes, span.state, number)
            for (_, _, number), span in keyed(tier.spans).items()
        ]
        rows.append(MemoryRow(tier.name, self.tr("everything else"), "", tier.other_bytes, ""))
        rows.append(MemoryRow(tier.name, self.tr("free"), "", tier.free_bytes, ""))
        if tier.budget_bytes is not None:
            rows.append(MemoryRow(tier.name, self.tr("budget"), "", tier.budget_bytes, ""))
        return rows

    def _on_row_changed(self, row: int) -> None:
        self.dataChanged.emit(self.index(row, 0), self.index(row, self.columnCount() - 1))
