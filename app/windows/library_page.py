"""The library: collections and their folders, the job that indexes them, documents by state, and what went wrong."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QPushButton, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.collection_card import CollectionCard
from app.widgets.empty_state import EmptyState
from app.widgets.figures import bytes_text, count_text, file_name
from app.widgets.library_table import LibraryTable
from app.widgets.problem_list import ProblemList
from app.widgets.progress_card import ProgressCard
from app.windows.page import Page
from app.windows.questions import ask_first

if TYPE_CHECKING:
    from app.models.library import LibraryModel
    from engine.protocol import Collection, DocumentState

_COLLECTIONS_PX = 224
_FILTERS: tuple[tuple[str, tuple[DocumentState, ...]], ...] = (
    ("all", ()),
    ("indexed", ("indexed",)),
    ("waiting", ("pending",)),
    ("problems", ("skipped", "failed")),
)


class LibraryPage(Page):
    """Shows a LibraryModel. What is to be added is chosen by the window, which owns the file dialogs."""

    add_folder_wanted = Signal(str)  # collection, "" for the default one
    add_files_wanted = Signal(str)

    def __init__(self, library: LibraryModel, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Library"), "", parent)
        self._library = library
        self._filter = "all"
        self.buttons.addWidget(
            bits.button(self.tr("Add files…"), icon="file", clicked=lambda: self.add_files_wanted.emit(""))
        )
        self.add_folder = bits.button(
            self.tr("Add folder…"), "primary", "folder-plus", lambda: self.add_folder_wanted.emit("")
        )
        self.buttons.addWidget(self.add_folder)
        self.progress, self.table, self.problems = ProgressCard(), LibraryTable(), ProblemList()
        self._cards: list[CollectionCard] = []
        self._shown_collections: tuple[Collection, ...] | None = None
        self._collections, self._collections_column = _column()
        self._filter_buttons: dict[str, QPushButton] = {}
        self._filled = self._build_filled()
        self.empty = EmptyState(
            "folder-plus",
            self.tr("Drag a folder or files anywhere onto this window, and ask about what is in them."),
            self.tr("Choose a folder…"),
        )
        self.empty.chosen.connect(lambda: self.add_folder_wanted.emit(""))
        self._stack = QStackedWidget()
        self._stack.addWidget(self._filled)
        self._stack.addWidget(self.empty)
        self.body.addWidget(self.progress)
        self.body.addWidget(self._stack, 1)
        self._connect()
        self._show_all()

    def cards(self) -> tuple[CollectionCard, ...]:
        return tuple(self._cards)

    def show_filter(self, name: str) -> None:
        """Which documents are listed: all, indexed, waiting, or the problems with their reasons."""
        self._filter = name
        self._filter_buttons[name].setChecked(True)
        self._lists.setCurrentIndex(1 if name == "problems" else 0)
        if name != "problems":
            self._library.documents.show(None, dict(_FILTERS)[name])

    def _build_filled(self) -> QWidget:
        self._lists = QStackedWidget()
        self.table.show_documents(self._library.documents)
        self._lists.addWidget(self._framed(self.table))
        scroll, column = _column()
        column.insertWidget(0, self.problems)
        self._no_problems = EmptyState("done", self.tr("Every file could be indexed."))
        column.insertWidget(1, self._no_problems, 1)
        self._lists.addWidget(scroll)
        filled = QWidget()
        layout = bits.column(self._collections, spacing=16)
        layout.addLayout(self._filter_line())
        layout.addWidget(self._lists, 1)
        filled.setLayout(layout)
        return filled

    def _framed(self, table: QWidget) -> QWidget:
        frame = bits.card()
        inner = bits.column(table)
        inner.setContentsMargins(4, 4, 4, 4)
        frame.setLayout(inner)
        return frame

    def _filter_line(self) -> QHBoxLayout:
        group, line = QButtonGroup(self), bits.row(spacing=4)
        names = {
            "all": self.tr("All files"),
            "indexed": self.tr("Indexed"),
            "waiting": self.tr("Waiting"),
            "problems": self.tr("Not indexed"),
        }
        for name, _ in _FILTERS:
            button = bits.button(names[name], "segment", clicked=partial(self.show_filter, name))
            button.setCheckable(True)
            button.setChecked(name == "all")
            group.addButton(button)
            self._filter_buttons[name] = button
            line.addWidget(button)
        line.addStretch(1)
        self._total = bits.label("", "small")
        line.addWidget(self._total)
        return line

    def _connect(self) -> None:
        library = self._library
        library.collections_changed.connect(self._show_collections)
        library.progress_changed.connect(self._show_progress)
        library.problems_changed.connect(self._show_problems)
        library.documents.total_changed.connect(self._show_total)
        self.progress.pause_wanted.connect(library.pause)
        self.progress.resume_wanted.connect(library.resume)
        self.progress.cancel_wanted.connect(library.cancel)
        self.problems.retry_wanted.connect(library.reindex)
        self.table.reindex_wanted.connect(library.reindex)
        self.table.remove_wanted.connect(self._on_remove_documents)

    def _show_all(self) -> None:
        self._show_collections()
        self._show_progress()
        self._show_problems()
        self._show_total()

    def _show_collections(self) -> None:
        library = self._library
        has_any = bool(library.num_documents or any(c.folders for c in library.collections))
        self._stack.setCurrentWidget(self._filled if has_any or library.progress else self.empty)
        self._show_summary()
        if library.collections != self._shown_collections:
            self._shown_collections = library.collections
            self._rebuild_cards()

    def _show_summary(self) -> None:
        library = self._library
        if not library.is_known:
            self.subtitle.setText(self.tr("The engine is starting…"))
            return
        chunks = sum(collection.num_chunks for collection in library.collections)
        facts = (
            self.tr("%1 files").replace("%1", count_text(library.num_documents)),
            self.tr("%1 chunks").replace("%1", count_text(chunks)),
            self.tr("%1 on disk").replace("%1", bytes_text(library.disk_bytes)),
        )
        self.subtitle.setText(" · ".join(facts))

    def _rebuild_cards(self) -> None:
        for card in self._cards:
            self._collections_column.removeWidget(card)
            card.hide()
            card.deleteLater()
        self._cards = [self._new_card(collection) for collection in self._library.collections]
        for position, card in enumerate(self._cards):
            self._collections_column.insertWidget(position, card)
        wanted = sum(card.sizeHint().height() + 8 for card in self._cards)
        self._collections.setFixedHeight(min(_COLLECTIONS_PX, max(0, wanted)))

    def _new_card(self, collection: Collection) -> CollectionCard:
        card = CollectionCard(collection)
        card.add_wanted.connect(self.add_folder_wanted)
        card.reindex_wanted.connect(self._library.reindex)
        card.remove_wanted.connect(self._on_remove_folder)
        return card

    def _show_progress(self) -> None:
        self.progress.show_progress(self._library.progress)
        if self._library.progress is not None:
            self._stack.setCurrentWidget(self._filled)

    def _show_problems(self) -> None:
        total = self._library.num_problems
        self.problems.show_problems(self._library.problems, total)
        self._no_problems.setVisible(not total)
        words = self.tr("Not indexed")
        self._filter_buttons["problems"].setText(f"{words} ({count_text(total)})" if total else words)

    def _show_total(self) -> None:
        total = self._library.documents.total
        self._total.setText(self.tr("%1 listed").replace("%1", count_text(total)) if total else "")

    def _on_remove_folder(self, folder: str) -> None:
        ask_first(
            self,
            self.tr("Remove “%1” from the library?").replace("%1", file_name(folder)),
            self.tr(
                "What was indexed from it can no longer be found or cited. The files themselves stay where they are."
            ),
            self.tr("Remove"),
            lambda: self._library.remove([folder]),
        )

    def _on_remove_documents(self, paths: list[str]) -> None:
        one = self.tr("Remove “%1” from the library?").replace("%1", file_name(paths[0]))
        many = self.tr("Remove %1 files from the library?").replace("%1", count_text(len(paths)))
        ask_first(
            self,
            one if len(paths) == 1 else many,
            self.tr("They can no longer be found or cited. The files themselves stay where they are."),
            self.tr("Remove"),
            lambda: self._library.remove(paths),
        )


def _column() -> tuple[QScrollArea, QVBoxLayout]:
    """A scrolling column and its layout, which ends in a stretch."""
    scroll, content = QScrollArea(), QWidget()
    content.setObjectName("column")
    layout = QVBoxLayout(content)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(8)
    layout.addStretch(1)
    scroll.setWidget(content)
    scroll.setWidgetResizable(True)
    scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    return scroll, layout
