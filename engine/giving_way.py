"""Giving way: while a user waits for an answer, documents are embedded in a small share of the time.

The threads of a pass wait for each other some hundred times in it, so one whose core is busy delays all: alongside
files that were being indexed, a question to a 1B model on two cores began to be answered after 24 s instead of 4, and a
token took three times as long. With a low priority, a question's own embedding would wait together with the documents.
One busy core does as much harm as all of them, so documents get all of theirs for a moment, and then rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.memory.placement import Placement

# Where answers are computed; and where they wait for layers from a disk, so that cores are idle.
SHARE_BESIDE_COMPUTING, SHARE_BESIDE_STREAMING = 1 / 6, 1 / 2
# A batch that was delayed says little about how long to rest.
MOST_REST_SECONDS = 10.0
# How often a resting thread checks whether a user still waits.
_LOOK_SECONDS = 0.05


class GivingWay:
    """Shared by all threads that embed documents; `share` returns the share of the time that they may take now."""

    def __init__(
        self,
        share: Callable[[], float] = lambda: 1.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._share, self._clock, self._sleep = share, clock, sleep
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._worked, self._looked_at = 0.0, clock()

    @property
    def is_free(self) -> bool:
        """Whether no user waits, so that work larger than a batch may be done as well."""
        return self._share() >= 1

    def working_seconds(self) -> float:
        """Returns seconds for embedding rates and ETAs, which pass at the speed that documents are allowed.

        The present speed counts for the whole time since the last call, so call it often.
        """
        with self._lock:
            now = self._clock()
            self._worked += (now - self._looked_at) * min(1.0, self._share())
            self._looked_at = now
            return self._worked

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Surrounds the computation of one batch: first waits until the rest after the last one is over."""
        while not self.is_free and self._clock() < self._free_at:
            self._sleep(_LOOK_SECONDS)
        begun = self._clock()
        try:
            yield
        finally:
            ended = self._clock()
            with self._lock:
                self._free_at = max(self._free_at, ended + rest_seconds(ended - begun, self._share()))


def share_beside(placement: Placement | None) -> float:
    """Returns the share of time for documents while a model with this placement answers; None: none is loaded yet."""
    if placement is None:
        return SHARE_BESIDE_COMPUTING
    if placement.embedder_on_gpu or placement.layers_on_gpu == placement.num_layers:
        # At least one of the two does not need the cores.
        return 1.0
    return SHARE_BESIDE_STREAMING if placement.streamed_layers else SHARE_BESIDE_COMPUTING


def rest_seconds(computed_seconds: float, share: float) -> float:
    """Returns how long to rest after computing, so that no more than `share` of the time is computed."""
    return min(MOST_REST_SECONDS, computed_seconds * (1 / share - 1))
