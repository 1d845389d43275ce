"""Number formats of binary workbooks (.xlsb, [MS-XLSB]), which calamine does not tell; for its numbers are bare."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from engine.library.parsers.archive import Package
from engine.library.parsers.limits import MIB
from engine.library.parsers.number_format import BUILT_IN, GENERAL
from engine.library.parsers.xls_formats import Formats

# A longer sheet has a million cells or so; reading their formats would take too long.
_MAX_BYTES = 32 * MIB
_ROW, _SHORT, _NUMBER, _FORMULA = 0, 2, 5, 9
_FORMAT, _STYLE, _SHEET, _CELL_STYLES, _END_OF_CELL_STYLES = 44, 47, 156, 617, 618
_NOTHING = 0xFFFFFFFF


def formats_of(package: Package, main: str) -> dict[str, Formats]:
    """Returns formats by sheet name, for the workbook in the part `main`; empty if it cannot be read."""
    try:
        codes = _codes(package, main)
        parts = package.related(main, "worksheet")
        sheets = [(name, parts.get(relation, "")) for relation, name in _sheets(package.data(main) or b"")]
        return {
            name: dict(_cells(package.data(part) or b"", codes))
            for name, part in sheets
            if 0 < package.num_bytes(part) <= _MAX_BYTES
        }
    except (struct.error, IndexError, UnicodeDecodeError):
        return {}


def _codes(package: Package, main: str) -> list[str]:
    """Returns the format of each cell style."""
    own: dict[int, str] = {}
    styles: list[int] = []
    is_of_cells = False
    for part in package.related(main, "styles").values():
        for kind, content in _records(package.data(part) or b""):
            if kind == _FORMAT:
                own[struct.unpack_from("<H", content)[0]] = _text(content, 2)[0]
            elif kind in (_CELL_STYLES, _END_OF_CELL_STYLES):
                is_of_cells = kind == _CELL_STYLES
            elif kind == _STYLE and is_of_cells:
                styles.append(struct.unpack_from("<H", content, 2)[0])
    return [own.get(number) or BUILT_IN.get(number, GENERAL) for number in styles]


def _sheets(book: bytes) -> Iterator[tuple[str, str]]:
    """Yields the relationship id and the name of each sheet."""
    for kind, content in _records(book):
        if kind == _SHEET:
            relation, end = _text(content, 8)
            yield relation, _text(content, end)[0]


def _cells(sheet: bytes, codes: list[str]) -> Iterator[tuple[tuple[int, int], str]]:
    row = 0
    for kind, content in _records(sheet):
        if kind == _ROW:
            row = struct.unpack_from("<I", content)[0]
        elif kind in (_SHORT, _NUMBER, _FORMULA):
            column, style = struct.unpack_from("<II", content)
            # The style's number has three bytes; the fourth is another field.
            style &= 0xFFFFFF
            if style < len(codes) and codes[style] != GENERAL:
                yield (row, column), codes[style]


def _records(data: bytes) -> Iterator[tuple[int, memoryview]]:
    """Yields kind and content of each record; kind and length are numbers of variable size."""
    view, at = memoryview(data), 0
    while at < len(view):
        kind, at = _varying(view, at, 2)
        length, at = _varying(view, at, 4)
        yield kind, view[at : at + length]
        at += length


def _varying(view: memoryview, at: int, max_bytes: int) -> tuple[int, int]:
    """Reads a number with seven bits per byte, the lowest first; returns it and where it ends."""
    value = 0
    for index in range(max_bytes):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            break
    return value, at


def _text(content: memoryview, at: int) -> tuple[str, int]:
    """Reads a text after the number of its characters; returns it and where it ends."""
    (count,) = struct.unpack_from("<I", content, at)
    end = at + 4 + (0 if count == _NOTHING else 2 * count)
    return bytes(content[at + 4 : end]).decode("utf-16-le"), end
