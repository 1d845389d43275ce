"""Models of the hub that are folders: which can be downloaded, the progress of each, and their use once complete.

Embedding models and rerankers are downloaded alike, each by methods of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from app.models.downloading import DownloadingModel
from engine.protocol import (
    Download,
    EmbedderDownloads,
    HubFolder,
    HubFolderEntry,
    Method,
    Nothing,
    Notice,
    RerankerDownloads,
)

if TYPE_CHECKING:
    from app.engine_client import EngineClient


Entry = TypeVar("Entry", bound=HubFolderEntry)
_Wish = Method[HubFolder, Nothing]


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests for one kind of these models, and the notice of their progress."""

    entries: Method[Nothing, Any]
    get: _Wish
    cancel: _Wish
    discard: _Wish
    delete: _Wish
    downloads: type[EmbedderDownloads] | type[RerankerDownloads]


class HubFoldersModel(DownloadingModel, Generic[Entry]):
    """`entries` as last reported, after a `refresh`; `download_of` and `under_way` are newer."""

    requests: Requests

    entries_changed = Signal()  # entries

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(client, parent)
        self.entries: tuple[Entry, ...] = ()

    def download_of(self, entry: HubFolderEntry) -> Download:
        return self._downloads.get(entry.source, entry.download)

    @property
    def under_way(self) -> Download | None:
        """The download that is running, or else the first that waits."""
        told = sorted(self._downloads.values(), key=lambda one: one.state == "waiting")
        return next((one for one in told if one.is_under_way), None)

    # --- wishes ---

    def refresh(self) -> None:
        self._client.request(self.requests.entries, Nothing(), self._on_reply)

    def get(self, source: str) -> None:
        """Downloads a model, continuing an earlier attempt, and uses it; one that is on the disk is only used."""
        self._wish(self.requests.get, source)

    def cancel(self, source: str) -> None:
        """Stops a download; the part on the disk is kept."""
        self._wish(self.requests.cancel, source)

    def discard(self, source: str) -> None:
        """Removes the partial download of a model."""
        self._wish(self.requests.discard, source)

    def delete(self, source: str) -> None:
        """Deletes the files of a downloaded model that is not in use."""
        self._wish(self.requests.delete, source)

    def _wish(self, method: _Wish, source: str) -> None:
        wanted = HubFolder(source=source)
        self._client.request(method, wanted, lambda _: self.refresh(), self._on_error)

    # --- what the engine reports ---

    def _on_reply(self, reply: Any) -> None:
        """Passes the entries of a reply to `_show`."""
        raise NotImplementedError

    def _arrived_words(self) -> str:
        """The sentence for a finished download, with the name as "%1"."""
        raise NotImplementedError

    def _show(self, entries: tuple[Entry, ...]) -> None:
        # What was reported of running downloads is newer.
        self._downloads = {source: told for source, told in self._downloads.items() if told.is_under_way}
        if entries != self.entries:
            self.entries = entries
            self.entries_changed.emit()
        self.downloads_changed.emit()

    def _on_notice(self, notice: Notice) -> None:
        if not isinstance(notice, self.requests.downloads):
            return
        downloads = notice.downloads
        before, self._downloads = self._downloads, {told.source: told for told in downloads}
        self.downloads_changed.emit()
        for told in downloads:
            was = before.get(told.source)
            if was is not None and was.is_under_way and was.state != told.state:
                self._tell(told)

    def _tell(self, told: Download) -> None:
        if told.state == "there":
            words = self._arrived_words()
            self.message_told.emit("notice", words.replace("%1", told.source.rpartition("/")[2]), "")
            self.arrived.emit()
        elif told.problem:
            self.message_told.emit("notice" if told.state == "cut" else "error", told.problem, told.way_out)
        if not told.is_under_way and self.entries:
            self.refresh()
