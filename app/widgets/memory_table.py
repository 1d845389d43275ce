"""The memory map's accessible twin: the same facts as rows that live on while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.widgets.figures import bytes_text
from app.widgets.memory_lane import kind_name, state_name
from app.widgets.memory_tiles import kind_of

if TYPE_CHECKING:
    from app.models.memory import MemoryRow, MemoryTable

_ROW_PX = 32
_OWNER, _WHAT, _BYTES, _STATE = 1, 2, 3, 4
Index = QModelIndex | QPersistentModelIndex


def owner_text(row: MemoryRow) -> str:
    """The owner in the words of the map's legend; what no owner holds keeps the model's words."""
    return kind_name(kind_of(row.owner, row.what)) if row.state else row.owner.capitalize()


class _Cells(QStyledItemDelegate):
    def __init__(self, table: MemoryTableView) -> None:
        super().__init__(table)
        self._table = table

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        row = self._table.memory_row(index.row())
        text = {_OWNER: owner_text(row), _BYTES: bytes_text(row.num_bytes), _STATE: state_name(row.state)}
        if index.column() in text:
            option.text = text[index.column()]

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        option.state &= ~QStyle.StateFlag.State_HasFocus
        super().paint(painter, option, index)


class MemoryTableView(QTableView):
    """A view of the model's MemoryTable."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._memory: MemoryTable | None = None
        self.setItemDelegate(_Cells(self))
        self.setAccessibleName(self.tr("Memory as a table"))
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW_PX)

    def show_memory(self, memory: MemoryTable) -> None:
        self._memory = memory
        self.setModel(memory)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(_WHAT, QHeaderView.ResizeMode.Stretch)
        for column, width in ((0, 120), (_OWNER, 180), (_BYTES, 100), (_STATE, 100)):
            self.setColumnWidth(column, width)

    def memory_row(self, row: int) -> MemoryRow:
        assert self._memory is not None, "cells are painted only once there is a model"
        return self._memory.row(row)
