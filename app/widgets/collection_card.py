"""A collection as a card: its documents by state, and its folders, each with its state and actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QFrame, QMenu, QVBoxLayout, QWidget

from app.models.linked import linked_of
from app.widgets import bits
from app.widgets.figures import count_text
from app.widgets.flow import FlowLayout
from app.widgets.folder_line import FolderLine
from app.widgets.library_table import STATES, state_name

if TYPE_CHECKING:
    from engine.protocol import Collection, Folder


class CollectionCard(QFrame):
    """Shows a `Collection` and what is known of its folders; folders may be single files that were dropped.

    Many files of one folder are one line.
    """

    add_wanted = Signal(str)  # collection
    show_wanted = Signal(str)  # collection, whose files are to be listed
    rename_wanted = Signal(str)  # collection
    delete_wanted = Signal(str)  # collection
    reindex_wanted = Signal(object)  # paths
    remove_wanted = Signal(object)  # paths

    def __init__(self, collection: Collection, folders: Sequence[Folder] = (), parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("card", True)
        self.collection = collection
        self.lines: tuple[FolderLine, ...] = ()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(16, 10, 10, 12)
        self._column.setSpacing(4)
        self._column.addWidget(self._head())
        self.show_collection(collection, folders)

    def show_collection(self, collection: Collection, folders: Sequence[Folder]) -> None:
        """Shows the present state of the same collection; widgets stay, with open menus and the focus."""
        self.collection = collection
        self._show_states()
        linked = linked_of(collection, folders)
        is_same = len(self.lines) == len(linked)
        if is_same and all(line.show_linked(one) for line, one in zip(self.lines, linked, strict=True)):
            return
        bits.drop(self._column, self.lines)
        self.lines = tuple(FolderLine(one) for one in linked)
        for line in self.lines:
            line.reindex_wanted.connect(self.reindex_wanted)
            line.remove_wanted.connect(self.remove_wanted)
            self._column.addWidget(line)

    def menu(self) -> QMenu:
        """Returns the menu of the collection."""
        menu, name = QMenu(self), self.collection.name
        menu.addAction(self.tr("Show its files"), lambda: self.show_wanted.emit(name))
        menu.addAction(self.tr("Add a folder…"), lambda: self.add_wanted.emit(name))
        menu.addSeparator()
        menu.addAction(self.tr("Rename…"), lambda: self.rename_wanted.emit(name))
        menu.addAction(self.tr("Delete the collection…"), lambda: self.delete_wanted.emit(name))
        return menu

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self._open_menu(event.globalPos())

    def height_for(self, width_px: int) -> int:
        """Returns the height of the card at a width."""
        layout = self.layout()
        # A size hint assumes that wrapping text is narrower, and so higher, than it is here.
        return layout.heightForWidth(width_px) if layout is not None else self.sizeHint().height()

    def _head(self) -> QWidget:
        name, states, head = self.collection.name, QWidget(), QWidget()
        self._flow = FlowLayout(states, spacing=8)
        self._flow.addWidget(bits.label(name, "strong"))
        self._states = {state: bits.chip("", tone) for state, (_, _, tone) in STATES.items()}
        self._chunks = bits.label("", "small")
        for part in (*self._states.values(), self._chunks):
            self._flow.addWidget(part)
        line = bits.row(spacing=8)
        line.addWidget(states, 1, Qt.AlignmentFlag.AlignVCenter)
        line.addWidget(bits.tool("plus", self.tr("Add to %1").replace("%1", name), self._on_add))
        self._more = bits.tool("more", self.tr("More for %1").replace("%1", name), self._on_more)
        line.addWidget(self._more)
        head.setLayout(line)
        return head

    def _show_states(self) -> None:
        collection = self.collection
        for state, chip in self._states.items():
            number = collection.documents_by_state.get(state, 0)
            chip.setText(f"{count_text(number)} {state_name(state).lower()}")
            chip.setVisible(bool(number))
        words = self.tr("1 chunk") if collection.num_chunks == 1 else self.tr("%1 chunks")
        self._chunks.setText(words.replace("%1", count_text(collection.num_chunks)))
        self._flow.invalidate()

    def _on_more(self) -> None:
        self._open_menu(self._more.mapToGlobal(QPoint(0, self._more.height())))

    def _open_menu(self, where: QPoint) -> None:
        menu = self.menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.aboutToHide.connect(lambda: bits.unhover(self._more))
        # `popup` instead of `exec`, because the card may be deleted, with the menu, while it is open.
        menu.popup(where)

    def _on_add(self) -> None:
        self.add_wanted.emit(self.collection.name)
