"""Identities: what lies at a path, whatever it is called now, and whether that is a drive.

An inode alone tells nothing apart for long: that of a deleted file is soon given to a new one. So a file or folder is
known again by its inode and the moment at which it was made. Where the file system does not tell that moment, it is by
its drive, the inode, and when it was last changed, for a file also by its size: what does not have these any more is
taken for something new.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

# What is said of the folder on which a drive is mounted: it keeps its name, and to touch it may take for ever.
MOUNT = "mount"
# From linux/fcntl.h and linux/stat.h: the working folder, no link is followed, and the moment something was made.
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME = -100, 0x100, 0x800
_STATX_BYTES, _BTIME = 256, struct.Struct("@80xqI")


@dataclass(frozen=True, slots=True)
class Identity:
    """Of a file, a folder or a link; `mark` tells it from what is given its inode after it."""

    device: int
    inode: int
    mark: str

    @classmethod
    def of(cls, path: str, found: os.stat_result) -> Identity:
        """Of what `found` is, which lies at `path`."""
        kind = stat.S_IFMT(found.st_mode)
        made_ns = made_at_ns(path)
        if made_ns:
            return cls(found.st_dev, found.st_ino, f"{kind:o} made {made_ns}")
        size_bytes = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
        return cls(found.st_dev, found.st_ino, f"{kind:o} on {found.st_dev} {size_bytes} {found.st_mtime_ns}")

    @classmethod
    def read(cls, text: str) -> Identity | None:
        """From what `str` made of it; None where nothing is known."""
        device, _, rest = text.partition(" ")
        inode, _, mark = rest.partition(" ")
        return cls(int(device), int(inode), mark) if device.isdecimal() and inode.isdecimal() else None

    def __str__(self) -> str:
        return f"{self.device} {self.inode} {self.mark}"

    def is_of(self, other: Identity | None) -> bool:
        """Whether both are of one thing. Its drive may have got another number since."""
        return other is not None and (self.inode, self.mark) == (other.inode, other.mark)


def identity_at(path: str) -> str:
    """Of what lies at `path`, as text, or `MOUNT`. Raises OSError."""
    return MOUNT if os.path.ismount(path) else str(Identity.of(path, os.lstat(path)))


def made_at_ns(path: str) -> int:
    """When what lies at `path` was made; 0 where that is not told."""
    libc, told = _libc(), ctypes.create_string_buffer(_STATX_BYTES)
    if libc is None or libc.statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, told):
        return 0
    (is_told,) = struct.unpack_from("@I", told)
    seconds, nanoseconds = _BTIME.unpack_from(told)
    # Some say that they tell it, and tell zero.
    return int(seconds) * 10**9 + int(nanoseconds) if is_told & _STATX_BTIME else 0


def has_its_name(path: str) -> bool:
    """Whether something lies at `path` and is spelt so: some file systems take no notice of case."""
    folder, name = os.path.split(path)
    other = os.path.join(folder, name.swapcase())
    if not os.path.lexists(path):
        return False
    try:
        is_either = other != path and os.path.lexists(other) and os.path.samefile(path, other)
        return name in os.listdir(folder) if is_either else True
    except OSError:  # a link that leads nowhere, or a folder that cannot be listed
        return True


def is_mount(path: str) -> bool:
    """Whether a drive is mounted at `path`, or where a link there leads."""
    return os.path.ismount(os.path.realpath(path))


@cache
def _libc() -> Any:
    """The C library; None where it has no such call. Python's own `stat` does not tell when a file was made."""
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "statx") else None
