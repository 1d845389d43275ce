"""Number formats of old workbooks (.xls, [MS-XLS]): calamine gives numbers bare, so what they are is read beside it.

The workbook is one stream of records: first what all sheets share, formats among it, then each sheet's cells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import DocumentUnreadable
from engine.library.parsers.compound import opened
from engine.library.parsers.limits import MIB
from engine.library.parsers.number_format import BUILT_IN, GENERAL

# The format of each number cell that has one, by row and column, both from 0.
Formats = Mapping[tuple[int, int], str]

# A longer stream may have more than two million cells; reading formats would take too much time and memory.
_MAX_BYTES = 12 * MIB
_VERSION_8 = 0x0600
_BEGIN, _END, _SHEET, _FORMAT, _STYLE, _PASSWORD = 0x0809, 0x000A, 0x0085, 0x041E, 0x00E0, 0x002F
_NUMBER, _SHORT, _SHORTS, _FORMULA = 0x0203, 0x027E, 0x00BD, 0x0006
_CELL = struct.Struct("<HHH")
_WIDE = 1


def formats_of(path: Path) -> dict[str, Formats]:
    """Returns formats by sheet name; empty if they cannot be read, or the file is older than Excel 97."""
    try:
        with opened(path, "The workbook") as file:
            data = file.data("Workbook") or b""
    except DocumentUnreadable:
        # Calamine decides whether it is a workbook.
        return {}
    if len(data) > _MAX_BYTES:
        return {}
    try:
        return _read(memoryview(data))
    except (struct.error, IndexError, UnicodeDecodeError):
        return {}


def _read(data: memoryview) -> dict[str, Formats]:
    own: dict[int, str] = {}
    styles: list[int] = []
    sheets: dict[str, int] = {}
    for kind, content in _records(data, 0):
        if kind == _FORMAT:
            own[_short(content, 0)] = _text(content[4:], _short(content, 2))
        elif kind == _STYLE:
            styles.append(_short(content, 2))
        elif kind == _SHEET:
            sheets[_text(content[7:], content[6])] = struct.unpack_from("<I", content)[0]
        elif kind == _PASSWORD or (kind == _BEGIN and _short(content, 0) != _VERSION_8):
            return {}
    codes = [own.get(number) or BUILT_IN.get(number, GENERAL) for number in styles]
    return {name: dict(_cells(data, at, codes)) for name, at in sheets.items()}


def _cells(data: memoryview, at: int, codes: list[str]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yields the formats of the cells of the sheet that begins at `at`."""
    for kind, content in _records(data, at):
        if kind in (_NUMBER, _SHORT, _FORMULA):
            row, column, style = _CELL.unpack_from(content)
            if style < len(codes) and codes[style] != GENERAL:
                yield (row, column), codes[style]
        elif kind == _SHORTS:
            row, first = struct.unpack_from("<HH", content)
            for index in range((len(content) - 6) // 6):
                style = _short(content, 4 + 6 * index)
                if style < len(codes) and codes[style] != GENERAL:
                    yield (row, first + index), codes[style]


def _records(data: memoryview, at: int) -> Iterator[tuple[int, memoryview]]:
    """Yields the records up to the end of the globals or of the sheet; a chart in a sheet has its own end."""
    depth = 0
    while at + 4 <= len(data):
        kind, length = struct.unpack_from("<HH", data, at)
        content = data[at + 4 : at + 4 + length]
        at += 4 + length
        depth += (kind == _BEGIN) - (kind == _END)
        if depth == 1:
            yield kind, content
        elif depth < 1:
            return


def _text(content: memoryview, count: int) -> str:
    """Reads `count` characters after the byte that tells their width."""
    is_wide = content[0] & _WIDE
    return bytes(content[1 : 1 + count * (2 if is_wide else 1)]).decode("utf-16-le" if is_wide else "latin-1")


def _short(content: memoryview, at: int) -> int:
    return int(struct.unpack_from("<H", content, at)[0])
