"""A hub model that is a folder: what it is good for, its progress, and the button to download and use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout

from app.widgets import bits
from app.widgets.download_row import DownloadRow
from app.widgets.figures import bytes_text

if TYPE_CHECKING:
    from engine.protocol import Download, HubFolderEntry

Entry = TypeVar("Entry", bound="HubFolderEntry")


class FolderRow(DownloadRow[Entry]):
    """A row to which each kind adds its own facts. A focused button keeps the focus while the row is updated."""

    delete_wanted = Signal(object)  # the entry

    def __init__(self) -> None:
        super().__init__()
        self._good_for = bits.label("", wraps=True)
        self.delete = bits.button(self.tr("Delete…"), "ghost", clicked=lambda: self.delete_wanted.emit(self.entry))
        foot = bits.row(self._facts, self._progress, self.discard, self.delete, self.action, spacing=12)
        foot.setStretch(0, 1)
        foot.setStretch(1, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 12)
        layout.setSpacing(4)
        layout.addLayout(self._head)
        for widget in (self._good_for, self._problem):
            layout.addWidget(widget)
        layout.addSpacing(4)
        layout.addWidget(self._bar)
        layout.addLayout(foot)

    def show_entry(self, entry: Entry) -> None:
        super().show_entry(entry)
        self._show_what(entry.source, entry.name)
        self._good_for.setText(entry.good_for)
        self._good_for.setVisible(bool(entry.good_for))
        self._facts.setText(" · ".join(fact for fact in self._facts_of(entry) if fact))
        self.delete.setAccessibleName(self.tr("Delete %1").replace("%1", entry.name))
        size = bytes_text(entry.deletable_bytes)
        self.delete.setToolTip(self.tr("Deletes its files and frees %1").replace("%1", size))

    def show_download(self, download: Download, *, is_current: bool) -> None:
        """Shows the progress; `is_current`: the settings name this model."""
        is_there = download.state == "there"
        self._show_progress(download, self.tr("In use") if is_current else self.tr("Here"))
        self._progress.setVisible(bool(self._progress.text()))
        self._facts.setVisible(self._progress.isHidden())
        getting = self.tr("Download and use"), self.tr("Download %1 and use it")
        using = self.tr("Use"), self.tr("Use %1")
        self._show_buttons(download, using if is_there else getting, is_listed=bool(self.entry.licence))
        can_be_deleted = is_there and not is_current and bool(self.entry.deletable_bytes)
        if self.delete.hasFocus() and not can_be_deleted:
            self.setFocus()
        self.delete.setVisible(can_be_deleted)
        is_used = is_there and is_current
        if is_used and self.action.hasFocus():
            self.setFocus()
        self.action.setVisible(not is_used)

    def _facts_of(self, entry: Entry) -> list[str]:
        size = self.tr("about %1").replace("%1", bytes_text(entry.num_bytes))
        return [
            size if entry.num_bytes else "",
            entry.licence,
            *self._more_facts(entry),
            # The source, if nothing else is known.
            "" if entry.licence else entry.source,
        ]

    def _more_facts(self, entry: Entry) -> Sequence[str]:
        """Returns the facts that only this kind has, "" for an unknown one."""
        raise NotImplementedError
