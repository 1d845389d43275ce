"""The file that weights in the processor's order are read from: it has no name, and is removed with the process.

Making that order takes longer than reading it, so it is made once. The file cannot be of use to another process, whose
llama.cpp or processor may have another order; without a name, nothing of it is left, however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from io import FileIO
from pathlib import Path
from typing import Any

from engine.memory.ledger import Ledger
from engine.memory.pages import Range
from engine.memory.room import require_disk_room


class CopiedFile:
    """Usable from several threads at a time, until it is closed."""

    def __init__(self, folder: Path, where: Range, ledger: Ledger) -> None:
        """Makes an empty file with room for the weights.

        Args:
            folder: On the disk that takes it.
            where: The addresses of what it will hold, whole pages.
            ledger: Gets its bytes.

        Raises:
            OSError: It cannot be made, or the disk would be full.
        """
        self.where = where
        num_bytes = where[1] - where[0]
        folder.mkdir(parents=True, exist_ok=True)
        require_disk_room(folder, num_bytes)
        handle, name = tempfile.mkstemp(prefix="weights-", dir=folder)
        self._file = FileIO(handle, "r+b")
        try:
            os.unlink(name)
            os.ftruncate(handle, num_bytes)
        except OSError:
            self._file.close()
            raise
        self._lease = ledger.take("weights", "in the processor's order, kept on disk", "disk", num_bytes)

    @property
    def path(self) -> Path:
        """A path under which this process can open it again, on Linux."""
        return Path(f"/proc/self/fd/{self._file.fileno()}")

    def write(self, data: Any, offset: int) -> None:
        """Writes all of a buffer. Raises OSError."""
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file.fileno(), view, offset)
            view, offset = view[done:], offset + done

    def read(self, into: Any, offset: int) -> None:
        """Fills a writable buffer. Raises OSError."""
        view = memoryview(into)
        while view:
            done = os.preadv(self._file.fileno(), [view], offset)
            if not done:
                raise OSError("the file of weights is shorter than it was")
            view, offset = view[done:], offset + done

    def show_streamed(self, num_bytes: int) -> None:
        """The readers enter this much of it in the ledger themselves; here the rest stays."""
        self._lease.resize(max(0, self.where[1] - self.where[0] - num_bytes))

    def leave_cache(self) -> None:
        """Moves all of it out of the page cache to disk. Raises OSError."""
        os.fdatasync(self._file.fileno())
        os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Closes it; nothing is left of it. A second call does nothing."""
        self._file.close()
        self._lease.release()
