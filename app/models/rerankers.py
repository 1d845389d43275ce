"""Which rerankers can be downloaded, the progress of each, and how the one in use has performed recently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.models.hub_folders import HubFoldersModel, Requests
from engine import protocol
from engine.protocol import RerankerEntry

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class RerankersModel(HubFoldersModel[RerankerEntry]):
    """The reranker in use reads `num_read` passages of a search, 0 until the engine has reported that.

    `seconds` is how long it took the last time, and `problem` why it does not work; "" if it does.
    """

    reading_changed = Signal()  # num_read, seconds, problem

    requests = Requests(
        protocol.RERANKERS,
        get=protocol.RERANKERS_GET,
        cancel=protocol.RERANKERS_CANCEL_GETTING,
        discard=protocol.RERANKERS_DISCARD_PART,
        delete=protocol.RERANKERS_DELETE,
        downloads=protocol.RerankerDownloads,
    )

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(client, parent)
        self.num_read, self.seconds, self.problem = 0, 0.0, ""

    def forget_reading(self) -> None:
        """Resets the times of the previous reranker, because another one is in use."""
        if self.seconds or self.problem:
            self.seconds, self.problem = 0.0, ""
            self.reading_changed.emit()

    def _on_reply(self, reply: protocol.RerankersReply) -> None:
        told = reply.num_read, reply.seconds, reply.problem
        if told != (self.num_read, self.seconds, self.problem):
            self.num_read, self.seconds, self.problem = told
            self.reading_changed.emit()
        self._show(reply.rerankers)

    def _arrived_words(self) -> str:
        return self.tr("%1 is downloaded. It reranks the best passages from the next question on.")
