"""One line for a linked folder, or single files of one: how many files, and whether it is watched or unreachable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from app.printable import printable
from app.sentences import joined
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text, file_name
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from app.models.linked import Linked
    from engine.protocol import Folder


class FolderLine(QWidget):
    """Shows what is linked, and its state."""

    reindex_wanted = Signal(object)  # paths
    remove_wanted = Signal(object)  # paths

    def __init__(self, linked: Linked, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.linked = linked
        folder = linked.folder
        layout = bits.column(spacing=0)
        layout.addLayout(self._first_line())
        if folder is not None and folder.absence:
            layout.addLayout(self._absence_line(folder))
        self.setLayout(layout)
        # Only once the label has a parent; shown before, it would be a window.
        self._show_facts()

    @property
    def path(self) -> str:
        return self.linked.path

    def show_linked(self, linked: Linked) -> bool:
        """Shows the present state; returns False if a new line is needed: a folder came into or out of reach."""
        folder = linked.folder
        is_away, was_away = (one is not None and bool(one.absence) for one in (folder, self.linked.folder))
        if is_away != was_away or (linked.path, bool(linked.files)) != (self.path, bool(self.linked.files)):
            return False
        self.linked = linked
        self._show_facts()
        if folder is not None and is_away:
            self._show_absence(folder)
        return True

    @property
    def facts(self) -> str:
        """Returns `600 files · watched`; "" until the engine has reported."""
        folder = self.linked.folder
        if folder is None:
            return ""
        if self.linked.files:
            files = self.tr("%1 single files").replace("%1", count_text(len(self.linked.files)))
        elif folder.num_documents == 1:
            files = self.tr("1 file")
        else:
            files = self.tr("%1 files").replace("%1", count_text(folder.num_documents))
        if folder.absence:
            return files
        return f"{files} · {self.tr('watched') if folder.is_watched else self.tr('checked periodically')}"

    @property
    def absence_sentence(self) -> str:
        """Returns why it cannot be reached, and that its index is kept; "" if it is in reach."""
        folder = self.linked.folder
        if folder is None or not folder.absence:
            return ""
        if not folder.num_documents:
            return folder.absence
        return joined(folder.absence, self.tr("Its indexed files can still be searched."))

    def menu(self) -> QMenu:
        """Returns the menu of the line."""
        menu = QMenu(self)
        menu.addAction(self.tr("Index again"), lambda: self.reindex_wanted.emit([*self.linked.paths]))
        menu.addAction(self.tr("Remove from the library…"), lambda: self.remove_wanted.emit([*self.linked.paths]))
        return menu

    def _first_line(self) -> QHBoxLayout:
        is_away = self.linked.folder is not None and bool(self.linked.folder.absence)
        line = bits.row(Picture("library", "faint" if is_away else "muted", 16), spacing=8)
        line.addWidget(ElidedLabel(printable(self.path), "muted"), 1)
        if is_away:
            line.addWidget(bits.chip(self.tr("offline"), "warn"))
        self._facts = bits.label("", "small")
        line.addWidget(self._facts)
        self._more = bits.tool("more", self.tr("More for %1").replace("%1", file_name(self.path)), self._open_menu, 16)
        line.addWidget(self._more)
        return line

    def _absence_line(self, folder: Folder) -> QHBoxLayout:
        line = bits.row(24, spacing=0)
        self._absence = bits.label("", "small", wraps=True, selectable=True)
        self._show_absence(folder)
        line.addWidget(self._absence, 1)
        return line

    def _show_facts(self) -> None:
        self._facts.setText(self.facts)
        self._facts.setVisible(bool(self.facts))

    def _show_absence(self, folder: Folder) -> None:
        self._absence.setText(self.absence_sentence)
        self._absence.setAccessibleName(f"{file_name(folder.path)}: {self.absence_sentence}")

    def _open_menu(self) -> None:
        menu = self.menu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.aboutToHide.connect(lambda: bits.unhover(self._more))
        # `popup` instead of `exec`, because the line may be deleted, with the menu, while it is open.
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))
