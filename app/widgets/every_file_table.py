"""The answers of every file as a table: name, beginning of the answer, where it was found, state with its icon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyleOptionViewItem,
    QWidget,
)

from app import theme
from app.widgets.row_table import Index, RowCells, RowTable

if TYPE_CHECKING:
    from app.models.each_file import EachFileModel

# The order of EachFileModel's columns.
FILE, ANSWER, FOUND_AT, STATE = range(4)
_ICONS = {"finished": ("done", "good"), "failed": ("failed", "bad"), "writing": ("rename", "accent")}
_WAITING = ("pending", "faint")
_ROW_LINES, _ROW_PADDING_PX = 1.9, 8
# In a narrower table places are hidden and names get less room, so that answers stay readable.
_ROOMY_LETTERS = 92
_FILE_LETTERS, _FOUND_AT_LETTERS = 27, 17
_FILE_SHARE = 0.3
_LEAST_ROWS = 3


class _Cells(RowCells):
    """A name on one line, and the icon of a state before its word."""

    def __init__(self, table: EveryFileTable) -> None:
        super().__init__(table)
        self._table = table

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        if index.column() == STATE:
            icon, colour = _ICONS.get(self._table.state_of(index.row()), _WAITING)
            option.icon = theme.icon(icon, getattr(theme.current(), colour))
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
        elif index.column() == FILE:
            # Files of one folder often differ only at their ends, which wrapping to several lines would cut off.
            option.features &= ~QStyleOptionViewItem.ViewItemFeature.WrapText
            option.textElideMode = Qt.TextElideMode.ElideMiddle


class EveryFileTable(RowTable):
    """A view of an EachFileModel; `selected` carries the row to show, -1 for none."""

    selected = Signal(int)

    def __init__(self, model: EachFileModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self.setModel(model)
        self.setItemDelegate(_Cells(self))
        self.setAccessibleName(self.tr("Answers of every file"))
        self.setWordWrap(True)
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._plain_header().setSectionResizeMode(ANSWER, QHeaderView.ResizeMode.Stretch)
        self._is_roomy = True
        self._fit_rows()
        self._fit_columns()
        self.selectionModel().selectionChanged.connect(lambda: self.selected.emit(self.current_row))
        # A reset clears the selection without a signal.
        model.modelReset.connect(lambda: self.selected.emit(-1))

    def _fit_rows(self) -> None:
        line = self.fontMetrics().height()
        row = round(_ROW_LINES * line) + 2 * _ROW_PADDING_PX
        self.verticalHeader().setDefaultSectionSize(row)
        self.setMinimumHeight(self.horizontalHeader().sizeHint().height() + _LEAST_ROWS * row)

    def _fit_columns(self) -> None:
        letter = self.fontMetrics().averageCharWidth()
        file = _FILE_LETTERS * letter
        if not self._is_roomy:
            file = min(file, round(_FILE_SHARE * self.viewport().width()))
        for column, width in ((FILE, file), (FOUND_AT, _FOUND_AT_LETTERS * letter), (STATE, self._state_width_px())):
            self.setColumnWidth(column, width)
        self.setColumnHidden(FOUND_AT, not self._is_roomy)

    def _state_width_px(self) -> int:
        """Returns the width of the longest word of any state next to its icon, in the present font and language."""
        widest = max(self.fontMetrics().horizontalAdvance(word) for word in self._model.state_words().values())
        return widest + self.style().pixelMetric(QStyle.PixelMetric.PM_SmallIconSize) + 4 * _ROW_PADDING_PX

    @property
    def current_row(self) -> int:
        rows = self.selectionModel().selectedRows()
        return rows[0].row() if rows else -1

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        was_roomy = self._is_roomy
        self._is_roomy = self.viewport().width() >= _ROOMY_LETTERS * self.fontMetrics().averageCharWidth()
        # With enough room, columns stay as the user has sized them.
        if not (was_roomy and self._is_roomy):
            self._fit_columns()

    def state_of(self, row: int) -> str:
        view = self._model.view(row)
        return view.state if view is not None else ""
