"""Which models can be downloaded, and the progress of each download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.models.downloading import DownloadingModel
from engine import protocol
from engine.protocol import CatalogueEntry, Download, ModelDownloads, Notice

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class CatalogueModel(DownloadingModel):
    """`entries` are offered, `others` are being downloaded, both as last reported; `download_of` is newer."""

    catalogue_changed = Signal()  # entries, others

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(client, parent)
        self.entries: tuple[CatalogueEntry, ...] = ()
        self.others: tuple[CatalogueEntry, ...] = ()
        client.became_ready.connect(self._ask_again)

    def download_of(self, entry: CatalogueEntry) -> Download:
        if (told := self._downloads.get(entry.source)) is not None:
            return told
        listed = (one.download for one in (*self.entries, *self.others) if one.source == entry.source)
        return next(listed, Download(entry.source))

    # --- wishes ---

    def refresh(self) -> None:
        """Asks again: the fit of models may have changed, and files may have come and gone."""
        self._client.request(protocol.MODELS_CATALOGUE, protocol.Nothing(), self._on_catalogue)

    def get(self, source: str) -> None:
        """Downloads a model, continuing an earlier attempt."""
        self._client.request(protocol.MODELS_GET, protocol.HubModel(source=source), on_error=self._on_error)

    def cancel(self, source: str) -> None:
        """Stops a download; the part on the disk is kept."""
        self._client.request(protocol.MODELS_CANCEL_GETTING, protocol.HubModel(source=source), on_error=self._on_error)

    def discard(self, source: str) -> None:
        """Removes the partial download of a model."""
        wanted = protocol.HubModel(source=source)
        self._client.request(protocol.MODELS_DISCARD_PART, wanted, lambda _: self.refresh(), self._on_error)

    # --- what the engine reports ---

    def _ask_again(self) -> None:
        # If no entries were ever requested, the page has not been opened yet.
        if self.entries:
            self.refresh()

    def _on_catalogue(self, reply: protocol.CatalogueReply) -> None:
        # What was reported of running downloads is newer.
        self._downloads = {source: told for source, told in self._downloads.items() if self._is_under_way(source)}
        if (reply.models, reply.others) != (self.entries, self.others):
            self.entries, self.others = reply.models, reply.others
            self.catalogue_changed.emit()
        self.downloads_changed.emit()

    def _on_notice(self, notice: Notice) -> None:
        if not isinstance(notice, ModelDownloads):
            return
        under_way = [told for told in notice.downloads if told.is_under_way]
        # The others keep the state in which they ended, or the state of their files since.
        ended = [told for told in notice.downloads if told not in under_way and self._is_under_way(told.source)]
        listed = {entry.source for entry in (*self.entries, *self.others)}.union(self._downloads)
        is_new = any(told.source not in listed for told in under_way)
        cut = [told for told in under_way if told.state == "cut" and not self._is_cut(told.source)]
        self._downloads = {told.source: told for told in (*under_way, *ended)}
        self.downloads_changed.emit()
        for told in cut:
            self.message_told.emit("notice", told.problem, told.way_out)
        for told in ended:
            self._tell_end(told)
        if ended or is_new:
            self.refresh()

    def _tell_end(self, told: Download) -> None:
        if told.state == "there":
            words = self.tr("%1 is downloaded and on the list of models.").replace("%1", self._name_of(told.source))
            self.message_told.emit("notice", words, "")
            self.arrived.emit()
        elif told.problem:
            self.message_told.emit("error", told.problem, told.way_out)

    def _is_under_way(self, source: str) -> bool:
        return source in self._downloads and self._downloads[source].is_under_way

    def _is_cut(self, source: str) -> bool:
        return source in self._downloads and self._downloads[source].state == "cut"

    def _name_of(self, source: str) -> str:
        names = (entry.model.name for entry in self.entries if entry.source == source)
        return next(names, source.rpartition("/")[2])
