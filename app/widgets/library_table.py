"""The documents as a table: file, state, chunks, size, reason; state in words and by icon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QModelIndex, QPersistentModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionHeader,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app import theme
from app.widgets.bits import Tone
from app.widgets.figures import bytes_text, count_text

if TYPE_CHECKING:
    from app.models.documents import DocumentsTable
    from engine.protocol import Document

_ROW_PX = 36
# The order of DocumentsTable's columns, known here without importing the models before the first paint.
NAME, STATE, CHUNKS, SIZE, REASON = range(5)
Index = QModelIndex | QPersistentModelIndex

STATES: dict[str, tuple[str, str, Tone]] = {
    # state: icon, colour of the theme, tone of a chip
    "indexed": ("done", "good", "good"),
    "pending": ("pending", "accent", "accent"),
    "skipped": ("skipped", "warn", "warn"),
    "failed": ("failed", "bad", "bad"),
    "offline": ("pause", "muted", "plain"),
}


def state_name(state: str) -> str:
    """A document's state in the reader's words."""
    names = {
        "indexed": QCoreApplication.translate("library", "Indexed"),
        "pending": QCoreApplication.translate("library", "Waiting"),
        "skipped": QCoreApplication.translate("library", "Skipped"),
        "failed": QCoreApplication.translate("library", "Failed"),
        "offline": QCoreApplication.translate("library", "Offline"),
    }
    return names.get(state, state)


class _Cells(QStyledItemDelegate):
    """Puts the state's icon before its word, and figures as people read them."""

    def __init__(self, table: LibraryTable) -> None:
        super().__init__(table)
        self._table = table

    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:  # noqa: N802 - Qt's name
        super().initStyleOption(option, index)
        document = self._table.document_at(index.row())
        if document is None:
            return
        column = index.column()
        if column == STATE:
            icon, colour, _ = STATES[document.state]
            option.icon = theme.icon(icon, getattr(theme.current(), colour))
            option.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            option.text = state_name(document.state)
        elif column == CHUNKS:
            option.text = count_text(document.num_chunks) if document.num_chunks else "–"
        elif column == SIZE:
            option.text = bytes_text(document.size_bytes)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        # No dotted frame around one cell: whole rows are selected.
        option.state &= ~QStyle.StateFlag.State_HasFocus
        super().paint(painter, option, index)


class _Header(QHeaderView):
    """Titles stand over their figures."""

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:  # noqa: N802 - Qt's name
        super().initStyleOptionForIndex(option, section)
        if section in (CHUNKS, SIZE):
            option.textAlignment = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class LibraryTable(QTableView):
    """A view of DocumentsTable; some documents can be wished indexed again, or removed."""

    reindex_wanted = Signal(list)  # paths
    remove_wanted = Signal(list)  # paths

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._documents: DocumentsTable | None = None
        self.setItemDelegate(_Cells(self))
        self.setAccessibleName(self.tr("Documents"))
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalHeader(_Header(Qt.Orientation.Horizontal, self))
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW_PX)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu)

    def show_documents(self, documents: DocumentsTable) -> None:
        self._documents = documents
        self.setModel(documents)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        for column, width in ((STATE, 116), (CHUNKS, 80), (SIZE, 92), (REASON, 200)):
            self.setColumnWidth(column, width)

    def document_at(self, row: int) -> Document | None:
        return self._documents.document(row) if self._documents is not None else None

    def selected_paths(self) -> list[str]:
        rows = (self.document_at(index.row()) for index in self.selectionModel().selectedRows())
        return [document.path for document in rows if document is not None]

    def menu_for(self, paths: list[str]) -> QMenu:
        """What can be done with the selected documents."""
        menu = QMenu(self)
        menu.addAction(self.tr("Index again"), lambda: self.reindex_wanted.emit(paths))
        menu.addAction(self.tr("Remove from the library…"), lambda: self.remove_wanted.emit(paths))
        return menu

    def _on_menu(self, where: QPoint) -> None:
        paths = self.selected_paths()
        if paths:
            menu = self.menu_for(paths)
            menu.exec(self.viewport().mapToGlobal(where))
            menu.deleteLater()
