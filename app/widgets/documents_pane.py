"""The documents of the library or of a collection: filters by state and name, counts, and a table with actions."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QAction, QHideEvent, QShowEvent
from PySide6.QtWidgets import QButtonGroup, QLineEdit, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app import theme
from app.outside import outside
from app.widgets import bits
from app.widgets.collection_picker import CollectionPicker
from app.widgets.empty_state import EmptyState
from app.widgets.figures import count_text
from app.widgets.flow import FlowLayout
from app.widgets.library_table import LibraryTable
from app.widgets.needs_card import NeedsCard
from app.widgets.selection_bar import SelectionBar

if TYPE_CHECKING:
    from app.models.library import LibraryModel
    from engine.protocol import Document, DocumentState

FILTERS: dict[str, tuple[DocumentState, ...]] = {
    "all": (),
    "indexed": ("indexed",),
    "waiting": ("pending",),
    "problems": ("skipped", "failed"),
    "offline": ("offline",),
}
_TYPING_MS = 200
_SEARCH_PX = 220
_TABLE_MIN_PX = 240


class DocumentsPane(QWidget):
    """Shows the documents of a LibraryModel; signals report wishes, because the page asks before it removes."""

    ask_wanted = Signal(object)  # paths
    help_wanted = Signal(str, object)  # a Help, paths
    reindex_wanted = Signal(object)  # paths
    remove_wanted = Signal(object)  # paths

    def __init__(self, library: LibraryModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._filter = "all"
        self.filter_buttons: dict[str, QPushButton] = {}
        self.search = self._search_field()
        self.collections = CollectionPicker(is_of_list=True)
        self.table, self.bar, self.needs = LibraryTable(), SelectionBar(), NeedsCard()
        self.table.show_documents(library.documents)
        self.empty = EmptyState("done", "")
        self._stack = QStackedWidget()
        self._stack.setMinimumHeight(_TABLE_MIN_PX)
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.empty)
        frame = bits.card()
        inner = bits.column(self._stack, self.bar, spacing=0)
        inner.setStretch(0, 1)
        inner.setContentsMargins(4, 4, 4, 4)
        frame.setLayout(inner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(12)
        layout.addWidget(self._head())
        layout.addWidget(self.needs)
        layout.addWidget(frame, 1)
        # Typing a word would start many searches; only the last one is needed.
        self._typing = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._typing.timeout.connect(lambda: self._ask(self._collection))
        self._connect()
        self._show_counts()
        self._show_collections()
        self._show_problems()

    def show_collection(self, name: str | None) -> None:
        """Lists the documents of a collection; None: of all."""
        self._ask(name)
        self._show_collections()

    def show_filter(self, name: str) -> None:
        """Lists all, indexed, waiting or offline documents, or problems (with their reasons)."""
        self._filter = name
        self.filter_buttons[name].setChecked(True)
        self._ask(self._collection)
        self._show_problems()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._library.documents.set_shown(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        # Minimising the window hides nothing for long.
        if not event.spontaneous():
            self._library.documents.set_shown(False)

    def _head(self) -> QWidget:
        head, group = QWidget(), QButtonGroup(self)
        flow = FlowLayout(head, spacing=4)
        for name, words in self._names().items():
            button = bits.button(words, "segment", clicked=partial(self.show_filter, name), is_checkable=True)
            button.setChecked(name == self._filter)
            group.addButton(button)
            self.filter_buttons[name] = button
            flow.addWidget(button)
        search = QWidget()
        search.setLayout(bits.row(8, self.search, spacing=0))
        flow.addWidget(self.collections)
        flow.addWidget(search)
        return head

    def _search_field(self) -> QLineEdit:
        field = QLineEdit()
        field.setProperty("kind", "search")
        field.setFixedWidth(_SEARCH_PX)
        field.setPlaceholderText(self.tr("Find by name"))
        field.setAccessibleName(self.tr("Find documents by name"))
        field.setClearButtonEnabled(True)
        field.setAcceptDrops(False)
        self._search_icon = QAction(field)
        field.addAction(self._search_icon, QLineEdit.ActionPosition.LeadingPosition)
        field.textChanged.connect(lambda: self._typing.start())
        self._dress()
        theme.appearance().changed.connect(self._dress)
        return field

    def _names(self) -> dict[str, str]:
        return {
            "all": self.tr("All files"),
            "indexed": self.tr("Indexed"),
            "waiting": self.tr("Waiting"),
            "problems": self.tr("Not indexed"),
            "offline": self.tr("Offline"),
        }

    def _connect(self) -> None:
        self._library.problems_changed.connect(self._show_problems)
        self._library.documents.loaded.connect(self._show_counts)
        # The listed collection may have been deleted or renamed.
        self._library.documents.loaded.connect(self._show_collections)
        self._library.collections_changed.connect(self._follow_collections)
        self.collections.chosen.connect(lambda names: self.show_collection(next(iter(names), None)))
        self.table.open_wanted.connect(lambda document: outside().open_file(document.path, _absence(document)))
        self.table.show_wanted.connect(lambda document: outside().show_in_folder(document.path, _absence(document)))
        self.table.ask_wanted.connect(self.ask_wanted)
        self.table.selection_changed.connect(lambda: self.bar.show_selected(self.table.selected_documents()))
        for part in (self.table, self.bar):
            part.help_wanted.connect(self.help_wanted)
            part.reindex_wanted.connect(self.reindex_wanted)
            part.remove_wanted.connect(self.remove_wanted)
        self.needs.help_wanted.connect(self.help_wanted)

    def _dress(self) -> None:
        self._search_icon.setIcon(theme.icon("search", theme.current().muted, 16))

    @property
    def _collection(self) -> str | None:
        return self._library.documents.collection

    def _ask(self, collection: str | None) -> None:
        self._typing.stop()
        # The empty state is shown only once it is known that there are no documents.
        self._stack.setCurrentWidget(self.table)
        self._library.documents.show(collection, FILTERS[self._filter], self.search.text().strip())

    def _follow_collections(self) -> None:
        library, listed = self._library, self._collection
        if listed is not None and (now := library.name_now(listed)) != listed:
            self._ask(now)
        elif listed is not None and library.is_gone(listed):
            self._ask(None)
        self._show_collections()

    def _show_collections(self) -> None:
        names = [collection.name for collection in self._library.collections]
        self.collections.show_collections(names, () if self._collection is None else (self._collection,))
        # With a single collection there is nothing to choose.
        self.collections.setVisible(len(names) > 1 or self._collection is not None)

    def _show_counts(self) -> None:
        documents = self._library.documents
        counts = documents.by_state
        for name, words in self._names().items():
            states: Iterable[str] = FILTERS[name] or counts
            number = sum(counts.get(state, 0) for state in states)
            text = f"{words} ({count_text(number)})" if number else words
            self.filter_buttons[name].setText(text)
            self.filter_buttons[name].setAccessibleName(text)
        # Offline files are the exception: without any, the filter is not shown.
        self.filter_buttons["offline"].setVisible(bool(counts.get("offline")) or self._filter == "offline")
        self.empty.show_sentence(self._empty_sentence())
        is_empty = not documents.total and bool(counts or documents.name)
        self._stack.setCurrentWidget(self.empty if is_empty else self.table)

    def _empty_sentence(self) -> str:
        if self._library.documents.name:
            return self.tr("No file here has these words in its name.")
        return {
            "problems": self.tr("Every file could be indexed."),
            "waiting": self.tr("No file is waiting."),
            "offline": self.tr("Every file can be reached."),
        }.get(self._filter, self.tr("There is nothing here yet."))

    def _show_problems(self) -> None:
        library = self._library
        self.needs.show_problems(
            library.problems if self._filter == "problems" else (), len(library.problems) == library.num_problems
        )


def _absence(document: Document) -> str:
    """Returns why a document cannot be reached, as far as the engine knows; "" if it can be."""
    return document.reason if document.state == "offline" else ""
