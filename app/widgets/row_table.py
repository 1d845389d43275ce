"""The base of tables that select whole rows: no grid, no focus frame, row heights that follow the font."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, Qt
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

Index = QModelIndex | QPersistentModelIndex


class RowCells(QStyledItemDelegate):
    """Paints cells without the dotted focus frame, because the whole row is marked."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        option.state &= ~QStyle.StateFlag.State_HasFocus
        super().paint(painter, option, index)


class RowTable(QTableView):
    """Selects rows; a subclass fits rows and columns to the font."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.verticalHeader().hide()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_rows()
            self._fit_columns()

    def _plain_header(self) -> QHeaderView:
        """Returns the header, with titles aligned left and not highlighted by the selection."""
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return header

    def _fit_rows(self) -> None:
        raise NotImplementedError

    def _fit_columns(self) -> None:
        raise NotImplementedError
