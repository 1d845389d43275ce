"""One linked folder in a line: where it lies, how many files it has, whether it is watched or out of reach, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.widgets.figures import count_text, file_name, printable
from app.widgets.picture import Picture

if TYPE_CHECKING:
    from engine.protocol import Folder


class FolderLine(QWidget):
    """Takes a path, and what the engine has told of it; None while it has told nothing."""

    reindex_wanted = Signal(list)  # paths
    remove_wanted = Signal(str)  # path

    def __init__(self, path: str, folder: Folder | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.path, self.folder = path, folder
        layout = bits.column(spacing=0)
        layout.addLayout(self._first_line())
        if folder is not None and folder.absence:
            layout.addLayout(self._absence_line(folder))
        self.setLayout(layout)

    @property
    def facts(self) -> str:
        """`600 files · watched`; "" while the engine has told nothing."""
        folder = self.folder
        if folder is None:
            return ""
        files = (
            self.tr("1 file")
            if folder.num_documents == 1
            else self.tr("%1 files").replace("%1", count_text(folder.num_documents))
        )
        if folder.absence:
            return files
        return f"{files} · {self.tr('watched') if folder.is_watched else self.tr('checked from time to time')}"

    @property
    def absence_sentence(self) -> str:
        """Why it is out of reach, and that this costs nothing; "" when it is in reach."""
        folder = self.folder
        if folder is None or not folder.absence:
            return ""
        if not folder.num_documents:
            return folder.absence
        still = self.tr("What was indexed of it still answers.")
        return f"{folder.absence} {still}"

    def menu(self) -> QMenu:
        """What can be done with the folder."""
        menu = QMenu(self)
        menu.addAction(self.tr("Index again"), lambda: self.reindex_wanted.emit([self.path]))
        menu.addAction(self.tr("Remove from the library…"), lambda: self.remove_wanted.emit(self.path))
        return menu

    def _first_line(self) -> QHBoxLayout:
        is_away = self.folder is not None and bool(self.folder.absence)
        line = bits.row(Picture("library", "faint" if is_away else "muted", 16), spacing=8)
        line.addWidget(ElidedLabel(printable(self.path), "muted"), 1)
        if is_away:
            line.addWidget(bits.chip(self.tr("offline"), "warn"))
        if self.facts:
            line.addWidget(bits.label(self.facts, "small"))
        self._more = bits.tool("more", self.tr("More for %1").replace("%1", file_name(self.path)), self._open_menu, 16)
        line.addWidget(self._more)
        return line

    def _absence_line(self, folder: Folder) -> QHBoxLayout:
        line = bits.row(24, spacing=0)
        sentence = bits.label(self.absence_sentence, "small", wraps=True, selectable=True)
        sentence.setAccessibleName(f"{file_name(folder.path)}: {self.absence_sentence}")
        line.addWidget(sentence, 1)
        return line

    def _open_menu(self) -> None:
        menu = self.menu()
        menu.aboutToHide.connect(lambda: bits.unhover(self._more))
        menu.exec(self._more.mapToGlobal(QPoint(0, self._more.height())))
        menu.deleteLater()
