"""The manner of the open chat: a button that shows whether it overrides the settings, and opens the dialog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app import theme
from app.models.engine_settings import EngineSettingsModel
from app.widgets import bits
from engine.protocol import Manner

if TYPE_CHECKING:
    from PySide6.QtWidgets import QToolButton

    from app.models import AppModels
    from app.windows.manner_dialog import MannerDialog


class MannerChoice(QObject):
    """Synchronises a button with the manner of the open chat."""

    def __init__(self, button: QToolButton, models: AppModels) -> None:
        super().__init__(button)
        self._button, self._models = button, models
        # Outlives each dialog, because replies may arrive after a dialog was closed.
        self._settings: EngineSettingsModel | None = None
        button.clicked.connect(self.open)
        models.conversation.manner_changed.connect(self._show)
        models.presets.changed.connect(self._show)
        self._show()

    def open(self) -> MannerDialog:
        from app.windows.manner_dialog import MannerDialog

        if self._settings is None:
            self._settings = EngineSettingsModel(self._models.client, self)
        else:
            # They may have been changed since.
            self._settings.refresh()
        known = (self._models.conversation, self._models.presets, self._settings)
        dialog = MannerDialog(*known, self._button.window())
        dialog.finished.connect(self._on_closed)
        dialog.open()
        return dialog

    def _on_closed(self) -> None:
        bits.unhover(self._button)

    def _show(self) -> None:
        lines = self._lines()
        name = self.tr("Instructions and settings of this chat: %1")
        bits.rename(self._button, name.replace("%1", "\n".join(lines) if lines else self.tr("as in the settings")))
        theme.dress(self._button, "manner-own" if lines else "manner", "accent" if lines else "muted")

    def _lines(self) -> tuple[str, ...]:
        """Returns the chat's own values, below the name of the preset with the same values."""
        manner = self._models.conversation.manner
        if manner == Manner():
            return ()
        # Imported only when needed, not at the start.
        from app.windows.manner_rows import words_of

        preset = self._models.presets.same_as(manner)
        return (*((preset.name,) if preset is not None else ()), *words_of(manner))
