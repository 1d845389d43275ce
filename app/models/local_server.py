"""Whether other applications can ask Ragdoll, and where, as the settings page shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import Notice, ServerState

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class LocalServerModel(QObject):
    """`state` is that of an engine without a server until the engine has reported its own."""

    state_changed = Signal()

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.state = ServerState()
        client.became_ready.connect(self._ask)
        client.notice_received.connect(self._on_notice)
        client.state_changed.connect(self._on_engine_state)
        if client.state == "ready":
            self._ask()

    def _ask(self) -> None:
        self._client.request(protocol.SERVER, protocol.Nothing(), self._show)

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, protocol.ServerChanged):
            self._show(ServerState(address=notice.address, problem=notice.problem))

    def _on_engine_state(self, *_: object) -> None:
        if self._client.state != "ready":
            self._show(ServerState())

    def _show(self, state: ServerState) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit()
