"""What all lists of models to download have in common: how far each download is, and what is reported of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine.protocol import Download, Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class DownloadingModel(QObject):
    """Keeps the engine's last report of each download, by source; a subclass takes the notices."""

    downloads_changed = Signal()
    arrived = Signal()  # a model is on the disk now
    message_told = Signal(str, str, str)  # severity, a sentence, a way out

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._downloads: dict[str, Download] = {}
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_engine_state)

    def _on_notice(self, notice: Notice) -> None:
        raise NotImplementedError

    def _on_engine_state(self, state: str) -> None:
        if state in ("restarting", "failed", "stopped") and self._downloads:
            # What was downloaded is on the disk; the next engine reports how much.
            self._downloads = {}
            self.downloads_changed.emit()

    def _on_error(self, error: WireError) -> None:
        self.message_told.emit("error", error.sentence, error.way_out)
