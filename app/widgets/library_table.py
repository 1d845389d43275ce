"""The documents of a collection as a table: file, state, chunks, size; state in words and by icon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QAbstractTableModel,
    QCoreApplication,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    Qt,
    Signal,
)
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QMenu, QTableView, QWidget

from app import theme
from app.widgets.bits import Tone
from app.widgets.figures import bytes_text, count_text, file_name, printable

if TYPE_CHECKING:
    from engine.protocol import Document

_ROW_PX = 36
FILE, FOLDER, STATE, CHUNKS, SIZE = range(5)
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


class _Rows(QAbstractTableModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._documents: tuple[Document, ...] = ()
        self._headers = (self.tr("File"), self.tr("Folder"), self.tr("State"), self.tr("Chunks"), self.tr("Size"))

    def show(self, documents: Sequence[Document]) -> None:
        self.beginResetModel()
        self._documents = tuple(documents)
        self.endResetModel()

    def document(self, row: int) -> Document:
        return self._documents[row]

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._documents)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._headers)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole.value
    ) -> object:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self._headers[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole.value) -> object:
        document, column = self._documents[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(document, column)
        if role == Qt.ItemDataRole.DecorationRole and column == STATE:
            icon, colour, _ = STATES[document.state]
            return theme.icon(icon, getattr(theme.current(), colour))
        if role == Qt.ItemDataRole.ToolTipRole:
            return document.reason if column == STATE and document.reason else printable(document.path)
        if role == Qt.ItemDataRole.TextAlignmentRole and column in (CHUNKS, SIZE):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def _text(self, document: Document, column: int) -> str:
        return (
            file_name(document.path),
            printable(document.path.rpartition("/")[0]),
            state_name(document.state),
            count_text(document.num_chunks) if document.num_chunks else "–",
            bytes_text(document.size_bytes),
        )[column]


class LibraryTable(QTableView):
    """Shows documents; asks for one to be opened (double click, Enter) and for some to be re-indexed or removed."""

    opened = Signal(object)  # Document
    reindex_wanted = Signal(list)  # paths
    remove_wanted = Signal(list)  # paths

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows = _Rows(self)
        self.setModel(self._rows)
        self.setAccessibleName(self.tr("Documents"))
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(_ROW_PX)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(FILE, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(FOLDER, QHeaderView.ResizeMode.Stretch)
        for column, width in ((STATE, 120), (CHUNKS, 84), (SIZE, 96)):
            self.setColumnWidth(column, width)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu)
        self.activated.connect(lambda index: self.opened.emit(self._rows.document(index.row())))

    def show_documents(self, documents: Sequence[Document]) -> None:
        self._rows.show(documents)

    def selected_paths(self) -> list[str]:
        return [self._rows.document(index.row()).path for index in self.selectionModel().selectedRows()]

    def _on_menu(self, where: QPoint) -> None:
        paths = self.selected_paths()
        if not paths:
            return
        menu = QMenu(self)
        menu.addAction(self.tr("Index again"), lambda: self.reindex_wanted.emit(paths))
        menu.addAction(self.tr("Remove from the library…"), lambda: self.remove_wanted.emit(paths))
        menu.exec(self.viewport().mapToGlobal(where))
        menu.deleteLater()
