"""Marks the window in the task bar when something has ended that the user waits for in another window.

An answer of a large model takes minutes, a question to every file hours: the user does not watch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication, QWidget

if TYPE_CHECKING:
    from app.models import AppModels, TurnView


class Attention(QObject):
    """Listens once models are attached."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._models: AppModels | None = None
        self._is_running = False

    def attach(self, models: AppModels) -> None:
        self._models = models
        models.answering.turn_changed.connect(self._on_turn_changed)
        models.each_file.run_changed.connect(self._on_run_changed)

    def _on_turn_changed(self, view: TurnView) -> None:
        # A stopped answer was stopped by a user who is present.
        if view.state in ("finished", "failed"):
            self._call()

    def _on_run_changed(self) -> None:
        assert self._models is not None
        # Shown or not: a user who looks at another question waits for this one as well.
        was_running, self._is_running = self._is_running, self._models.each_file.asked is not None
        if was_running and not self._is_running:
            self._call()

    def _call(self) -> None:
        if not self._window.isActiveWindow():
            QApplication.alert(self._window)
