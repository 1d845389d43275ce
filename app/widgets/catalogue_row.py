"""One model that can be downloaded: what it is, how it would run here, its progress, and the button."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import theme
from app.widgets import bits
from app.widgets.download_row import DownloadRow
from app.widgets.figures import bytes_text, count_text
from app.widgets.model_row import speed_chips

if TYPE_CHECKING:
    from engine.protocol import CatalogueEntry, Download


class CatalogueRow(DownloadRow["CatalogueEntry"]):
    """Shows one entry; the progress of its download is updated in place, many times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: object = None
        self._speeds = QWidget()
        self._speeds_line = bits.row(None, spacing=6)
        self._speeds_line.setContentsMargins(0, 4, 0, 2)
        self._speeds.setLayout(self._speeds_line)
        self._fit = bits.label("", wraps=True)
        line = bits.row(self._progress, self.discard, self.action, spacing=12)
        line.setContentsMargins(0, 6, 0, 0)
        line.setStretch(0, 1)
        self._foot = QWidget()
        self._foot.setLayout(line)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 12, 12, 12)
        layout.setSpacing(4)
        layout.addLayout(self._head)
        for widget in (self._facts, self._speeds, self._fit, self._problem):
            layout.addWidget(widget)
        layout.addSpacing(4)
        layout.addWidget(self._bar)
        layout.addWidget(self._foot)

    @property
    def can_be_got(self) -> bool:
        return not self._foot.isHidden()

    def show_entry(self, entry: CatalogueEntry) -> None:
        super().show_entry(entry)
        model = entry.model
        self._show_what(entry.source, model.name)
        self._facts.setText(" · ".join(fact for fact in self._facts_of(entry) if fact))
        self._show_speeds()
        self._fit.setText(model.fit.replace("/", "/\u2060"))
        self._fit.setVisible(bool(model.fit))
        theme.restyle(self._fit, role="plain" if model.fits else "problem")

    def show_download(self, download: Download) -> None:
        """Shows the progress."""
        if (download, self.entry.model.name) == self._shown:
            return
        self._shown = (download, self.entry.model.name)
        self._show_progress(download, self.tr("On your list"))
        self._show_buttons(download, (self.tr("Download"), self.tr("Download %1")), is_listed=self.entry.is_estimate)
        is_there = download.state == "there"
        if is_there and self.action.hasFocus():
            self.setFocus()
        self._foot.setVisible(not is_there)

    def _facts_of(self, entry: CatalogueEntry) -> list[str]:
        model, size = entry.model, bytes_text(entry.model.file_bytes)
        context = self.tr("context of %1 tokens").replace("%1", count_text(model.trained_context))
        return [
            (self.tr("about %1").replace("%1", size) if entry.is_estimate else size) if model.file_bytes else "",
            # The source, if nothing else is known.
            entry.licence or entry.source.rpartition("/")[0],
            context if model.trained_context else "",
        ]

    def _show_speeds(self) -> None:
        old = [child for child in self._speeds.children() if isinstance(child, QWidget)]
        bits.drop(self._speeds_line, old)
        chips = speed_chips(self.entry.model)
        for place, (text, tone) in enumerate(chips):
            self._speeds_line.insertWidget(place, bits.chip(text, tone))
        self._speeds.setVisible(bool(chips))
