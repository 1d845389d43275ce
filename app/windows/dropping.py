"""Dropping: what is dragged over the window, what a drop there would do, and where it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QWidget

from app.widgets.drop_overlay import DropOverlay, dropped_paths, is_model, models_among

if TYPE_CHECKING:
    from PySide6.QtGui import QDragEnterEvent, QDragMoveEvent, QDropEvent

    from app.windows.main_window import MainWindow


class Dropping(QObject):
    """Handles drags and drops anywhere on a window, and covers `body` while something is dragged."""

    def __init__(self, window: MainWindow, body: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.overlay = DropOverlay(body)

    def offer(self, event: QDragEnterEvent | QDragMoveEvent) -> None:
        """Shows what a drop here would do."""
        self.overlay.offer(event, self._window.adding.collection, attaches=self._is_for_chat(event))

    def leave(self) -> None:
        self.overlay.hide()

    def take(self, event: QDropEvent) -> None:
        """Attaches a drop over the open chat, adds one elsewhere, and opens models."""
        self.overlay.hide()
        paths = dropped_paths(event)
        if paths:
            event.setDropAction(Qt.DropAction.CopyAction)
            event.accept()
            if self._window.attaching is not None and self._is_for_chat(event):
                self._window.attaching.take(paths)
            else:
                self._window.adding.add(tuple(path for path in paths if not is_model(path)))
                self._window.adding.add_models(models_among(paths))

    def _is_for_chat(self, event: QDropEvent) -> bool:
        """Returns whether the drag is over the page of the open chat, whose next questions would be about the files."""
        chat = self._window.chat
        where = chat.mapFrom(self._window, event.position().toPoint())
        return chat.isVisible() and chat.has_prompt and chat.rect().contains(where)
