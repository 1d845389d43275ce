"""The documents as a table: name with its folder or its problem, state, chunks, size, and what would help."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QResizeEvent,
)
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
from app.widgets.document_help import HELP_WORDS, STATES, Help, help_for, helps_for, state_name, words_of
from app.widgets.figures import WIDEST_BYTES, bytes_text, count_text, file_name, folder_name

if TYPE_CHECKING:
    from app.models.documents import DocumentsTable
    from engine.protocol import Document

__all__ = ["CHUNKS", "HELP", "NAME", "SIZE", "STATE", "STATES", "LibraryTable", "state_name"]

# The order of DocumentsTable's columns, known here without importing the models before the first paint.
# In the model's column for the reason, the table shows what would help.
NAME, STATE, CHUNKS, SIZE, HELP = range(5)
Index = QModelIndex | QPersistentModelIndex
_LINE_GAP_PX, _ROW_PADDING_PX, _SIDE_PX = 2, 7, 8
_SMALL = 0.9
# In a narrower table these columns are hidden, so that names stay readable.
_ROOMY_LETTERS = {CHUNKS: 100, SIZE: 60}
_MANY_CHUNKS = 999_999
SHOW_KEYS = "Ctrl+Return"


class _Cells(QStyledItemDelegate):
    """Paints two lines for a name, an icon before the state, formatted figures, and help as a link."""

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
        elif column == HELP:
            offered = self._offered(document, index.row())
            option.text = words_of(offered) if offered else ""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        # No dotted frame around one cell: whole rows are selected.
        option.state &= ~QStyle.StateFlag.State_HasFocus
        document = self._table.document_at(index.row())
        if document is None or index.column() not in (NAME, HELP):
            super().paint(painter, option, index)
            return
        shown = QStyleOptionViewItem(option)
        self.initStyleOption(shown, index)
        text, shown.text = shown.text, ""
        style = self._table.style()
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, shown, painter, self._table)
        painter.save()
        if index.column() == NAME:
            self._paint_name(painter, shown, document)
        elif text:
            painter.setPen(QColor(theme.current().accent))
            inner = shown.rect.adjusted(_SIDE_PX, 0, -_SIDE_PX, 0)
            painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, text)
        painter.restore()

    def editorEvent(self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index) -> bool:
        is_click = isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonRelease
        document = self._table.document_at(index.row())
        if is_click and index.column() == HELP and document is not None:
            offered = self._offered(document, index.row())
            if offered is not None:
                self._table.help_wanted.emit(offered, [document.path])
                return True
        return super().editorEvent(event, model, option, index)

    def _offered(self, document: Document, row: int) -> Help | None:
        # The offer to index a file next is shown on the row under the mouse only, not on ten thousand rows at once.
        offered = help_for(document)
        return None if offered == "next" and row != self._table.hovered_row else offered

    def _paint_name(self, painter: QPainter, option: QStyleOptionViewItem, document: Document) -> None:
        look = theme.current()
        upper, lower = _two_lines(option.rect.adjusted(_SIDE_PX, 0, -_SIDE_PX, 0), option)
        painter.setFont(option.font)
        painter.setPen(QColor(look.text))
        name = option.fontMetrics.elidedText(
            file_name(document.path), Qt.TextElideMode.ElideMiddle, upper.width()
        )  # fmt: skip
        painter.drawText(upper, Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter, name)
        painter.setFont(_small(option.font))
        colour = STATES[document.state][1] if document.state in ("failed", "skipped") else "muted"
        painter.setPen(QColor(getattr(look, colour if document.reason else "muted")))
        mode = Qt.TextElideMode.ElideRight if document.reason else Qt.TextElideMode.ElideLeft
        words = painter.fontMetrics().elidedText(document.reason or folder_name(document.path), mode, lower.width())
        painter.drawText(lower, Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter, words)


class _Header(QHeaderView):
    """Aligns titles with their figures; the column for help has no title."""

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:  # noqa: N802 - Qt's name
        super().initStyleOptionForIndex(option, section)
        if section in (CHUNKS, SIZE):
            option.textAlignment = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        elif section == HELP:
            option.text = ""


class LibraryTable(QTableView):
    """A view of DocumentsTable. Signals report wishes about documents, including a click on a help link."""

    open_wanted = Signal(object)  # a Document
    show_wanted = Signal(object)  # a Document, to be shown in its folder
    ask_wanted = Signal(object)  # paths
    help_wanted = Signal(str, object)  # a Help, paths
    reindex_wanted = Signal(object)  # paths
    remove_wanted = Signal(object)  # paths
    selection_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._documents: DocumentsTable | None = None
        self._told = QTimer(self, singleShot=True, interval=0)
        self._told.timeout.connect(self.selection_changed)
        self.hovered_row = -1
        self.setItemDelegate(_Cells(self))
        self.setAccessibleName(self.tr("Documents"))
        self.setShowGrid(False)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setMouseTracking(True)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalHeader(_Header(Qt.Orientation.Horizontal, self))
        self.verticalHeader().hide()
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu)
        self.doubleClicked.connect(self._on_double_clicked)

    def show_documents(self, documents: DocumentsTable) -> None:
        self._documents = documents
        self.setModel(documents)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        self._fit()
        self.selectionModel().selectionChanged.connect(lambda: self.selection_changed.emit())
        # A reset clears the selection without a signal.
        documents.modelReset.connect(self.selection_changed)
        # Rows change one by one, hundreds at a time while files are indexed.
        documents.dataChanged.connect(lambda *_: self._told.start())

    def document_at(self, row: int) -> Document | None:
        return self._documents.document(row) if self._documents is not None else None

    def selected_documents(self) -> list[Document]:
        rows = (self.document_at(index.row()) for index in self.selectionModel().selectedRows())
        return [document for document in rows if document is not None]

    def menu_for(self, documents: list[Document]) -> QMenu:
        """Returns the menu for the selected documents."""
        menu, paths = QMenu(self), [document.path for document in documents]
        helps = helps_for(documents)
        if len(documents) == 1:
            opens = menu.addAction(self.tr("Open"), partial(self.open_wanted.emit, documents[0]))
            # If something would help, Enter does that instead.
            shows = menu.addAction(self.tr("Show in folder"), partial(self.show_wanted.emit, documents[0]))
            _show_keys(opens, "" if helps else "Return")
            _show_keys(shows, SHOW_KEYS)
        if askable := [document.path for document in documents if can_be_asked(document)]:
            words = self.tr("Ask about this file") if len(documents) == 1 else self.tr("Ask about these files")
            menu.addAction(words, partial(self.ask_wanted.emit, askable))
        if menu.actions():
            menu.addSeparator()
        for place, (offered, concerned) in enumerate(helps.items()):
            helping = menu.addAction(words_of(offered), partial(self.help_wanted.emit, offered, concerned))
            _show_keys(helping, "" if place else "Return")
        menu.addAction(self.tr("Index again"), lambda: self.reindex_wanted.emit(paths))
        menu.addSeparator()
        removes = menu.addAction(self.tr("Remove from the library…"), lambda: self.remove_wanted.emit(paths))
        _show_keys(removes, "Del")
        return menu

    # --- Qt ---

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        index = self.indexAt(event.position().toPoint())
        self._hover(index.row())
        document = self.document_at(index.row())
        is_link = index.column() == HELP and document is not None and help_for(document) is not None
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if is_link else Qt.CursorShape.ArrowCursor)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._hover(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        documents = self.selected_documents()
        if event.key() == Qt.Key.Key_Delete and documents:
            self.remove_wanted.emit([document.path for document in documents])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and documents:
            self._enter(documents, event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._hide_figures()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        # While a window is destroyed, the model may be deleted first.
        if event.type() == QEvent.Type.FontChange and self._documents is not None and self.model() is not None:
            self._fit()

    # --- inside ---

    def _fit(self) -> None:
        """Fits rows and columns to their possible texts in the present font and language."""
        line, small = _line_heights(self.font())
        self.verticalHeader().setDefaultSectionSize(line + small + _LINE_GAP_PX + 2 * _ROW_PADDING_PX)
        icon = self.style().pixelMetric(QStyle.PixelMetric.PM_SmallIconSize) + _SIDE_PX
        self.setColumnWidth(STATE, icon + self._width_of(map(state_name, STATES)))
        self.setColumnWidth(CHUNKS, max(self._width_of([count_text(_MANY_CHUNKS)]), self._title_width(CHUNKS)))
        self.setColumnWidth(SIZE, max(self._width_of([bytes_text(WIDEST_BYTES)]), self._title_width(SIZE)))
        self.setColumnWidth(HELP, self._width_of(map(words_of, HELP_WORDS)))
        self._hide_figures()

    def _hide_figures(self) -> None:
        letter = self.fontMetrics().averageCharWidth()
        for column, letters in _ROOMY_LETTERS.items():
            self.setColumnHidden(column, self.viewport().width() < letters * letter)

    def _width_of(self, texts: Iterable[str]) -> int:
        return max(self.fontMetrics().horizontalAdvance(text) for text in texts) + 3 * _SIDE_PX

    def _title_width(self, column: int) -> int:
        # The style sheet makes titles bold, and smaller than this.
        bold = QFont(self.font())
        bold.setBold(True)
        title = str(self.model().headerData(column, Qt.Orientation.Horizontal))
        return QFontMetrics(bold).horizontalAdvance(title) + 2 * _SIDE_PX

    def _hover(self, row: int) -> None:
        if row != self.hovered_row:
            before, self.hovered_row = self.hovered_row, row
            for changed in (before, row):
                if changed >= 0 and self.model() is not None:
                    self.update(self.model().index(changed, HELP))

    def _enter(self, documents: list[Document], shows: Qt.KeyboardModifier) -> None:
        """Helps if that is possible, otherwise opens or shows the selected file; several files are ambiguous."""
        helps = {} if shows else helps_for(documents)
        if helps:
            offered, paths = next(iter(helps.items()))
            self.help_wanted.emit(offered, paths)
        elif len(documents) == 1:
            (self.show_wanted if shows else self.open_wanted).emit(documents[0])

    def _on_double_clicked(self, index: QModelIndex) -> None:
        document = self.document_at(index.row())
        # A double click on a link counts as clicks on the link.
        if document is not None and not (index.column() == HELP and help_for(document) is not None):
            self.open_wanted.emit(document)

    def _on_menu(self, where: QPoint) -> None:
        documents = self.selected_documents()
        if documents:
            menu = self.menu_for(documents)
            menu.exec(self.viewport().mapToGlobal(where))
            menu.deleteLater()


def can_be_asked(document: Document) -> bool:
    """Returns whether there is something to ask about, now or once it is indexed."""
    return bool(document.num_chunks) or document.state == "pending"


def _show_keys(action: QAction, keys: str) -> None:
    """Shows in a menu which keys do the same in the table; the menu itself does not react to them."""
    action.setShortcut(QKeySequence(keys))
    action.setShortcutVisibleInContextMenu(True)


def _small(font: QFont) -> QFont:
    made = QFont(font)
    made.setPointSizeF(font.pointSizeF() * _SMALL)
    return made


def _line_heights(font: QFont) -> tuple[int, int]:
    """Returns the height of the name, and of the smaller line below it, which is rounded to pixels separately."""
    return QFontMetrics(font).height(), QFontMetrics(_small(font)).height()


def _two_lines(rect: QRect, option: QStyleOptionViewItem) -> tuple[QRect, QRect]:
    """Returns the places of the name and of the smaller line below it."""
    line, small = _line_heights(option.font)
    top = rect.top() + (rect.height() - line - small - _LINE_GAP_PX) // 2
    upper = QRect(rect.left(), top, rect.width(), line)
    return upper, QRect(rect.left(), top + line + _LINE_GAP_PX, rect.width(), small)
