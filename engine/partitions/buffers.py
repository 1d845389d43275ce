"""Buffers: anonymous memory that comes from the system and goes back to it, page by page and at once.

NumPy's own arrays come from the C allocator, which keeps freed memory when arrays of similar size come and go. Only
with a mapping of our own does the resident size of the process follow the ledger.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT_BYTES = 64


class Buffer:
    """`capacity_bytes` of address space; only what is written to takes memory. Arrays of it keep it alive."""

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = max(capacity_bytes, mmap.PAGESIZE)
        # By default Python maps anonymous memory as shared, and MADV_DONTNEED does not free shared pages.
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self._mapping = mmap.mmap(-1, self.capacity_bytes, **private)
        self.bytes = memoryview(self._mapping)

    def array(self, offset: int, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
        """Returns a view of the bytes from `offset` on as an array."""
        count = int(np.prod(shape))
        return np.frombuffer(self._mapping, dtype, count, offset).reshape(shape)

    def trim(self, num_bytes: int) -> None:
        """Returns the pages beyond the first `num_bytes` to the system; their content is lost."""
        start = _rounded_up(num_bytes, mmap.PAGESIZE)
        if start < self.capacity_bytes and hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED, start, self.capacity_bytes - start)


def aligned(num_bytes: int) -> int:
    """Rounds up, so that an array placed behind is aligned for vector instructions."""
    return _rounded_up(num_bytes, _ALIGNMENT_BYTES)


def _rounded_up(num_bytes: int, step: int) -> int:
    return -(-num_bytes // step) * step
