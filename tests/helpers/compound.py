"""Writes compound files ([MS-CFB], version 3), which nothing that we use can write."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Union

Tree = Mapping[str, Union[bytes, "Tree"]]

_SECTOR, _MINI_SECTOR, _CUTOFF = 512, 64, 4096
_END, _FREE, _FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD


def compound(tree: Tree) -> bytes:
    """A file with these streams (bytes) and storages (mappings); up to 60 KiB in all."""
    entries: list[list] = [["Root Entry", 5, _FREE, b""]]
    siblings: dict[int, int] = {}
    _collect(tree, 0, entries, siblings)
    mini = b""
    mini_fat: list[int] = []
    starts: dict[int, int] = {}
    for index, (_, kind, _, data) in enumerate(entries):
        if kind == 2 and 0 < len(data) < _CUTOFF:
            starts[index] = len(mini_fat)
            mini += _padded(data, _MINI_SECTOR)
            mini_fat += _chain(len(mini_fat), -(-len(data) // _MINI_SECTOR))
    entries[0][3] = mini
    fat = [_FAT]
    body = b""
    for index, (_, _, _, data) in enumerate(entries):
        if data and (index == 0 or len(data) >= _CUTOFF):
            starts[index] = len(fat)
            fat += _chain(len(fat), -(-len(data) // _SECTOR))
            body += _padded(data, _SECTOR)
    table = _padded(b"".join(struct.pack("<I", number) for number in mini_fat), _SECTOR, b"\xff")
    mini_fat_at, num_mini_fat = len(fat) if table else _END, len(table) // _SECTOR
    fat += _chain(len(fat), num_mini_fat)
    directory_at = len(fat)
    directory = b"".join(
        _entry(entry, siblings.get(index, _FREE), starts.get(index, _END)) for index, entry in enumerate(entries)
    )
    directory = _padded(directory, _SECTOR)
    fat += _chain(len(fat), len(directory) // _SECTOR)
    assert len(fat) <= _SECTOR // 4, "too much for one sector of the FAT"
    fat += [_FREE] * (_SECTOR // 4 - len(fat))
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16)
    header += struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += struct.pack("<IIIIIIIII", 0, 1, directory_at, 0, _CUTOFF, mini_fat_at, num_mini_fat, _END, 0)
    header += struct.pack("<109I", 0, *[_FREE] * 108)
    return header + struct.pack(f"<{len(fat)}I", *fat) + body + table + directory


def _collect(tree: Tree, parent: int, entries: list[list], siblings: dict[int, int]) -> None:
    last = None
    for name, content in tree.items():
        index = len(entries)
        if last is None:
            entries[parent][2] = index
        else:
            siblings[last] = index
        last = index
        if isinstance(content, bytes):
            entries.append([name, 2, _FREE, content])
        else:
            entries.append([name, 1, _FREE, b""])
            _collect(content, index, entries, siblings)


def _entry(entry: list, sibling: int, start: int) -> bytes:
    name, kind, child, data = entry
    encoded = (name + "\0").encode("utf-16-le")
    return (
        encoded.ljust(64, b"\0")
        + struct.pack("<HBBIII", len(encoded), kind, 1, _FREE, sibling, child)
        + bytes(36)
        + struct.pack("<IQ", start, len(data))
    )


def _chain(first: int, count: int) -> list[int]:
    return [*range(first + 1, first + count), _END] if count else []


def _padded(data: bytes, size: int, filling: bytes = b"\0") -> bytes:
    return data + filling * (-len(data) % size)
