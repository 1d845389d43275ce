"""The engine's settings, as the settings page shows and changes them: the engine checks and keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class EngineSettingsModel(QObject):
    """`value("generation.temperature")` is None until the engine has told its settings, and for unset ones."""

    settings_changed = Signal()  # values
    request_failed = Signal(str, str)  # a sentence, a way out; what was shown before is true again

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._tables: dict[str, Any] = {}
        client.became_ready.connect(self.refresh)
        if client.state == "ready":
            self.refresh()

    @property
    def is_known(self) -> bool:
        return bool(self._tables)

    def has(self, name: str) -> bool:
        """Whether this engine knows a setting of that name; also when it is unset."""
        table, _, key = name.partition(".")
        return key in self._tables.get(table, {})

    def value(self, name: str) -> Any:
        """A setting by dotted name."""
        table, _, key = name.partition(".")
        return self._tables.get(table, {}).get(key)

    def change(self, name: str, value: object) -> None:
        """Asks the engine to change one setting; it refuses what is out of range."""
        if value != self.value(name):
            wanted = protocol.SetSettings(changes={name: value})
            self._client.request(protocol.SETTINGS_SET, wanted, self._on_settings, self._on_error)

    def refresh(self) -> None:
        self._client.request(protocol.SETTINGS_GET, protocol.Nothing(), self._on_settings)

    def _on_settings(self, reply: protocol.SettingsReply) -> None:
        self._tables = reply.settings
        self.settings_changed.emit()

    def _on_error(self, error: WireError) -> None:
        self.request_failed.emit(error.sentence, error.way_out)
        self.settings_changed.emit()
