"""Larger and smaller text by keys, as in a browser: in visible steps, within the limits of the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

if TYPE_CHECKING:
    from app.settings import SettingsStore

LEAST_PERCENT, MOST_PERCENT = 70, 250
STEP_PERCENT = 10
# Each size lays out the whole window again, which may take a second: a held key results in one layout.
_SETTLE_MS = 120


class TextSize(QObject):
    """Changes the size in the settings; `store` is None until the settings are loaded."""

    def __init__(self, store: Callable[[], SettingsStore | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._wanted: float | None = None
        self._settling = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._settling.timeout.connect(self._apply)

    def step(self, steps: int) -> None:
        if (store := self._store()) is not None:
            self._want(stepped(self._wanted or store.settings.font_scale, steps))

    def reset(self) -> None:
        self._want(1.0)

    def _want(self, scale: float) -> None:
        self._wanted = scale
        self._settling.start()

    def _apply(self) -> None:
        wanted, self._wanted = self._wanted, None
        if wanted is not None and (store := self._store()) is not None:
            store.change(font_scale=wanted)


def stepped(scale: float, steps: int) -> float:
    """Returns the factor of all text sizes that is `steps` whole steps above `scale` (below it if negative)."""
    percent = round(scale * 100)
    # From between two steps, the first step goes to the nearest one in that direction.
    start = percent // STEP_PERCENT if steps > 0 else -(-percent // STEP_PERCENT)
    return min(MOST_PERCENT, max(LEAST_PERCENT, (start + steps) * STEP_PERCENT)) / 100
