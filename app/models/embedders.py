"""Which embedding models can be downloaded, and the progress of each; the engine uses one once it is complete."""

from __future__ import annotations

from app.models.hub_folders import HubFoldersModel, Requests
from engine import protocol
from engine.protocol import EmbedderEntry


class EmbeddersModel(HubFoldersModel[EmbedderEntry]):
    """The library moves to a model as soon as its download is complete."""

    requests = Requests(
        protocol.EMBEDDERS,
        get=protocol.EMBEDDERS_GET,
        cancel=protocol.EMBEDDERS_CANCEL_GETTING,
        discard=protocol.EMBEDDERS_DISCARD_PART,
        delete=protocol.EMBEDDERS_DELETE,
        downloads=protocol.EmbedderDownloads,
    )

    def _on_reply(self, reply: protocol.EmbeddersReply) -> None:
        self._show(reply.embedders)

    def _arrived_words(self) -> str:
        return self.tr("%1 is downloaded. Your files are being re-indexed in the background.")
