"""Giving way: while somebody waits for an answer, documents are embedded in a small share of the time.

The threads of a pass wait for each other some hundred times in it, so one whose core is taken holds up all: beside
files that were being indexed, a question to a 1B model on two cores began to be answered after 24 s instead of 4, and a
token took three times as long. A low priority would not do: a question's own embedding would wait with the documents.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.memory.placement import Placement

# Of one core, where answers are computed; where they wait for layers from a disk, cores are idle.
SHARE_BESIDE_COMPUTING, SHARE_BESIDE_STREAMING = 1 / 6, 1 / 2
# A batch that something held up says little of how long to rest.
MOST_REST_SECONDS = 3.0
# Whoever rests looks so often whether somebody still waits.
_LOOK_SECONDS = 0.05


class GivingWay:
    """One for all threads that embed documents; `share` says what they may take of the time now, 1 for all of it."""

    def __init__(self, share: Callable[[], float] = lambda: 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._share, self._clock = share, clock
        self._changed = threading.Condition()
        self._num_inside, self._free_at = 0, 0.0

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Around the computing of one batch: waits for its turn first. Below a share of 1, one batch goes at a time."""
        with self._changed:
            while not self._may_begin():
                self._changed.wait(_LOOK_SECONDS)
            self._num_inside += 1
        begun = self._clock()
        try:
            yield
        finally:
            with self._changed:
                self._num_inside -= 1
                ended = self._clock()
                self._free_at = ended + rest_seconds(ended - begun, self._share())
                self._changed.notify_all()

    def _may_begin(self) -> bool:
        return self._share() >= 1 or (not self._num_inside and self._clock() >= self._free_at)


def share_beside(placement: Placement | None) -> float:
    """What documents may take of the time beside an answer by a model that lies so; None: no model is loaded yet."""
    if placement is None:
        return SHARE_BESIDE_COMPUTING
    if placement.layers_on_gpu == placement.num_layers:
        # What computes on the processor hardly holds it up.
        return 1.0
    return SHARE_BESIDE_STREAMING if placement.streamed_layers else SHARE_BESIDE_COMPUTING


def rest_seconds(computed_seconds: float, share: float) -> float:
    """How long to rest after computing, so that no more than `share` of the time is computed."""
    return min(MOST_REST_SECONDS, computed_seconds * (1 / share - 1))
