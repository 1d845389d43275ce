"""What is mapped where in this process, according to /proc/self/maps: only what is there may be replaced."""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.errors import NotStreamable

_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class FileId:
    """A file as the system knows it; `path` is how it was opened, "" where that says nothing."""

    device: int
    inode: int
    path: str = ""

    @classmethod
    def of(cls, path: Path) -> FileId:
        """The id of an existing file."""
        status = path.stat()
        return cls(status.st_dev, status.st_ino, str(path.resolve()))

    @classmethod
    def of_descriptor(cls, descriptor: int) -> FileId:
        """The id of an open file, with or without a name."""
        status = os.fstat(descriptor)
        return cls(status.st_dev, status.st_ino)

    def is_same(self, other: FileId) -> bool:
        """By number; some file systems show another device in a mapping than in a status, so the path counts too."""
        return (self.device, self.inode) == (other.device, other.inode) or (self.path != "" and self.path == other.path)


# How memory that belongs to no file appears.
MEMORY = FileId(0, 0)


@dataclass(frozen=True, slots=True)
class Mapping:
    """The addresses `start`…`end`, and the file with the offset that is mapped at `start`."""

    start: int
    end: int
    offset: int
    file: FileId

    @property
    def base(self) -> int:
        """The address at which the file's first byte would lie."""
        return self.start - self.offset


def parse(lines: Iterable[str]) -> list[Mapping]:
    """Mappings of files and of memory, from lines of /proc/self/maps; in order of their addresses."""
    found = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        start, end, offset, major, minor = (int(match[group], 16) for group in range(1, 6))
        path = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), match[7].rstrip("\n"))
        if match[6] == "0" and path.startswith("["):
            # The heap, stacks and kernel areas; named anonymous memory is like other memory.
            if not path.startswith("[anon:"):
                continue
            path = ""
        found.append(Mapping(start, end, offset, FileId(os.makedev(major, minor), int(match[6]), path)))
    return found


def current() -> list[Mapping]:
    """What is mapped now; empty where the system does not report it."""
    if sys.platform != "linux":
        return []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        return parse(lines)


def appeared(before: Collection[Mapping], now: Iterable[Mapping]) -> tuple[Mapping, ...]:
    """What is mapped now and was not before."""
    known = set(before)
    return tuple(mapping for mapping in now if mapping not in known)


def base_of(file: FileId, mappings: Iterable[Mapping]) -> int:
    """The address at which a file's first byte lies, or would.

    Raises:
        NotStreamable: It is not mapped, or more than once.
    """
    bases = {mapping.base for mapping in mappings if mapping.file.is_same(file)}
    if len(bases) != 1:
        raise NotStreamable(f"{Path(file.path).name} is not mapped into memory once, but {len(bases)} times.")
    return bases.pop()


def covers(mappings: Sequence[Mapping], start: int, end: int, file: FileId, base: int | None = None) -> bool:
    """Whether all of `start`…`end` is mapped from one file, with its first byte at `base` if that is given.

    `mappings` are in order of their addresses: there are hundreds of them, and hundreds of ranges are checked.
    """
    at = start
    first = bisect_right(mappings, start, key=lambda mapping: mapping.end)
    for mapping in islice(mappings, first, None):
        is_it = mapping.file.is_same(file) and base in (None, mapping.base)
        if mapping.start > at or not is_it:
            return False
        at = mapping.end
        if at >= end:
            return True
    return False
