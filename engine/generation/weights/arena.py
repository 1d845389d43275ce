"""The arena: one memory file whose ranges are the slots, so that several layers can be seen through the same memory.

Ranges are handed out one after another and stay in place; an unused one holds no memory. Pinned layers lie in private
memory instead, which several addresses cannot share but the system can provide in large pages: with these, computing
from pinned layers is as fast as from the mapped file, and freeing them takes a tenth of the time.
"""

from __future__ import annotations

import logging
import os

from engine.generation.weights.mappings import FileId
from engine.generation.weights.memory_map import punch

log = logging.getLogger(__name__)


class Arena:
    """Owned by one thread; what is mapped from it outlives `close` until it is unmapped."""

    def __init__(self, page_bytes: int) -> None:
        """Starts empty.

        Raises:
            OSError: The system gives no memory file.
        """
        self._page_bytes, self._end = page_bytes, 0
        self.descriptor = os.memfd_create("ragdoll-weights", os.MFD_CLOEXEC)
        self.file = FileId.of_descriptor(self.descriptor)

    def take(self, num_bytes: int) -> int:
        """The offset of a range of `num_bytes`; it holds no memory yet."""
        offset = self._end
        self._end += -(-num_bytes // self._page_bytes) * self._page_bytes
        os.ftruncate(self.descriptor, self._end)
        return offset

    def give_back(self, offset: int, num_bytes: int) -> None:
        """Empties a range; where it is still mapped, it reads as zeros."""
        if num_bytes and not punch(self.descriptor, offset, num_bytes):
            log.error("%d bytes of memory could not be given back.", num_bytes)

    @property
    def held_bytes(self) -> int:
        """The memory behind it now."""
        return os.fstat(self.descriptor).st_blocks * 512 if self.descriptor >= 0 else 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
