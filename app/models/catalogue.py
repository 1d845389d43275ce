"""Which models can be got, and how far each is on its way here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import CatalogueEntry, Download, ModelDownloads, Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class CatalogueModel(QObject):
    """`entries` are offered, `others` on their way, as the engine last told of them; `download_of` is newer."""

    catalogue_changed = Signal()  # entries, others
    downloads_changed = Signal()  # download_of
    arrived = Signal()  # a model is here: lists of models should be asked for again
    message_told = Signal(str, str, str)  # severity, a sentence, a way out

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.entries: tuple[CatalogueEntry, ...] = ()
        self.others: tuple[CatalogueEntry, ...] = ()
        self._downloads: dict[str, Download] = {}
        client.became_ready.connect(self._ask_again)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_engine_state)

    def download_of(self, entry: CatalogueEntry) -> Download:
        if (told := self._downloads.get(entry.source)) is not None:
            return told
        listed = (one.download for one in (*self.entries, *self.others) if one.source == entry.source)
        return next(listed, Download(entry.source))

    # --- wishes ---

    def refresh(self) -> None:
        """How models fit may be another since, and files may have come and gone."""
        self._client.request(protocol.MODELS_CATALOGUE, protocol.Nothing(), self._on_catalogue)

    def get(self, source: str) -> None:
        """Fetches a model, from where an earlier try ended."""
        self._client.request(protocol.MODELS_GET, protocol.HubModel(source=source), on_error=self._on_error)

    def cancel(self, source: str) -> None:
        """Stops that; what was fetched is kept."""
        self._client.request(protocol.MODELS_CANCEL_GETTING, protocol.HubModel(source=source), on_error=self._on_error)

    def discard(self, source: str) -> None:
        """Removes what was fetched of a model."""
        wanted = protocol.HubModel(source=source)
        self._client.request(protocol.MODELS_DISCARD_PART, wanted, lambda _: self.refresh(), self._on_error)

    # --- what the engine says ---

    def _ask_again(self) -> None:
        # Nobody has asked before who looked at them.
        if self.entries:
            self.refresh()

    def _on_catalogue(self, reply: protocol.CatalogueReply) -> None:
        # What is told of those under way is newer.
        self._downloads = {source: told for source, told in self._downloads.items() if self._is_under_way(source)}
        if (reply.models, reply.others) != (self.entries, self.others):
            self.entries, self.others = reply.models, reply.others
            self.catalogue_changed.emit()
        self.downloads_changed.emit()

    def _on_notice(self, notice: Notice) -> None:
        if not isinstance(notice, ModelDownloads):
            return
        under_way = [told for told in notice.downloads if told.is_under_way]
        # The others are as they were told when they ended, or as their files lie since.
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
            words = self.tr("%1 is here, and on the list of models.").replace("%1", self._name_of(told.source))
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

    def _on_engine_state(self, state: str) -> None:
        if state in ("restarting", "failed", "stopped") and self._downloads:
            # What came is on the disk; the next engine says how much.
            self._downloads = {}
            self.downloads_changed.emit()

    def _on_error(self, error: WireError) -> None:
        self.message_told.emit("error", error.sentence, error.way_out)
