"""Models on this computer that other applications have downloaded; the engine looks for them on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import FoundModel, FoundModels
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class FoundModelsModel(QObject):
    """`models` is None until the engine has looked; `problem` says why it could not."""

    found_changed = Signal()  # models, problem

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.models: tuple[FoundModel, ...] | None = None
        self.problem = ""

    def look(self) -> None:
        self.models, self.problem = None, ""
        self._client.request(protocol.MODELS_ELSEWHERE, protocol.Nothing(), self._on_found, self._on_error)
        self.found_changed.emit()

    def _on_found(self, reply: FoundModels) -> None:
        self.models = reply.models
        self.found_changed.emit()

    def _on_error(self, error: WireError) -> None:
        self.problem = f"{error.sentence} {error.way_out}".strip()
        self.found_changed.emit()
