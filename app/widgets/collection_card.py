"""A collection as a card: its documents by state, and its folders, each with what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QToolButton, QVBoxLayout, QWidget

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text, file_name, printable
from app.widgets.library_table import STATES, state_name
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import Collection


class CollectionCard(QFrame):
    """Takes a `Collection`; folders may be single files that were dropped."""

    add_wanted = Signal(str)  # collection
    reindex_wanted = Signal(list)  # folders
    remove_wanted = Signal(str)  # folder

    def __init__(self, collection: Collection, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self.collection = collection
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 10, 10, 12)
        layout.setSpacing(4)
        layout.addLayout(self._head())
        for folder in collection.folders:
            layout.addLayout(self._folder_line(folder))

    def _head(self) -> QHBoxLayout:
        collection = self.collection
        line = bits.row(bits.label(collection.name, "strong"), 4, spacing=8)
        for state, (_, _, tone) in STATES.items():
            number = collection.documents_by_state.get(state, 0)
            if number:
                line.addWidget(bits.chip(f"{count_text(number)} {state_name(state).lower()}", tone))
        line.addWidget(
            bits.label(self.tr("%1 chunks").replace("%1", count_text(collection.num_chunks)), "small")
        )  # fmt: skip
        line.addStretch(1)
        more = bits.tool("plus", self.tr("Add to %1").replace("%1", collection.name), self._on_add)
        line.addWidget(more)
        return line

    def _folder_line(self, folder: str) -> QHBoxLayout:
        line = bits.row(Picture("library", "muted", 16), spacing=8)
        line.addWidget(ElidedLabel(printable(folder), "muted"), 1)
        name = file_name(folder)
        more = bits.tool("more", self.tr("More for %1").replace("%1", name), side=16)
        more.clicked.connect(lambda: self._open_menu(folder, more))
        line.addWidget(more)
        return line

    def menu_for(self, folder: str) -> QMenu:
        """What can be done with a folder."""
        menu = QMenu(self)
        menu.addAction(self.tr("Index again"), lambda: self.reindex_wanted.emit([folder]))
        menu.addAction(self.tr("Remove from the library…"), lambda: self.remove_wanted.emit(folder))
        return menu

    def _open_menu(self, folder: str, below: QToolButton) -> None:
        menu = self.menu_for(folder)
        menu.exec(below.mapToGlobal(QPoint(0, below.height())))
        menu.deleteLater()

    def _on_add(self) -> None:
        self.add_wanted.emit(self.collection.name)
