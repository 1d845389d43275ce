"""The C allocator: what it keeps of freed memory, and how that goes back to the system.

Libraries free what they computed with, but glibc keeps it for the next time: the process stays as large as it was at
its largest moment. That memory is unused, some hundred megabytes after indexing, so it is measured and shown under its
own name, and given back when there is a pause.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import struct
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from io import FileIO
from pathlib import Path
from typing import Any

from engine.memory.pages import resident_bytes

_MAPS, _MEMORY = Path("/proc/self/maps"), Path("/proc/self/mem")
# struct _heap_info in glibc's arena.c, the same for twenty years: arena, previous, size, and how much is writable.
_NOTE = struct.Struct("@PPNN")
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw.p \S+ 00:00 0 *(\[heap\])?$", re.MULTILINE)
# HEAP_MAX_SIZE of glibc: a thread's own arena begins at a multiple of this.
_ARENA_BYTES = 64 * 2**20
# M_ARENA_MAX in malloc.h, and how many are enough: a batch is seconds of computing and some hundred allocations.
_M_ARENA_MAX, _NUM_ARENAS = -8, 2
# M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: from this size on a block is mapped by itself, and no more is kept at the end.
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD, _LARGE_BYTES = -3, -1, 4 * 2**20
_WATCH_SECONDS = 0.002
_MALLINFO2 = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


@dataclass(frozen=True, slots=True)
class Heap:
    """What lies in the arenas of the C allocator: `used_bytes` of `resident_bytes` are allocated."""

    resident_bytes: int = 0
    used_bytes: int = 0

    @property
    def spare_bytes(self) -> int:
        """Freed memory that is kept for the next use; negative where more is allocated than was written to."""
        return self.resident_bytes - self.used_bytes


class _Mallinfo2(ctypes.Structure):
    """struct mallinfo2 in glibc's malloc.h: ten sizes."""

    _fields_ = [(name, ctypes.c_size_t) for name in _MALLINFO2]


def heap() -> Heap:
    """Returns the heap of this process now; empty if the allocator is not glibc's, or we may not look at ourselves."""
    libc = _glibc()
    if libc is None or not hasattr(libc, "mallinfo2"):
        return Heap()
    used_bytes = int(libc.mallinfo2().uordblks)
    try:
        arenas = _arenas()
    except OSError:
        return Heap()
    return Heap(resident_bytes(arenas), used_bytes)


def peak_bytes(work: Callable[[], object]) -> int:
    """Returns how much more memory is in use at the peak of `work` than before it, in arenas or mapped.

    It runs on a thread of its own: libraries keep scratch memory for each thread. What other threads take meanwhile
    counts too. 0 where the allocator does not report it.
    """
    libc = _glibc()
    if libc is None or not hasattr(libc, "mallinfo2"):
        work()
        return 0
    before = peak = _used_bytes(libc)
    with ThreadPoolExecutor(1, thread_name_prefix="peak") as pool:
        done = pool.submit(work)
        while not wait([done], _WATCH_SECONDS).done:
            peak = max(peak, _used_bytes(libc))
        done.result()
    return peak - before


def bytes_in_arenas() -> int | None:
    """Returns what is allocated in the arenas of the C allocator; None where it does not report it."""
    libc = _glibc()
    return int(libc.mallinfo2().uordblks) if libc is not None and hasattr(libc, "mallinfo2") else None


def lean_heap() -> None:
    """Makes threads share the arenas of the C allocator, and large blocks return to the system as they are freed.

    By default every thread gets an arena of its own, and each grows to the most that any batch or table needed while
    its thread happened to do the work: indexing took the process to 930 MB, and with these settings to about 650. And
    once large blocks were freed, glibc keeps blocks of up to 32 MB in its arenas from then on: after eight answers had
    moved to other cells, 57 MB of a limit of 755 were unused, and no plan held.
    """
    libc = _glibc()
    if libc is not None:
        libc.mallopt(_M_ARENA_MAX, _NUM_ARENAS)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


def trim_heap() -> None:
    """Returns what the C allocator keeps for itself to the system, where it is glibc's.

    WORKAROUND: reading much from LanceDB leaves its heap 140 MB larger per 200,000 rows than what is in use.
    """
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _used_bytes(libc: Any) -> int:
    info = libc.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def _arenas() -> list[tuple[int, int]]:
    """Returns addresses of the arenas' memory: the heap, and the areas of threads' arenas.

    Those begin at multiples of their largest size, each with a note of how much of it is used. The system may show one
    joined with adjacent memory, or in pieces: NumPy asks for large pages within.
    """
    # Paths of mapped files may be in any encoding.
    found_areas = _LINE.findall(_MAPS.read_text("latin-1"))
    areas = [(int(start, 16), int(end, 16), bool(name)) for start, end, name in found_areas]
    found = [(start, end) for start, end, is_heap in areas if is_heap]
    with _MEMORY.open("rb", buffering=0) as memory:
        for start, end in _joined([(start, end) for start, end, is_heap in areas if not is_heap]):
            at = range(-(-start // _ARENA_BYTES) * _ARENA_BYTES, end, _ARENA_BYTES)
            found += [(address, address + size) for address in at if (size := _noted_bytes(memory, address, end))]
    return found


def _joined(areas: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns areas of memory in the order of their addresses, with adjacent ones joined."""
    joined: list[tuple[int, int]] = []
    for start, end in areas:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _noted_bytes(memory: FileIO, address: int, end: int) -> int:
    """Returns the size that an arena notes of itself at its beginning; 0 where there is none.

    Read through the system: another thread may unmap the memory at any moment, and a look must not end the process.
    """
    try:
        note = os.pread(memory.fileno(), _NOTE.size, address)
    except OSError:
        return 0
    if len(note) < _NOTE.size:
        return 0
    arena, _, size, writable = _NOTE.unpack(note)
    is_arena = arena and 0 < size <= writable <= _ARENA_BYTES and writable % mmap.PAGESIZE == 0
    return min(size, end - address) if is_arena else 0


@cache
def _glibc() -> Any:
    """Returns the C library, with the prototypes of what we call; None where it is another one."""
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "malloc_trim"):
        return None
    # Before 2.33 it counted in 32 bits, by another name.
    if hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = _Mallinfo2
    return libc
