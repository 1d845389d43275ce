"""Reading at a position: from one open file on any number of threads at once, on every system.

A failed read is retried once: a drive that wakes up, or one on a network, may fail at first, and a file that cannot be
read would be rewritten.
"""

from __future__ import annotations

import logging
import os
import threading

log = logging.getLogger(__name__)

# Without positioned reads, seeking and reading must not be interrupted by another thread.
_positioning = threading.Lock()


def read_into(descriptor: int, target: memoryview, offset: int) -> int:
    """Fills `target` with the bytes from `offset` on; returns how many there were before the file ended.

    Raises:
        OSError: They could not be read, twice in a row.
    """
    filled = 0
    while filled < len(target) and (piece := _tried_twice(descriptor, target[filled:], offset + filled)):
        filled += piece
    return filled


def read_at(descriptor: int, num_bytes: int, offset: int) -> bytes:
    """Reads `num_bytes` from `offset` on, or as many as there are. Raises OSError."""
    content = bytearray(num_bytes)
    return bytes(content[: read_into(descriptor, memoryview(content), offset)])


def _tried_twice(descriptor: int, target: memoryview, offset: int) -> int:
    try:
        return _piece(descriptor, target, offset)
    except OSError as error:
        log.info("a reading is tried again: %s", error)
        return _piece(descriptor, target, offset)


def _piece(descriptor: int, target: memoryview, offset: int) -> int:
    # Windows has no positioned reads in `os`.
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [target], offset)
    with _positioning, open(descriptor, "rb", buffering=0, closefd=False) as file:
        file.seek(offset)
        return file.readinto(target) or 0
