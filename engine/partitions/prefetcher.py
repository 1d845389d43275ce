"""The prefetcher reads the next cold partition while the last one is searched: one thread, one file at a time."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from engine.partitions.buffers import Buffer
from engine.partitions.partition import Partition


class Reading:
    """A partition on its way into a buffer. The buffer is its until `wait` or `cancel` has returned."""

    def __init__(self, future: Future[None], cancelled: threading.Event) -> None:
        self._future, self._cancelled = future, cancelled

    def wait(self) -> None:
        """Returns when the buffer is filled. Raises PartitionDamaged, or Cancelled after `cancel`."""
        self._future.result()

    def cancel(self) -> None:
        """Calls the reading off and returns when nothing writes to the buffer any more."""
        self._cancelled.set()
        if not self._future.cancel():
            self._future.exception()


class Prefetcher:
    """Used by whoever sweeps, one sweep at a time. The thread starts with the first reading."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")

    def read(self, partition: Partition, buffer: Buffer) -> Reading:
        """Begins to fill the buffer with the partition's block."""
        cancelled = threading.Event()
        return Reading(self._pool.submit(partition.read_block, buffer, cancelled), cancelled)

    def close(self) -> None:
        self._pool.shutdown()
