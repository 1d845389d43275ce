"""What the generation thread does while nobody asks: what was read is written to the disk, then what is hot is read."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.generation.loaded import LoadedModel
from engine.generation.loader import ModelLoader
from engine.generation.under_way import UnderWay

log = logging.getLogger(__name__)

# Nobody has asked anything for so long: what is kept in memory can be written.
IDLE_SECONDS = 2.0
FLUSH_PAUSE_SECONDS = 0.02
SPARE_POWER_SECONDS = 60.0


class IdleTime:
    """On the generation thread. `seconds` are how long to wait for a question before more is done; None: for ever."""

    def __init__(self, loader: ModelLoader, under_way: UnderWay, has_power_to_spare: Callable[[], bool]) -> None:
        """Begins with nothing to do.

        Args:
            loader: Has the model, and the place for what is hot.
            under_way: Knows what is hot, and reads it.
            has_power_to_spare: Whether what nobody has asked for may be computed now (spare_power.py).
        """
        self._loader, self._under_way, self._has_power_to_spare = loader, under_way, has_power_to_spare
        self.seconds: float | None = None

    def note_step(self) -> None:
        """Somebody was answered: more may be asked."""
        self.seconds = IDLE_SECONDS

    def note_change(self) -> None:
        """There may be something to write, or to find, at once."""
        self.seconds = FLUSH_PAUSE_SECONDS

    def use(self) -> None:
        """Does a small portion; call it when there is nothing to compute."""
        if (loaded := self._loader.loaded_now) is None:
            self.seconds = None
            return
        self.seconds = FLUSH_PAUSE_SECONDS
        is_behind = guarded(loaded.flush)
        guarded(self.keep_hot)
        if not is_behind and not guarded(lambda: self._read_hot(loaded)):
            self.seconds = None

    def recall_hot(self) -> None:
        """Takes up what was hot before the last restart."""
        self._under_way.hot.restore(self._loader.hot_passages())

    def keep_hot(self) -> None:
        """What is hot is so after a restart too, and a removed document leaves that file at once."""
        if (uses := self._under_way.hot.changed()) is not None:
            self._loader.keep_hot(uses)

    def _read_hot(self, loaded: LoadedModel) -> bool:
        """Whether there is something hot to read, now or when the machine has power to spare."""
        beginning = self._under_way.next_hot(loaded)
        if beginning is not None and self._has_power_to_spare():
            self._under_way.read_hot(beginning, loaded)
        elif beginning is not None:
            self.seconds = SPARE_POWER_SECONDS
        return beginning is not None


def guarded(work: Callable[[], object]) -> bool:
    """Whether there is more of this work; an unexpected failure of what nobody waits for is logged."""
    try:
        return bool(work())
    except Exception:
        log.exception("what is kept could not be seen to")
        return False
