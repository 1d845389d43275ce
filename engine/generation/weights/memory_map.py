"""mmap and its kin by their C names: Python's own mmap takes no address, and here the address is what counts.

A mapping that fails with MAP_FIXED may leave nothing at its address. Code that computes there next would be killed by
the system, or read unrelated data: `end_process` ends us first, in a sentence that the window can show.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from functools import lru_cache
from typing import Any, NoReturn

log = logging.getLogger(__name__)

PROT_READ, PROT_READ_WRITE = 1, 1 | 2
MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS = 1, 2, 0x10, 0x20
MADV_RANDOM, MADV_DONTNEED, MADV_DONTFORK, MADV_HUGEPAGE, MADV_POPULATE_READ = 1, 4, 10, 14, 22
MADV_NOHUGEPAGE = 15
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_MAP_FAILED = ctypes.c_void_p(-1).value
# EX_OSERR of sysexits.h: the system could not do what was asked.
EXIT_STATUS = 71


class MappingLost(Exception):
    """What lay at an address is gone, and what was to come is not there."""


@lru_cache(maxsize=1)
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    )
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return libc


def map_shared_over(address: int, num_bytes: int, descriptor: int, offset: int) -> None:
    """Lays bytes of an open file over whatever is mapped at `address`.

    Raises:
        MappingLost: The system could not; what was there may be gone.
    """
    _map_over(address, num_bytes, MAP_SHARED, descriptor, offset)


def map_private_over(address: int, num_bytes: int) -> None:
    """Lays empty memory over whatever is mapped at `address`: in large pages, and not for forked processes.

    A disk that writes into private memory while the process is forked may write to the child's copy.

    Raises:
        MappingLost: The system could not; what was there may be gone.
    """
    _map_over(address, num_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    advise(address, num_bytes, MADV_DONTFORK)
    advise(address, num_bytes, MADV_HUGEPAGE)


def map_emptiness_over(address: int, num_bytes: int) -> None:
    """Lays empty read-only memory over whatever is mapped at `address`: it takes no memory.

    The system does not require room for it, as it does for writable memory.

    Raises:
        MappingLost: The system could not; what was there may be gone.
    """
    _map_over(address, num_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, PROT_READ)


def map_file_over(address: int, num_bytes: int, descriptor: int, offset: int) -> None:
    """Lays bytes of a read-only file over whatever is mapped at `address`, as llama.cpp maps a model.

    Raises:
        MappingLost: The system could not; what was there may be gone.
    """
    _map_over(address, num_bytes, MAP_SHARED, descriptor, offset, PROT_READ)


def _map_over(
    address: int, num_bytes: int, kind: int, descriptor: int, offset: int, access: int = PROT_READ_WRITE
) -> None:
    got = _libc().mmap(address, num_bytes, access, kind | MAP_FIXED, descriptor, offset)
    if got != address:
        reason = os.strerror(ctypes.get_errno()) if got in (None, _MAP_FAILED) else "it lies elsewhere"
        raise MappingLost(f"{num_bytes:,} bytes could not be mapped over a layer: {reason}")


def advise(address: int, num_bytes: int, advice: int) -> bool:
    """Advises the system how memory will be used; False where it does not know the advice, which costs only time."""
    return bool(_libc().madvise(address, num_bytes, advice) == 0)


def punch(descriptor: int, offset: int, num_bytes: int) -> bool:
    """Frees the memory behind a part of a memory file; it reads as zeros from then on."""
    while _libc().fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, offset, num_bytes) != 0:
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True


def bytes_at(address: int, num_bytes: int) -> Any:
    """The memory itself, writable; it must stay mapped as long as this is used."""
    return (ctypes.c_char * num_bytes).from_address(address)


def end_process(sentence: str) -> NoReturn:
    """Ends the engine at once, because its memory is not what it should be; the window starts it again."""
    log.critical("%s", sentence)
    logging.shutdown()
    os._exit(EXIT_STATUS)
