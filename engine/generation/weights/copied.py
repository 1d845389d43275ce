"""Copied weights: what llama.cpp holds in the order that the processor reads fastest leaves memory, and comes back.

Making that order anew takes longer than reading it, so it is written to a file once, the first time it leaves, and read
from there. The file has no name: it goes with the process, whatever ends that.
"""

from __future__ import annotations

import errno
import logging
import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Any

from engine.generation.weights.memory_map import MADV_DONTNEED, advise, bytes_at
from engine.memory.ledger import Lease, Ledger
from engine.memory.pages import Range
from engine.memory.room import DISK_RESERVE_SHARE

log = logging.getLogger(__name__)

# The allocator's own words lie before a buffer, and a part of a page behind it; anything larger is somebody else's.
MOST_AROUND_BYTES = 128 << 10
PIECE_BYTES = 8 << 20
NUM_READERS = 4


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
        self._file: FileIO | None = None
        self._lease: Lease | None = None
        self.is_there = True

    @property
    def num_bytes(self) -> int:
        return self._end - self._start

    def leave(self) -> None:
        """Gives their memory back.

        Raises:
            OSError: They could not be written; they stay.
        """
        if self._file is None:
            self._write()
        self.is_there = False
        advise(self._start, self.num_bytes, MADV_DONTNEED)

    def come_back(self) -> None:
        """Reads them to where they were. Raises OSError; another try may succeed."""
        if self.is_there:
            return
        with ThreadPoolExecutor(NUM_READERS) as readers:
            list(readers.map(self._read, range(0, self.num_bytes, PIECE_BYTES)))
        self.is_there = True

    def close(self) -> None:
        """Lets go of the file. A second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def _write(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        disk = shutil.disk_usage(self._folder)
        if disk.free - self.num_bytes < disk.total * DISK_RESERVE_SHARE:
            # While it was being filled, chats and the library could not be written.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        handle, name = tempfile.mkstemp(prefix="weights-", dir=self._folder)
        file = FileIO(handle, "r+b")
        try:
            os.unlink(name)
            for at in range(0, self.num_bytes, PIECE_BYTES):
                _write_all(file.fileno(), memoryview(self._piece(at)), at)
        except BaseException:
            file.close()
            raise
        self._file = file
        self._lease = self._ledger.take("weights", "in the processor's order, kept on disk", "disk", self.num_bytes)

    def _read(self, at: int) -> None:
        assert self._file is not None
        piece = memoryview(self._piece(at))
        done = 0
        while done < len(piece):
            count = os.preadv(self._file.fileno(), [piece[done:]], at + done)
            if not count:
                raise OSError("the file of weights is shorter than it was")
            done += count

    def _piece(self, at: int) -> Any:
        return bytes_at(self._start + at, min(PIECE_BYTES, self.num_bytes - at))


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, data[done:], offset + done)
