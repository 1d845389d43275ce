"""Copied weights: what llama.cpp holds in the order that the processor reads fastest leaves memory, and comes back.

It is written to a file (copied_file.py) the first time it leaves, and read from there.
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

# The allocator's own words lie before a buffer, and a part of a page behind it; anything larger is somebody else's.
MOST_AROUND_BYTES = 32 << 10
PIECE_BYTES = 8 << 20
NUM_READERS = 4
# Whoever waits for pieces is asked so often whether that goes on, however slow a disk is.
LOOK_SECONDS = 0.1
GoesOn = Callable[[], bool]


def range_of(ranges: Sequence[Range], num_bytes: int) -> Range | None:
    """Whole pages within the one range of memory that a buffer of about so many bytes lies in; None where none is sure.

    The first page and the last are left out: there the allocator has its own words, and reads them when it is freed.
    """
    fitting = [one for one in ranges if abs(one[1] - one[0] - num_bytes) <= MOST_AROUND_BYTES]
    if not num_bytes or len(fitting) != 1:
        return None
    start, end = fitting[0]
    return start + mmap.PAGESIZE, end - mmap.PAGESIZE


class CopiedWeights:
    """Of one loaded model, on the generation thread. Nothing is computed with it unless they are there."""

    def __init__(self, where: Range, folder: Path, ledger: Ledger) -> None:
        """They are in memory, and in no file.

        Args:
            where: Their addresses; nobody ever writes there.
            folder: Whose disk takes them.
            ledger: Knows of the file.
        """
        self._start, self._end = where
        self._folder, self._ledger = folder, ledger
        self._file: CopiedFile | None = None
        self.is_there = True

    @property
    def num_bytes(self) -> int:
        return self._end - self._start

    def leave(self, disk_budget_bytes: int | None = None, goes_on: GoesOn = lambda: True) -> None:
        """Gives their memory back; the file they are read from is not made beyond a budget for all on the disk.

        Args:
            disk_budget_bytes: That budget; None where there is none.
            goes_on: Asked between pieces, since writing them may take a minute; False where nobody waits any more.

        Raises:
            OSError: They could not be written, or nobody waited for that; they stay.
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
        """Lets go of the file. A second call does nothing."""
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
