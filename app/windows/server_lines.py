"""What to enter in another application so that it asks Ragdoll: the address and the key, each with a copy button."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QWidget

from app.sentences import joined
from app.widgets import bits
from app.widgets.elided import ElidedLabel
from app.windows.questions import ask_first
from engine.protocol import ServerState

if TYPE_CHECKING:
    from app.models.engine_settings import EngineSettingsModel
    from app.models.local_server import LocalServerModel

_KEY = "server.key"


class ServerLines(QWidget):
    """Shows a LocalServerModel; hidden while the local server is off."""

    def __init__(self, server: LocalServerModel, settings: EngineSettingsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._server, self._settings = server, settings
        self.problem = bits.label("", "problem", wraps=True)
        self.address = ElidedLabel()
        self.key = ElidedLabel()
        self.copy_address = bits.tool("copy", self.tr("Copy the address"), lambda: _copy(self.address))
        self.copy_key = bits.tool("copy", self.tr("Copy the key"), lambda: _copy(self.key))
        self.new_key = bits.button(self.tr("Create a new key"), "link", clicked=self._on_new_key)
        words = self.tr(
            "Applications that support the OpenAI API can connect here. A model's name alone answers from general "
            "knowledge, with “:files” after it from your files; “ragdoll” is the model that is chosen here."
        )
        self._address_line = self._line(self.tr("Address"), self.address, self.copy_address)
        self._key_line = self._line(self.tr("Key"), self.key, self.copy_key, self.new_key)
        layout = bits.column(self.problem, self._address_line, self._key_line, spacing=8)
        vectors = self.tr("The embedding model is listed as well, for applications that request embeddings.")
        self._words = bits.label(joined(words, vectors), "small", wraps=True)
        layout.addWidget(self._words)
        layout.setContentsMargins(0, 0, 0, 0)
        self.setLayout(layout)
        server.state_changed.connect(self._show)
        settings.settings_changed.connect(self._show)
        self._show()

    def _line(self, name: str, value: QLabel, *buttons: QWidget) -> QWidget:
        card = bits.card("soft")
        line = bits.row(bits.label(name, "small"), value, *reversed(buttons))
        line.setStretch(1, 1)
        line.setContentsMargins(14, 6, 6, 6)
        card.setLayout(line)
        return card

    def _show(self) -> None:
        state, key = self._server.state, str(self._settings.value(_KEY) or "")
        needs_key = bool(self._settings.value("server.needs_key"))
        again = self.tr("Ragdoll tries again every few seconds.")
        self.problem.setText(joined(state.problem, again if state.problem else ""))
        self.address.setText(state.address)
        self.address.setAccessibleName(self.tr("Address: %1").replace("%1", state.address))
        self.key.setText(key)
        self.key.setAccessibleName(self.tr("Key: %1").replace("%1", key))
        self.problem.setVisible(bool(state.problem))
        self._address_line.setVisible(bool(state.address))
        self._words.setVisible(bool(state.address))
        self._key_line.setVisible(bool(state.address and needs_key and key))
        self.setVisible(state != ServerState())

    def _on_new_key(self) -> None:
        """Clears the key after a question; the engine then creates a new one."""
        ask_first(
            self,
            self.tr("Create a new key?"),
            self.tr("Applications with the current key lose access until you give them the new one."),
            self.tr("Create a new key"),
            lambda: self._settings.change(_KEY, ""),
        )


def _copy(label: QLabel) -> None:
    QGuiApplication.clipboard().setText(label.text())
