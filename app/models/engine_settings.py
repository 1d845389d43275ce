"""The engine's settings, as the settings page shows and changes them: the engine checks and keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal

from engine import protocol
from engine.protocol import Notice
from engine.wire import WireError

if TYPE_CHECKING:
    from app.engine_client import EngineClient


class EngineSettingsModel(QObject):
    """`value("generation.temperature")` is None until the engine has reported its settings, and for unset ones."""

    settings_changed = Signal()  # values
    request_failed = Signal(str, str)  # a sentence, a way out; the values shown before are valid again
    change_refused = Signal(str)  # a setting that stays as it was

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._tables: dict[str, Any] = {}
        # Changes that the engine has not answered yet.
        self._asked: dict[str, int] = {}
        client.became_ready.connect(self.refresh)
        client.notice_received.connect(self._on_notice)
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
        # Pending changes may differ from what was reported last.
        if value != self.value(name) or name in self._asked:
            self._asked[name] = self._asked.get(name, 0) + 1
            wanted = protocol.SetSettings(changes={name: value})
            self._client.request(
                protocol.SETTINGS_SET,
                wanted,
                lambda reply: self._on_changed(name, reply),
                lambda error: self._on_error(name, error),
            )

    def refresh(self) -> None:
        self._client.request(protocol.SETTINGS_GET, protocol.Nothing(), self._on_settings)

    def _on_notice(self, notice: Notice) -> None:
        # A change that was made here needs no request: its reply contains all settings.
        if isinstance(notice, protocol.SettingsChanged) and not self._asked:
            self.refresh()

    def _on_settings(self, reply: protocol.SettingsReply) -> None:
        self._tables = reply.settings
        self.settings_changed.emit()

    def _on_changed(self, name: str, reply: protocol.SettingsReply) -> None:
        self._note_answered(name)
        self._on_settings(reply)

    def _note_answered(self, name: str) -> None:
        self._asked[name] -= 1
        if not self._asked[name]:
            del self._asked[name]

    def _on_error(self, name: str, error: WireError) -> None:
        self._note_answered(name)
        self.request_failed.emit(error.sentence, error.way_out)
        self.change_refused.emit(name)
        self.settings_changed.emit()
