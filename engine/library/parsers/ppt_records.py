"""What an old PowerPoint file is made of ([MS-PPT]): records within records, and where each edit left the latest ones.

A file that was saved incrementally holds every version of what changed; a directory tells which one is current.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from engine.errors import DocumentUnreadable

_HEADER = struct.Struct("<HHI")
_CONTAINER = 0xF
# Groups of shapes may be nested; only a damaged file nests deeper than this.
_MAX_DEPTH = 40

_CURRENT_USER, _USER_EDIT, _DIRECTORY = 0x0FF6, 0x0FF5, 0x1772
_ENCRYPTED = 0xF3D1C4DF


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its kind, its instance among records of that kind, and its content."""

    kind: int
    instance: int
    data: memoryview
    is_container: bool

    def children(self, kind: int) -> Iterator[Record]:
        """Yields the records of a kind directly below."""
        return (record for record in records(self.data) if record.kind == kind)

    def below(self, *kinds: int, depth: int = _MAX_DEPTH) -> Iterator[Record]:
        """Yields all records of these kinds below, in order, but none inside another one that was found."""
        for record in records(self.data):
            if record.kind in kinds:
                yield record
            elif record.is_container and depth:
                yield from record.below(*kinds, depth=depth - 1)

    def number(self, at: int) -> int:
        """Reads the 32-bit number at a position. Raises DocumentUnreadable if the record ends before."""
        return number(self.data, at)


def records(data: memoryview) -> Iterator[Record]:
    """Yields records one after another; the last may be cut short."""
    at = 0
    while at + _HEADER.size <= len(data):
        head, kind, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield Record(kind, head >> 4, data[at : at + length], head & 0xF == _CONTAINER)
        at += length


class Objects:
    """The latest version of each numbered object of a file.

    Args:
        current: The stream "Current User".
        main: The stream "PowerPoint Document".

    Raises:
        DocumentUnreadable: The list of objects cannot be read.
    """

    def __init__(self, current: bytes, main: bytes) -> None:
        self._main = memoryview(main)
        self._places: dict[int, int] = {}
        self.document_number = 0
        at, seen = number(memoryview(current), 16), set[int]()
        # From the last edit back to the first; the position from a later edit wins.
        while at not in seen:
            seen.add(at)
            edit = self._at(at, _USER_EDIT)
            self.document_number = self.document_number or edit.number(16)
            self._read_directory(self._at(edit.number(12), _DIRECTORY))
            at = edit.number(8) or at

    def find(self, object_number: int, kind: int) -> Record | None:
        """Returns the object with that number, None if there is none of that kind."""
        place = self._places.get(object_number)
        found = None if place is None else next(records(self._main[place:]), None)
        return found if found is not None and found.kind == kind else None

    def _at(self, place: int, kind: int) -> Record:
        found = next(records(self._main[place:]), None)
        if found is None or found.kind != kind:
            raise _damaged()
        return found

    def _read_directory(self, directory: Record) -> None:
        """Reads runs of positions, each for objects with consecutive numbers."""
        at = 0
        while at + 4 <= len(directory.data):
            run = directory.number(at)
            first, count = run & 0xFFFFF, run >> 20
            for index in range(count):
                at += 4
                self._places.setdefault(first + index, directory.number(at))
            at += 4


def is_encrypted(current: bytes) -> bool:
    return len(current) >= 16 and struct.unpack_from("<I", current, 12)[0] == _ENCRYPTED


def number(data: memoryview, at: int) -> int:
    """Reads the 32-bit number at a position. Raises DocumentUnreadable if the data ends before."""
    if at + 4 > len(data):
        raise _damaged()
    return int(struct.unpack_from("<I", data, at)[0])


def _damaged() -> DocumentUnreadable:
    return DocumentUnreadable("The presentation is damaged: the list of its parts cannot be read.")
