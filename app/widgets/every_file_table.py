"""What every file answered, as a table: name, beginning of the answer, where it was found, state with its icon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app import theme

if TYPE_CHECKING:
    from app.models.each_file import EachFileModel

# The order of EachFileModel's columns.
FILE, ANSWER, FOUND_AT, STATE = range(4)
_ICONS = {"finished": ("done", "good"), "failed": ("failed", "bad"), "writing": ("rename", "accent")}
_WAITING = ("pending", "faint")
_ROW_LINES, _ROW_PADDING_PX = 1.9, 8
# Below this width places are left out, so that answers stay readable.
_ROOMY_PX = 640

Index = QModelIndex | QPersistentModelIndex


class _Cells(QStyledItemDelegate):
    """The state's icon before its word; no frame around one cell, since whole rows are selected."""

    def __init__(self, table: EveryFileTable) -> None:
        super().__init__(table)
        self._table = table

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        if index.column() == STATE:
            icon, colour = _ICONS.get(self._table.state_of(index.row()), _WAITING)
            option.icon = theme.icon(icon, getattr(theme.current(), colour))
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        option.state &= ~QStyle.StateFlag.State_HasFocus
        super().paint(painter, option, index)


class EveryFileTable(QTableView):
    """A view of an EachFileModel; `selected` tells the row that is to be read, -1 for none."""

    selected = Signal(int)

    def __init__(self, model: EachFileModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.setModel(model)
        self.setItemDelegate(_Cells(self))
        self.setAccessibleName(self.tr("Answers of every file"))
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(True)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalHeader().hide()
        self._fit_rows()
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(ANSWER, QHeaderView.ResizeMode.Stretch)
        for column, width in ((FILE, 190), (FOUND_AT, 120), (STATE, self._state_width_px())):
            self.setColumnWidth(column, width)
        self.selectionModel().selectionChanged.connect(lambda: self.selected.emit(self.current_row))
        # A reset clears the selection without saying so.
        model.modelReset.connect(lambda: self.selected.emit(-1))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit_rows()

    def _fit_rows(self) -> None:
        line = self.fontMetrics().height()
        self.verticalHeader().setDefaultSectionSize(round(_ROW_LINES * line) + 2 * _ROW_PADDING_PX)

    def _state_width_px(self) -> int:
        """The longest word of any state beside its icon, whatever font and language make of it."""
        widest = max(self.fontMetrics().horizontalAdvance(word) for word in self._model.state_words().values())
        return widest + self.style().pixelMetric(QStyle.PixelMetric.PM_SmallIconSize) + 4 * _ROW_PADDING_PX

    @property
    def current_row(self) -> int:
        rows = self.selectionModel().selectedRows()
        return rows[0].row() if rows else -1

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setColumnHidden(FOUND_AT, self.viewport().width() < _ROOMY_PX)

    def state_of(self, row: int) -> str:
        view = self._model.view(row)
        return view.state if view is not None else ""
