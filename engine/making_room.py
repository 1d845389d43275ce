"""Making room for a model before it is loaded: the index shrinks to its plan, and the embedder leaves the card.

The plan relies on both, and the loop over memory learns of the model only once it is loaded: until then both would be
held in addition to the weights, and the system might kill the engine for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from engine.memory.placement import Placement

log = logging.getLogger(__name__)

# A sweep, or a batch that is being embedded, ends sooner; anything longer is not waited for.
PATIENCE_SECONDS, LOOK_SECONDS = 10.0, 0.05


class Index(Protocol):
    """The memory bound of the index; neither call waits."""

    @property
    def partition_bytes(self) -> int | None:
        """What partitions may hold in memory by the plan; None without a plan."""
        ...

    def set_partition_bytes(self, num_bytes: int) -> None:
        """Sets what partitions may hold in memory; the excess is released once no sweep needs it."""


class RoomMaker:
    """Makes room for a model; called on the thread that loads models, and waits there."""

    def __init__(
        self,
        index: Index,
        resident_bytes: Callable[[], int],
        leaves_card: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Prepares.

        Args:
            index: The index, which is made smaller.
            resident_bytes: How much of it is in memory.
            leaves_card: Moves an embedder off the card; returns whether none is there.
            clock: Seconds that never go back.
            wait: Sleeps for some seconds.
        """
        self._index, self._resident_bytes, self._leaves_card = index, resident_bytes, leaves_card
        self._clock, self._wait = clock, wait

    def __call__(self, placement: Placement, is_given_up: Callable[[], bool]) -> None:
        """Shrinks others to what the placement leaves them, and waits a while for it, unless the load is given up."""
        planned, until = self._index.partition_bytes, self._clock() + PATIENCE_SECONDS
        if planned is None or planned > placement.index_bytes:
            self._index.set_partition_bytes(placement.index_bytes)
        while not self._is_made(placement) and not is_given_up():
            if self._clock() >= until:
                log.info("a model is loaded before the index, or the embedder, has given back what it should")
                return
            self._wait(LOOK_SECONDS)

    def _is_made(self, placement: Placement) -> bool:
        has_card = placement.embedder_on_gpu or self._leaves_card()
        return has_card and self._resident_bytes() <= placement.index_bytes
