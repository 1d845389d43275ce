"""The memory map as an accessible table: the same facts as rows that stay while they are updated, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSortFilterProxyModel, Qt
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QWidget,
)

from app.models.memory_table import BYTES, OWNER, STATE, TIER, WHAT
from app.widgets import bits
from app.widgets.figures import WIDEST_BYTES, bytes_text
from app.widgets.memory_tiles import KIND_NAMES, kind_of
from app.widgets.memory_words import kind_name, state_name
from app.widgets.row_table import Index, RowCells, RowTable
from app.widgets.tier_names import tier_name

if TYPE_CHECKING:
    from app.models.memory_table import MemoryRow, MemoryTable

_ROW_PX, _ROW_PADDING_PX = 32, 12
# The style's padding next to a cell's text, and the arrow next to a title.
_CELL_PADDING_PX = 24
_TIER_LETTERS, _WHAT_LETTERS = 20, 16
_STATES = ("resident", "streaming", "loading", "evicting")


def owner_text(row: MemoryRow) -> str:
    """Returns the owner in the words of the map's legend; rows without an owner keep the model's words."""
    return kind_name(kind_of(row.owner, row.what)) if row.state else row.owner.capitalize()


class MemoryOrder(QSortFilterProxyModel):
    """A MemoryTable in another order; without one, in the map's order from left to right."""

    def __init__(self, memory: MemoryTable, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._memory = memory
        self.setSourceModel(memory)

    def memory_row(self, row: int) -> MemoryRow:
        return self._memory.row(self.mapToSource(self.index(row, 0)).row())

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns the displayed text also as the accessible text."""
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole) and index.isValid():
            return cell_text(self.memory_row(index.row()), index.column())
        return super().data(index, role)

    def lessThan(self, left: Index, right: Index) -> bool:  # noqa: N802 - Qt's name
        one, other = self._memory.row(left.row()), self._memory.row(right.row())
        return _key(one, left.column()) < _key(other, left.column())


class MemoryTableView(RowTable):
    """A view of the model's MemoryTable; a click on a column's title sorts by it, another click in reverse."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.order: MemoryOrder | None = None
        self.setItemDelegate(RowCells(self))
        self.setAccessibleName(self.tr("Memory as a table"))
        self._fit_rows()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_what()

    def _fit_rows(self) -> None:
        self.verticalHeader().setDefaultSectionSize(max(_ROW_PX, self.fontMetrics().height() + _ROW_PADDING_PX))

    def _fit_columns(self) -> None:
        """Fits columns to the widest text, in any font and language; names of devices may be cut."""
        metrics = self.fontMetrics()
        owners = (metrics.horizontalAdvance(kind_name(kind)) for kind in range(len(KIND_NAMES)))
        states = (metrics.horizontalAdvance(state_name(state)) for state in _STATES)
        for column, width in (
            (TIER, _TIER_LETTERS * metrics.averageCharWidth()),
            (OWNER, max(owners)),
            (BYTES, metrics.horizontalAdvance(bytes_text(WIDEST_BYTES))),
            (STATE, max(states)),
        ):
            self.setColumnWidth(column, width + _CELL_PADDING_PX)
        self._fit_what()

    def _fit_what(self) -> None:
        """Gives the content column the remaining room; if there is none, the table scrolls to the other columns."""
        others = sum(self.columnWidth(column) for column in (TIER, OWNER, BYTES, STATE))
        least = _WHAT_LETTERS * self.fontMetrics().averageCharWidth() + _CELL_PADDING_PX
        self.setColumnWidth(WHAT, max(least, self.viewport().width() - others))

    def show_memory(self, memory: MemoryTable) -> None:
        self.order = MemoryOrder(memory, self)
        self.setModel(self.order)
        self._plain_header().setSortIndicator(-1, Qt.SortOrder.AscendingOrder)
        self.setSortingEnabled(True)
        self._fit_columns()

    def memory_row(self, row: int) -> MemoryRow:
        assert self.order is not None, "cells are painted only once there is a model"
        return self.order.memory_row(row)


class MemoryTablePane(QFrame):
    """The table, and a list of its orders for users without a mouse."""

    def __init__(self, memory: MemoryTable, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self._memory = memory
        self.view = MemoryTableView()
        self.view.show_memory(memory)
        self.sorting = QComboBox()
        self.sorting.setAccessibleName(self.tr("Order of the table"))
        self.sorting.view().setAccessibleName(self.tr("Orders"))
        self.sorting.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        bits.pass_wheel(self.sorting)
        for name, column, order in (
            (self.tr("As on the map"), -1, Qt.SortOrder.AscendingOrder),
            (self.tr("Most bytes first"), BYTES, Qt.SortOrder.DescendingOrder),
            (self.tr("By owner"), OWNER, Qt.SortOrder.AscendingOrder),
            (self.tr("Moving first"), STATE, Qt.SortOrder.DescendingOrder),
        ):
            self.sorting.addItem(name, (column, order))
        self.sorting.activated.connect(self._on_order)
        self.view.horizontalHeader().sortIndicatorChanged.connect(self._on_header)
        head = bits.row(bits.label(self.tr("Order"), "small"), self.sorting, None)
        head.setContentsMargins(12, 8, 12, 0)
        inner = bits.column(spacing=4)
        inner.addLayout(head)
        inner.addWidget(self.view, 1)
        inner.setContentsMargins(4, 4, 4, 4)
        self.setLayout(inner)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._memory.wake()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._memory.sleep()

    def memory_row(self, row: int) -> MemoryRow:
        return self.view.memory_row(row)

    def num_rows(self) -> int:
        return self.view.model().rowCount()

    def _on_order(self, row: int) -> None:
        column, order = self.sorting.itemData(row)
        self.view.sortByColumn(column, order)

    def _on_header(self, column: int, order: Qt.SortOrder) -> None:
        known = [self.sorting.itemData(row) for row in range(self.sorting.count())]
        self.sorting.setCurrentIndex(known.index((column, order)) if (column, order) in known else -1)


def cell_text(row: MemoryRow, column: int) -> str:
    """Returns the text of a cell."""
    return (tier_name(row.tier), owner_text(row), row.what, bytes_text(row.num_bytes), state_name(row.state))[column]


def _key(row: MemoryRow, column: int) -> tuple[object, ...]:
    """Returns the sort key of a column: bytes as numbers, moving spans after resting ones."""
    if column == BYTES:
        return (row.num_bytes,)
    if column == STATE:
        return (row.state not in ("", "resident"), row.state)
    return ((row.tier, owner_text(row), row.what)[column],)
