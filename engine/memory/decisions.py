"""Decisions about memory, in words and with their times: the newest first, and only a limited number."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from engine.core import Tier
from engine.protocol import Decision, DecisionKind

log = logging.getLogger(__name__)
MOST = 30


class Decisions:
    """Written by the threads that decide and that measure; `newest` may be read by any."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._said: deque[Decision] = deque(maxlen=MOST)
        self._lock = threading.Lock()

    def say(self, kind: DecisionKind, sentence: str, tier: Tier | None = None, short: str = "") -> None:
        """Records a decision; the same one twice in a row is one, at its later time."""
        decision = Decision(at=self._wall_clock(), sentence=sentence, kind=kind, tier=tier, short=short)
        with self._lock:
            is_again = bool(self._said) and self._said[0].sentence == sentence
            if is_again:
                self._said.popleft()
            self._said.appendleft(decision)
        if not is_again:
            log.info("%s", sentence)

    @property
    def newest(self) -> tuple[Decision, ...]:
        return tuple(self._said.copy())
