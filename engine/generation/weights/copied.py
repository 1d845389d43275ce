"""Copied weights: those that llama.cpp holds in the order that the processor reads fastest leave memory, and come back.

They are written to a file (copied_file.py) the first time they leave, and read from there.
"""

from __future__ import annotations

import errno
import mmap
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.generation.weights.copied_file import CopiedFile
from engine.generation.weights.memory_map import MADV_DONTNEED, advise, bytes_at
from engine.memory.ledger import Ledger
from engine.memory.pages import Range

# The allocator's header lies before a buffer, and a part of a page after it; a larger range belongs to others.
MOST_AROUND_BYTES = 32 << 10
PIECE_BYTES = 8 << 20
NUM_READERS = 4
# How often a wait for pieces checks whether it goes on, however slow a disk is.
LOOK_SECONDS = 0.1
GoesOn = Callable[[], bool]


def range_of(ranges: Sequence[Range], num_bytes: int) -> Range | None:
    """Whole pages within the one range of memory that holds a buffer of about `num_bytes`; None where that is unclear.

    The first page and the last are left out: the allocator has its own data there, and reads it when freeing.
    """
    fitting = [one for one in ranges if abs(one[1] - one[0] - num_bytes) <= MOST_AROUND_BYTES]
    if not num_bytes or len(fitting) != 1:
        return None
    start, end = fitting[0]
    return start + mmap.PAGESIZE, end - mmap.PAGESIZE


class CopiedWeights:
    """Weights of one loaded model, on the generation thread. Nothing is computed with it unless they are there."""

    def __init__(self, where: Range, folder: Path, ledger: Ledger) -> None:
        """Starts with the weights in memory, and in no file.

        Args:
            where: Their addresses, which are never written to.
            folder: On the disk that takes them.
            ledger: Gets the file.
        """
        self._start, self._end = where
        self._folder, self._ledger = folder, ledger
        self._file: CopiedFile | None = None
        self.is_there = True

    @property
    def num_bytes(self) -> int:
        return self._end - self._start

    def leave(self, disk_budget_bytes: int | None = None, goes_on: GoesOn = lambda: True) -> None:
        """Frees their memory; their file is not made where that would exceed the budget for everything on disk.

        Args:
            disk_budget_bytes: That budget; None where there is none.
            goes_on: Called between pieces, since writing them may take a minute; False cancels.

        Raises:
            OSError: They could not be written, or that was cancelled; they stay.
        """
        if self._file is None:
            self._file = self._written(disk_budget_bytes, goes_on)
        self.is_there = False
        advise(self._start, self.num_bytes, MADV_DONTNEED)

    def come_back(self, goes_on: GoesOn = lambda: True) -> None:
        """Reads them to where they were; `goes_on` as for `leave`. Raises OSError; another try may succeed."""
        if self.is_there:
            return
        places = range(0, self.num_bytes, PIECE_BYTES)
        ended, num_left = queue.SimpleQueue[Future[None]](), len(places)
        with ThreadPoolExecutor(NUM_READERS) as readers:
            try:
                for at in places:
                    readers.submit(self._read, at).add_done_callback(ended.put)
                while num_left:
                    _check(goes_on)
                    with suppress(queue.Empty):
                        ended.get(timeout=LOOK_SECONDS).result()
                        num_left -= 1
            finally:
                readers.shutdown(wait=False, cancel_futures=True)
        self.is_there = True

    def close(self) -> None:
        """Closes the file. A second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _written(self, disk_budget_bytes: int | None, goes_on: GoesOn) -> CopiedFile:
        reservation = self._ledger.reserve("disk", self.num_bytes, disk_budget_bytes)
        if reservation is None:
            raise OSError(errno.EDQUOT, "the disk budget has no room for them")
        with reservation:
            file = CopiedFile(self._folder, (self._start, self._end), self._ledger)
        try:
            for at in range(0, self.num_bytes, PIECE_BYTES):
                _check(goes_on)
                file.write(self._piece(at), at)
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, at: int) -> None:
        assert self._file is not None
        self._file.read(self._piece(at), at)

    def _piece(self, at: int) -> Any:
        return bytes_at(self._start + at, min(PIECE_BYTES, self.num_bytes - at))


def _check(goes_on: GoesOn) -> None:
    if not goes_on():
        raise OSError(errno.ECANCELED, "nobody waits for it any more")
