"""Which embedding models can be got, and how far each is on its way here; the engine uses one once it has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import Download, EmbedderDownloads, EmbedderEntry, Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class EmbeddersModel(QObject):
    """`entries` as the engine last told of them, after a `refresh`; `download_of` and `under_way` are newer."""

    entries_changed = Signal()  # entries
    downloads_changed = Signal()  # download_of, under_way
    arrived = Signal()  # a model is here and in use: the engine's settings are others
    message_told = Signal(str, str, str)  # severity, a sentence, a way out

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.entries: tuple[EmbedderEntry, ...] = ()
        self._downloads: dict[str, Download] = {}
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_engine_state)

    def download_of(self, entry: EmbedderEntry) -> Download:
        return self._downloads.get(entry.source, entry.download)

    @property
    def under_way(self) -> Download | None:
        """The one that comes just now, or else the first that waits."""
        told = sorted(self._downloads.values(), key=lambda one: one.state == "waiting")
        return next((one for one in told if one.is_under_way), None)

    # --- wishes ---

    def refresh(self) -> None:
        self._client.request(protocol.EMBEDDERS, protocol.Nothing(), self._on_entries)

    def get(self, source: str) -> None:
        """Fetches a model, from where an earlier try ended, and uses it; one that is here is only used."""
        self._wish(protocol.EMBEDDERS_GET, source)

    def cancel(self, source: str) -> None:
        """Stops that; what was fetched is kept."""
        self._wish(protocol.EMBEDDERS_CANCEL_GETTING, source)

    def discard(self, source: str) -> None:
        """Removes what was fetched of a model."""
        self._wish(protocol.EMBEDDERS_DISCARD_PART, source)

    def delete(self, source: str) -> None:
        """Deletes what was fetched of a model that is not in use."""
        self._wish(protocol.EMBEDDERS_DELETE, source)

    def _wish(self, method: protocol.Method[protocol.HubEmbedder, protocol.Nothing], source: str) -> None:
        wanted = protocol.HubEmbedder(source=source)
        self._client.request(method, wanted, lambda _: self.refresh(), self._on_error)

    # --- what the engine says ---

    def _on_entries(self, reply: protocol.EmbeddersReply) -> None:
        # What is told of those under way is newer.
        self._downloads = {source: told for source, told in self._downloads.items() if told.is_under_way}
        if reply.embedders != self.entries:
            self.entries = reply.embedders
            self.entries_changed.emit()
        self.downloads_changed.emit()

    def _on_notice(self, notice: Notice) -> None:
        if not isinstance(notice, EmbedderDownloads):
            return
        before, self._downloads = self._downloads, {told.source: told for told in notice.downloads}
        self.downloads_changed.emit()
        for told in notice.downloads:
            was = before.get(told.source)
            if was is not None and was.is_under_way and was.state != told.state:
                self._tell(told)

    def _tell(self, told: Download) -> None:
        if told.state == "there":
            words = self.tr("%1 is here. Your files are moved to it in the background.")
            self.message_told.emit("notice", words.replace("%1", told.source.rpartition("/")[2]), "")
            self.arrived.emit()
        elif told.problem:
            self.message_told.emit("notice" if told.state == "cut" else "error", told.problem, told.way_out)
        if not told.is_under_way and self.entries:
            self.refresh()

    def _on_engine_state(self, state: str) -> None:
        if state in ("restarting", "failed", "stopped") and self._downloads:
            # What came is on the disk; the next engine says how much.
            self._downloads = {}
            self.downloads_changed.emit()

    def _on_error(self, error: WireError) -> None:
        self.message_told.emit("error", error.sentence, error.way_out)
