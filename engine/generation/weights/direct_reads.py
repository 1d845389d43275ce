"""Reads of a model's files that bypass the page cache: what is read goes where it is needed and nowhere else.

Direct reads need offsets, lengths and addresses in units that the file system names (statx, STATX_DIOALIGN). One that
knows no direct reads, as in memory or on a network, is read through the cache, which then drops each piece.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

log = logging.getLogger(__name__)

_STATX_DIOALIGN = 0x2000
_AT_EMPTY_PATH = 0x1000
# Offsets into struct statx: stx_mask, stx_dio_mem_align, stx_dio_offset_align.
_MASK_AT, _MEMORY_ALIGN_AT, _OFFSET_ALIGN_AT = 0, 152, 156
_STATX_BYTES = 256
DEFAULT_ALIGN = 4096


class FileChanged(OSError):
    """A file is not what it was when it was opened: what was read of it then and now belongs to two models."""

    def __init__(self) -> None:
        super().__init__(errno.ESTALE, "the file was changed while it was in use")


class WeightFiles(Protocol):
    """The files of a model, as the ring reads them; from several threads at a time."""

    def read(self, part: int, offset: int, into: Any) -> None:
        """Fills the writable buffer `into` with the bytes from `offset` on of a file.

        Raises:
            FileChanged: The file was written to, or cut, since it was opened.
            OSError: They could not be read.
        """

    def read_buffered(self, part: int, offset: int, num_bytes: int) -> bytes:
        """A few bytes, at any offset; fewer at the end of the file."""

    def forget(self) -> None:
        """Lets the system drop what it keeps of these files."""

    def close(self) -> None: ...


class DirectFiles:
    """See the module."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Opens the files.

        Raises:
            OSError: One cannot be opened.
        """
        self._descriptors: list[int] = []
        self._direct: list[int | None] = []
        self._refused: set[int] = set()
        self._as_opened: list[tuple[int, int]] = []
        try:
            for path in paths:
                self._descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                # Otherwise a few bytes bring megabytes after them into the cache.
                os.posix_fadvise(self._descriptors[-1], 0, 0, os.POSIX_FADV_RANDOM)
                self._direct.append(_open_direct(path))
                self._as_opened.append(_state(self._descriptors[-1]))
        except OSError:
            self.close()
            raise

    def read(self, part: int, offset: int, into: Any) -> None:
        view = memoryview(into)
        while view:
            count = self._read_some(part, offset, view)
            if count <= 0:
                raise FileChanged
            view, offset = view[count:], offset + count
        # After the read, so that nothing that was written before it is missed.
        if _state(self._descriptors[part]) != self._as_opened[part]:
            raise FileChanged

    def read_buffered(self, part: int, offset: int, num_bytes: int) -> bytes:
        return os.pread(self._descriptors[part], num_bytes, offset)

    def forget(self) -> None:
        for descriptor in self._descriptors:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        for descriptor in (*self._descriptors, *(one for one in self._direct if one is not None)):
            os.close(descriptor)
        self._descriptors.clear()
        self._direct.clear()

    def _read_some(self, part: int, offset: int, view: memoryview) -> int:
        direct = self._direct[part]
        if direct is not None and part not in self._refused:
            try:
                return os.preadv(direct, [view], offset)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # WORKAROUND file systems that open a file for direct reads and then refuse them (some network ones).
                log.info("Direct reads are refused here; weights are read through the page cache.")
                # It stays open: another thread may be reading from it.
                self._refused.add(part)
        count = os.preadv(self._descriptors[part], [view], offset)
        os.posix_fadvise(self._descriptors[part], offset, count, os.POSIX_FADV_DONTNEED)
        return count


def _state(descriptor: int) -> tuple[int, int]:
    """Size and time of the last change: both stay as they are unless the file is written to."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


def _open_direct(path: Path) -> int | None:
    """A descriptor for direct reads of whole pages, where these are possible."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
    if 0 < alignment(descriptor) <= DEFAULT_ALIGN:
        return descriptor
    os.close(descriptor)
    return None


def alignment(descriptor: int) -> int:
    """The unit of offsets, lengths and addresses of a direct read, in bytes; 0 where the file has no such reads."""
    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if statx is None:
        return DEFAULT_ALIGN
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_DIOALIGN, buffer) != 0:
        return DEFAULT_ALIGN

    def number(at: int) -> int:
        return int.from_bytes(buffer.raw[at : at + 4], "little")

    if not number(_MASK_AT) & _STATX_DIOALIGN:
        return DEFAULT_ALIGN
    return max(number(_MEMORY_ALIGN_AT), number(_OFFSET_ALIGN_AT))
