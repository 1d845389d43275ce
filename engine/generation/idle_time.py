"""What the generation thread does while idle: it writes kept KV to disk, and then reads what is hot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from engine.generation.hot_passages import HotPassages
from engine.generation.member import Member
from engine.generation.pool import ModelPool

log = logging.getLogger(__name__)

# After this long without a question, KV that is kept in memory can be written.
IDLE_SECONDS = 2.0
FLUSH_PAUSE_SECONDS = 0.02
SPARE_POWER_SECONDS = 60.0


class IdleTime:
    """Uses idle time; on the generation thread. `seconds` is how long to wait for a question first; None: forever."""

    def __init__(self, models: ModelPool, hot: HotPassages, has_power_to_spare: Callable[[], bool]) -> None:
        """Begins with nothing to do.

        Args:
            models: The models whose KV is written, and that read what is hot.
            hot: Counts which passages are hot.
            has_power_to_spare: Returns whether work that no user has asked for may be computed now (spare_power.py).
        """
        self._models, self._hot, self._has_power_to_spare = models, hot, has_power_to_spare
        self.seconds: float | None = None

    def note_step(self) -> None:
        """Delays idle work after a step for a question, since more may follow."""
        self.seconds = IDLE_SECONDS

    def note_change(self) -> None:
        """Makes idle work start at once, because there may be something to write, or to find."""
        self.seconds = FLUSH_PAUSE_SECONDS

    def use(self) -> None:
        """Does a small portion of idle work; called when there is nothing to compute."""
        open_models = [member for member in self._models.members if member.loaded is not None]
        if not open_models:
            self.seconds = None
            return
        self.seconds = FLUSH_PAUSE_SECONDS
        is_behind = False
        for member in open_models:
            is_behind |= member.loaded is not None and guarded(member.loaded.flush)
        guarded(self.keep_hot)
        if not is_behind and not any(guarded(partial(self._read_hot, member)) for member in self._in_use()):
            self.seconds = None

    def recall_hot(self) -> None:
        """Restores what was hot before the last restart."""
        self._hot.restore(self._models.members.home.loader.hot_passages())

    def keep_hot(self) -> None:
        """Saves what is hot for the next start; a removed document leaves that file at once."""
        if (hot := self._hot.changed()) is not None:
            self._models.members.home.loader.keep_hot(hot)

    def _in_use(self) -> tuple[Member, ...]:
        """Returns the models that are probably asked next: the one that was asked last, and the chosen one."""
        return tuple(dict.fromkeys((self._models.front, self._models.principal)))

    def _read_hot(self, member: Member) -> bool:
        """Reads something hot if the machine has power to spare; returns whether there is any, now or later."""
        if member.loaded is None or not member.is_in_memory:
            return False
        beginning = member.under_way.next_hot(member.loaded)
        if beginning is not None and self._has_power_to_spare() and self._models.let_compute_unasked(member):
            member.under_way.read_hot(beginning, member.loaded)
        elif beginning is not None:
            self.seconds = SPARE_POWER_SECONDS
        return beginning is not None


def guarded(work: Callable[[], object]) -> bool:
    """Does background work and returns whether there is more; an unexpected failure is logged."""
    try:
        return bool(work())
    except Exception:
        log.exception("background work of the models failed")
        return False
