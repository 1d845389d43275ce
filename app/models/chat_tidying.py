"""Fills the search index of the chats and clears what was deleted, in steps, so that the window does not freeze."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from engine.protocol import RagdollError

if TYPE_CHECKING:
    from app.chats import ChatStore

log = logging.getLogger(__name__)
# A step takes some milliseconds; between steps, the window handles input.
_STEP_MS = 100


class ChatTidying(QObject):
    """Runs from construction or `begin` until nothing is left to do or it is stopped.

    The next start of Ragdoll continues.
    """

    def __init__(self, store: ChatStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._timer = QTimer(self, interval=_STEP_MS)
        self._timer.timeout.connect(self._on_due)
        self.begin()

    def begin(self) -> None:
        """Starts again, because there may be something to do."""
        self._timer.start()

    @property
    def is_active(self) -> bool:
        return self._timer.isActive()

    def stop(self) -> None:
        """Stops, before the store is closed."""
        self._timer.stop()

    def _on_due(self) -> None:
        try:
            has_more = self._store.tidy_some()
        except RagdollError as error:
            log.warning("the chats are tidied another time: %s", error)
            has_more = False
        if not has_more:
            self.stop()
