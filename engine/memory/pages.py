"""Pages: which addresses of this process hold memory, and how much of it is resident.

A library may never write to what it allocates: llama.cpp's buffers are as large as the largest batch could need, and
only half of that is touched in a day. Only pages that were written to take memory, so these are counted.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_MAPS = Path("/proc/self/maps")
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ 00:00 0 *(\[anon:.*|)$", re.MULTILINE)
# Larger ranges are sampled at regular intervals: checking every page of a gigabyte takes 3 ms.
_PIECE_BYTES, _MAX_PIECES = 2**20, 512

Range = tuple[int, int]


def anonymous_ranges() -> tuple[Range, ...]:
    """Returns writable private mappings without a file, in order; without the heap. Empty except on Linux."""
    if sys.platform != "linux":
        return ()
    return tuple((int(start, 16), int(end, 16)) for start, end, _ in _LINE.findall(_MAPS.read_text(encoding="latin-1")))


def appeared(before: Sequence[Range], after: Sequence[Range]) -> tuple[Range, ...]:
    """Returns the parts of `after` that are in none of `before`, both in order. The system joins adjacent mappings."""
    found = []
    for start, end in after:
        for old_start, old_end in before:
            if old_end <= start or old_start >= end:
                continue
            if old_start > start:
                found.append((start, old_start))
            start = max(start, min(old_end, end))
        if start < end:
            found.append((start, end))
    return tuple(found)


def resident_bytes(ranges: Iterable[Range]) -> int:
    """Returns how many bytes of the ranges are in memory; large ones are sampled evenly, unmapped addresses are 0."""
    pieces = [(at, min(end, at + _PIECE_BYTES)) for start, end in ranges for at in range(start, end, _PIECE_BYTES)]
    step = -(-len(pieces) // _MAX_PIECES)
    looked = pieces[:: max(1, step)]
    num_bytes = sum(end - start for start, end in pieces)
    num_looked = sum(end - start for start, end in looked)
    return sum(_resident(start, end) for start, end in looked) * num_bytes // max(1, num_looked)


def _resident(start: int, end: int) -> int:
    libc = _libc()
    pages = (ctypes.c_ubyte * -(-(end - start) // mmap.PAGESIZE))()
    if libc is None or libc.mincore(start, end - start, pages):
        return 0
    return bytes(pages).count(1) * mmap.PAGESIZE


@cache
def _libc() -> Any:
    if sys.platform != "linux":
        return None
    libc: Any = ctypes.CDLL(None)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return libc
