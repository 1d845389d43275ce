"""Identities: what lies at a path, whatever it is called now, and whether that is a drive.

An inode alone is not enough: that of a deleted file is soon reused. So a file or folder is recognised by its inode and
its creation time. Where the file system does not tell the creation time, it is recognised by drive, inode,
modification time and, for a file, size; if one of these differs, it counts as something new.
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

# Stands for a folder on which a drive is mounted: it keeps its name, and touching it may hang.
MOUNT = "mount"
# From linux/fcntl.h and linux/stat.h: the working folder, do not follow links, the creation ("birth") time.
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME = -100, 0x100, 0x800
_STATX_BYTES, _BTIME = 256, struct.Struct("@80xqI")


@dataclass(frozen=True, slots=True)
class Identity:
    """What identifies a file, a folder or a link; `mark` tells it from something that reuses its inode later."""

    device: int
    inode: int
    mark: str

    @classmethod
    def of(cls, path: str, found: os.stat_result) -> Identity:
        """Returns the identity of what lies at `path`; `found` is its status."""
        kind = stat.S_IFMT(found.st_mode)
        made_ns = made_at_ns(path)
        if made_ns:
            return cls(found.st_dev, found.st_ino, f"{kind:o} made {made_ns}")
        size_bytes = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
        return cls(found.st_dev, found.st_ino, f"{kind:o} on {found.st_dev} {size_bytes} {found.st_mtime_ns}")

    @classmethod
    def read(cls, text: str) -> Identity | None:
        """Parses what `str` returns; None for any other text."""
        device, _, rest = text.partition(" ")
        inode, _, mark = rest.partition(" ")
        return cls(int(device), int(inode), mark) if device.isdecimal() and inode.isdecimal() else None

    def __str__(self) -> str:
        return f"{self.device} {self.inode} {self.mark}"

    def is_of(self, other: Identity | None) -> bool:
        """Returns whether both identify the same thing; the drive's number may have changed."""
        return other is not None and (self.inode, self.mark) == (other.inode, other.mark)


def identity_at(path: str) -> str:
    """Returns the identity of what lies at `path` as text, or `MOUNT`. Raises OSError."""
    return MOUNT if os.path.ismount(path) else str(Identity.of(path, os.lstat(path)))


def made_at_ns(path: str) -> int:
    """Returns the creation time of what lies at `path`; 0 where it is unknown."""
    libc, told = _libc(), ctypes.create_string_buffer(_STATX_BYTES)
    if libc is None or libc.statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, told):
        return 0
    (is_told,) = struct.unpack_from("@I", told)
    seconds, nanoseconds = _BTIME.unpack_from(told)
    # Some file systems claim to know it, and return zero.
    return int(seconds) * 10**9 + int(nanoseconds) if is_told & _STATX_BTIME else 0


def has_its_name(path: str) -> bool:
    """Returns whether something lies at `path` with exactly this spelling: some file systems ignore case."""
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
    """Returns whether a drive is mounted at `path`, or at the target of a link there."""
    return os.path.ismount(os.path.realpath(path))


@cache
def _libc() -> Any:
    """Returns the C library; None where it has no `statx`. Python's own `stat` lacks the creation time."""
    libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "statx") else None
