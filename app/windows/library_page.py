"""The library: linked folders and their state, decisions to make, the indexing job, and all documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from app.sentences import joined
from app.widgets import bits
from app.widgets.collection_card import CollectionCard
from app.widgets.decision_card import DecisionCard
from app.widgets.documents_pane import DocumentsPane
from app.widgets.embedder_line import EmbedderLine
from app.widgets.empty_state import EmptyState
from app.widgets.figures import bytes_text, count_text, file_name
from app.widgets.progress_card import ProgressCard
from app.windows.collection_name_dialog import CollectionNameDialog
from app.windows.ocr_dialog import OcrDialog
from app.windows.page import Page
from app.windows.password_dialog import PasswordDialog
from app.windows.questions import ask_first

if TYPE_CHECKING:
    from app.models.library import LibraryModel
    from engine.protocol import Collection, Folder

# More folders than fit here are scrolled, so that the documents stay in sight.
_COLLECTIONS_PX, _COLLECTIONS_SHARE = 280, 0.34


class LibraryPage(Page):
    """Shows a LibraryModel. The window owns the file dialogs that choose what to add."""

    add_folder_wanted = Signal(str)  # collection, "" for the default one
    new_collection_wanted = Signal()
    add_files_wanted = Signal(str)
    ocr_languages_wanted = Signal()
    ask_wanted = Signal(object)  # paths of documents

    def __init__(self, library: LibraryModel, parent: QWidget | None = None) -> None:
        super().__init__(self.tr("Library"), "", parent)
        self._library = library
        self._add_buttons()
        self.progress, self.embedder = ProgressCard(), EmbedderLine()
        self.documents = DocumentsPane(library)
        self._cards: list[CollectionCard] = []
        self._decisions: list[DecisionCard] = []
        self._shown: tuple[object, object] | None = None
        self._collections, self._collections_column = _column()
        self._collections.viewport().installEventFilter(self)
        self._decisions_column = bits.column(spacing=8)
        self.empty = EmptyState(
            "folder-plus",
            self.tr("Drag a folder or files anywhere onto this window, and ask about what is in them."),
            self.tr("Choose a folder…"),
        )
        self.empty.chosen.connect(lambda: self.add_folder_wanted.emit(""))
        self._filled = self._build_filled()
        self._stack = QStackedWidget()
        self._stack.addWidget(self._filled)
        self._stack.addWidget(self.empty)
        self.body.addWidget(self._stack, 1)
        self._connect()
        self._show_library()
        self._show_progress()

    def cards(self) -> tuple[CollectionCard, ...]:
        return tuple(self._cards)

    def decisions(self) -> tuple[DecisionCard, ...]:
        return tuple(self._decisions)

    def show_filter(self, name: str) -> None:
        """Sets which documents are listed; see DocumentsPane."""
        self.documents.show_filter(name)
        self._scroll.ensureWidgetVisible(self.documents, 0, 0)

    # --- building ---

    def _add_buttons(self) -> None:
        self.check = bits.button(self.tr("Check for changes"), "ghost", "regenerate", self._library.rescan)
        self.check.setToolTip(self.tr("Look for new, changed and removed files in the linked folders now"))
        self.add_files = bits.button(
            self.tr("Add files…"), icon="file", clicked=lambda: self.add_files_wanted.emit("")
        )  # fmt: skip
        self.add_folder = bits.button(
            self.tr("Add folder…"), "primary", "folder-plus", lambda: self.add_folder_wanted.emit("")
        )
        for button in (self.check, self.add_files, self.add_folder):
            self.buttons.addWidget(button)

    def _build_filled(self) -> QScrollArea:
        """Returns folders above documents, in a column that scrolls if the window is too low."""
        column = QWidget()
        column.setObjectName("column")
        layout = bits.column(spacing=16)
        layout.addLayout(self._decisions_column)
        self.new_collection = bits.button(self.tr("New collection…"), "ghost", "plus", self.new_collection_wanted.emit)
        for part in (self.progress, self._collections):
            layout.addWidget(part)
        layout.addLayout(bits.row(self.new_collection, None))
        self.offers = bits.column(spacing=0)
        layout.addLayout(self.offers)
        layout.addWidget(self.embedder)
        layout.addWidget(self.documents, 1)
        column.setLayout(layout)
        self._scroll = QScrollArea()
        self._scroll.setWidget(column)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        return self._scroll

    def _connect(self) -> None:
        library, documents = self._library, self.documents
        library.collections_changed.connect(self._show_library)
        library.progress_changed.connect(self._show_progress)
        self.progress.pause_wanted.connect(library.pause)
        self.progress.resume_wanted.connect(library.resume)
        self.progress.cancel_wanted.connect(library.cancel)
        documents.ask_wanted.connect(self.ask_wanted)
        documents.help_wanted.connect(self._on_help)
        documents.reindex_wanted.connect(library.reindex)
        documents.remove_wanted.connect(self._on_remove)

    # --- showing ---

    def _show_library(self) -> None:
        library = self._library
        self._show_summary()
        is_empty = library.is_known and not library.collections and library.progress is None
        self._stack.setCurrentWidget(self.empty if is_empty else self._filled)
        self.check.setVisible(bool(library.collections))
        self.embedder.show_embedder(library.embedder)
        if (library.collections, library.folders) != self._shown:
            self._shown = (library.collections, library.folders)
            self._show_cards()
            self._show_decisions()

    def _show_summary(self) -> None:
        library = self._library
        if not library.is_known:
            self.subtitle.setText(self.tr("The engine is starting…"))
            return
        chunks = sum(collection.num_chunks for collection in library.collections)
        facts = (
            self.tr("1 file")
            if library.num_documents == 1
            else self.tr("%1 files").replace("%1", count_text(library.num_documents)),
            self.tr("1 chunk") if chunks == 1 else self.tr("%1 chunks").replace("%1", count_text(chunks)),
            self.tr("%1 on disk").replace("%1", bytes_text(library.disk_bytes)),
        )
        self.subtitle.setText(" · ".join(facts))

    def _show_cards(self) -> None:
        """Keeps existing cards: while files are indexed this runs each second, and the user may be clicking."""
        before = {card.collection.name: card for card in self._cards}
        self._cards = []
        for collection in self._library.collections:
            card = before.pop(collection.name, None)
            if card is None:
                card = self._new_card(collection)
            else:
                card.show_collection(collection, self._library.folders)
            self._cards.append(card)
        bits.drop(self._collections_column, before.values())
        _arrange(self._collections_column, self._cards)
        self._fit_collections()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Reasons wrap, so the height of the cards depends on their width.
        if event.type() == QEvent.Type.Resize:
            self._fit_collections()
        return super().eventFilter(watched, event)

    def _fit_collections(self) -> None:
        width = max(200, self._collections.viewport().width())
        wanted = sum(card.height_for(width) + 8 for card in self._cards)
        most = min(_COLLECTIONS_PX, round(self.height() * _COLLECTIONS_SHARE))
        self._collections.setFixedHeight(min(most, wanted))

    def _new_card(self, collection: Collection) -> CollectionCard:
        card = CollectionCard(collection, self._library.folders)
        card.add_wanted.connect(self.add_folder_wanted)
        card.show_wanted.connect(self._on_show)
        card.rename_wanted.connect(self._on_rename)
        card.delete_wanted.connect(self._on_delete)
        card.reindex_wanted.connect(self._library.reindex)
        card.remove_wanted.connect(self._on_remove)
        return card

    def _show_decisions(self) -> None:
        before = {card.folder.path: card for card in self._decisions}
        self._decisions = []
        # A folder in two collections is one decision.
        for path, folder in {folder.path: folder for folder in self._library.folders if folder.num_gone}.items():
            card = before.pop(path, None)
            if card is None:
                card = self._new_decision(folder)
            else:
                card.show_folder(folder)
            self._decisions.append(card)
        bits.drop(self._decisions_column, before.values())
        _arrange(self._decisions_column, self._decisions)

    def _new_decision(self, folder: Folder) -> DecisionCard:
        card = DecisionCard(folder)
        card.keep_wanted.connect(lambda path: self._library.settle_gone(path, remove=False))
        card.remove_wanted.connect(self._on_remove_gone)
        return card

    def _show_progress(self) -> None:
        library = self._library
        self.progress.show_progress(library.progress, library.fraction, is_held=library.is_held)
        if self._library.progress is not None:
            self._stack.setCurrentWidget(self._filled)

    # --- wishes ---

    def _on_show(self, collection: str) -> None:
        self.documents.show_collection(collection)
        self._scroll.ensureWidgetVisible(self.documents, 0, 0)

    def _on_rename(self, collection: str) -> None:
        others = [one.name for one in self._library.collections if one.name != collection]
        dialog = CollectionNameDialog(collection, others, self)
        dialog.given.connect(lambda name: self._library.rename_collection(collection, name))
        dialog.open()

    def _on_delete(self, collection: str) -> None:
        self._library.count_only_in(collection, lambda num_leaving: self._ask_to_delete(collection, num_leaving))

    def _ask_to_delete(self, collection: str, num_leaving: int) -> None:
        named = next((one for one in self._library.collections if one.name == collection), None)
        if named is None:
            # The collection was removed while its files were counted.
            return
        leaving = self.tr("%1 files are removed from the index and can no longer be found or cited.")
        if num_leaving == 1:
            leaving = self.tr("1 file is removed from the index and can no longer be found or cited.")
        if not num_leaving:
            leaving = self.tr("All its files stay in the index, because they are also in other collections.")
        are_shared = 0 < num_leaving < sum(named.documents_by_state.values())
        ask_first(
            self,
            self.tr("Delete the collection “%1”?").replace("%1", collection),
            joined(
                leaving.replace("%1", count_text(num_leaving)),
                self.tr("The others are also in other collections and stay.") if are_shared else "",
                self.tr("The files themselves stay where they are."),
            ),
            self.tr("Delete"),
            lambda: self._library.delete_collection(collection),
        )

    def _on_help(self, offered: str, paths: list[str]) -> None:
        if offered == "password":
            self._ask_password(paths)
        elif offered == "ocr":
            self._explain_ocr(paths)
        elif offered == "next":
            self._library.prioritise(paths)
        else:
            self._library.reindex(paths)

    def _ask_password(self, paths: list[str]) -> None:
        reasons = {document.path: document.reason for document in self._library.problems}
        dialog = PasswordDialog(paths, reasons.get(paths[0], ""), self)
        dialog.given.connect(lambda password, remember: self._library.unlock(paths, password, remember))
        dialog.open()

    def _explain_ocr(self, paths: list[str]) -> None:
        dialog = OcrDialog(self)
        dialog.retry_wanted.connect(lambda: self._library.reindex(paths))
        dialog.languages_wanted.connect(self.ocr_languages_wanted)
        dialog.open()

    def _on_remove_gone(self, path: str) -> None:
        folder = next((folder for folder in self._library.folders if folder.path == path), None)
        if folder is not None:
            self._ask_to_remove_gone(folder)

    def _ask_to_remove_gone(self, folder: Folder) -> None:
        words = self.tr("Remove %1 files from the index?").replace("%1", count_text(folder.num_gone))
        ask_first(
            self,
            words,
            self.tr("They can no longer be found or cited. If they come back, they are indexed again."),
            self.tr("Remove"),
            lambda: self._library.settle_gone(folder.path, remove=True),
        )

    def _on_remove(self, paths: list[str]) -> None:
        one = self.tr("Remove “%1” from the library?").replace("%1", file_name(paths[0]))
        many = self.tr("Remove %1 files from the library?").replace("%1", count_text(len(paths)))
        of_one = self.tr("Its indexed files can no longer be found or cited.")
        of_many = self.tr("They can no longer be found or cited.")
        stays = self.tr("The files themselves stay where they are.")
        ask_first(
            self,
            one if len(paths) == 1 else many,
            joined(of_one if len(paths) == 1 else of_many, stays),
            self.tr("Remove"),
            lambda: self._library.remove(paths),
        )


def _column() -> tuple[QScrollArea, QVBoxLayout]:
    """Returns a scrolling column and its layout, which ends in a stretch."""
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


def _arrange(layout: QBoxLayout, widgets: Sequence[QWidget]) -> None:
    """Puts the widgets first, in this order; one that is in its place is not touched."""
    for position, widget in enumerate(widgets):
        if layout.indexOf(widget) != position:
            layout.insertWidget(position, widget)
