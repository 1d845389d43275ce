"""What an old Word file says of its text: where its pieces lie, and which style each paragraph has ([MS-DOC]).

The text is a sequence of pieces that may be anywhere in the file, with one or two bytes per character. A paragraph's
properties are stored by the file position of the mark that ends it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from engine.errors import DocumentUnreadable, DocumentUnsupported
from engine.library.parsers.paragraphs import Style

_WORD_97 = 0x00C1
_IDENTITY = 0xA5EC
_FLAGS_AT, _COUNTS_AT = 0x0A, 0x4C
_STYLES_AT, _PROPERTIES_AT, _PIECES_AT = 0xA2, 0x102, 0x1A2
_ENCRYPTED, _SECOND_TABLE = 0x0100, 0x0200
_COMPRESSED = 0x40000000
_PAGE_BYTES = 512
_MAX_CHARACTERS = 2**28

# Built-in styles by the numbers that they have in every language.
_TITLE, _CONTENTS = 62, range(19, 28)
_LISTS = {*range(48, 58), 47}
_NO_STYLE = 0xFFF
_NO_LEVEL = 9

_IN_TABLE, _ROW_END, _OUTLINE_LEVEL, _LIST = 0x2416, 0x2417, 0x2640, 0x460B
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """The properties at a paragraph's end mark; a row of a table ends with a mark of its own."""

    style: Style = Style()  # noqa: RUF009 - frozen
    is_row_end: bool = False
    is_contents: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    """`length` characters of the text that begin at `position` in the file."""

    length: int
    position: int
    width: int


class Structure:
    """The text of a file and the properties of its paragraphs.

    Args:
        main: The stream "WordDocument".
        table: The stream named by `table_name`.
    """

    def __init__(self, main: bytes, table: bytes) -> None:
        self._main, self._table = main, table
        self._pieces = list(self._read_pieces())
        self._starts = [start for start, _ in self._pieces]
        # One character per position: characters beyond the basic plane stay two surrogates.
        self.text = "".join(self._piece_text(piece) for _, piece in self._pieces)
        self._styles = list(self._read_styles())
        runs = sorted(self._read_runs(), key=lambda run: run[0])
        self._run_starts = [start for start, _ in runs]
        self._runs = [paragraph for _, paragraph in runs]

    def shown(self) -> list[tuple[int, int]]:
        """Returns the spans of visible text: the body with its footnotes, then endnotes and text boxes."""
        body, footnotes, headers, _, comments, endnotes, boxes = _numbers(self._main, _COUNTS_AT, 7)
        rest = body + footnotes + headers + comments
        return [(0, body + footnotes), (rest, rest + endnotes + boxes)]

    def comments(self) -> tuple[int, int]:
        """Returns the span of the comments, which follow one another, each after a mark."""
        body, footnotes, headers, _, comments = _numbers(self._main, _COUNTS_AT, 5)
        return body + footnotes + headers, body + footnotes + headers + comments

    def paragraph(self, position: int) -> Paragraph:
        """Returns the paragraph whose end mark is at that position of the text."""
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return Paragraph()
        start, piece = self._pieces[index]
        run = bisect_right(self._run_starts, piece.position + (position - start) * piece.width) - 1
        return self._runs[run] if run >= 0 else Paragraph()

    def _read_pieces(self) -> Iterator[tuple[int, _Piece]]:
        """Yields each piece with its position in the text."""
        start, length = _numbers(self._main, _PIECES_AT, 2)
        table = self._table[start : start + length]
        at = 0
        while at < len(table) and table[at] == 1:
            at += 3 + struct.unpack_from("<H", table, at + 1)[0]
        size = _numbers(table, at + 1, 1)[0]
        count = (size - 4) // 12
        positions = _numbers(table, at + 5, count + 1)
        for index, (first, last) in enumerate(pairwise(positions)):
            place = _numbers(table, at + 5 + 4 * (count + 1) + 8 * index + 2, 1)[0]
            if not 0 <= last - first <= _MAX_CHARACTERS:
                raise DocumentUnreadable("The Word document is damaged: the order of its text is lost.")
            is_narrow = bool(place & _COMPRESSED)
            position = (place & (_COMPRESSED - 1)) // (2 if is_narrow else 1)
            yield first, _Piece(last - first, position, 1 if is_narrow else 2)

    def _piece_text(self, piece: _Piece) -> str:
        data = self._main[piece.position : piece.position + piece.length * piece.width]
        if piece.width == 1:
            return data.decode("cp1252", "replace").ljust(piece.length, "\0")
        units = struct.unpack(f"<{len(data) // 2}H", data[: len(data) // 2 * 2])
        return "".join(map(chr, units)).ljust(piece.length, "\0")

    def _read_runs(self) -> Iterator[tuple[int, Paragraph]]:
        """Yields the file position at which each paragraph begins, with its properties."""
        start, length = _numbers(self._main, _PROPERTIES_AT, 2)
        count = max(0, (length - 4) // 8)
        for number in _numbers(self._table, start + 4 * (count + 1), count):
            page = self._main[(number & 0x3FFFFF) * _PAGE_BYTES :][:_PAGE_BYTES]
            if len(page) == _PAGE_BYTES:
                yield from self._page_runs(page)

    def _page_runs(self, page: bytes) -> Iterator[tuple[int, Paragraph]]:
        count = min(page[-1], (_PAGE_BYTES - 5) // 17)
        positions = _numbers(page, 0, count + 1)
        for index in range(count):
            at = page[4 * (count + 1) + 13 * index] * 2
            yield positions[index], self._paragraph(page, at) if at else Paragraph(self._style(0))

    def _paragraph(self, page: bytes, at: int) -> Paragraph:
        """Reads an entry of a page of properties: a style, and differences from it."""
        length = page[at] * 2 - 1
        if page[at] == 0:
            at, length = at + 1, page[at + 1] * 2
        data = page[at + 1 : at + 1 + max(0, length)]
        number = struct.unpack_from("<H", data)[0] if len(data) >= 2 else 0
        paragraph = Paragraph(self._style(number), is_contents=self._is_contents(number))
        for sprm, operand in _modifiers(data[2:]):
            paragraph = _modified(paragraph, sprm, operand)
        return paragraph

    def _style(self, number: int) -> Style:
        return self._styles[number][1] if number < len(self._styles) else Style()

    def _is_contents(self, number: int) -> bool:
        return number < len(self._styles) and self._styles[number][0] in _CONTENTS

    def _read_styles(self) -> Iterator[tuple[int, Style]]:
        """Yields each style's built-in number and its effect on paragraphs; a style inherits from its base."""
        start, length = _numbers(self._main, _STYLES_AT, 2)
        table = self._table[start : start + length]
        if len(table) < 8:
            return
        header, count = struct.unpack_from("<HH", table)
        found: list[tuple[int, int]] = []
        at = 2 + header
        for _ in range(count):
            if at + 2 > len(table):
                break
            size = struct.unpack_from("<H", table, at)[0]
            words = struct.unpack_from("<HH", table, at + 2) if size >= 4 and at + 6 <= len(table) else (_NO_STYLE, 0)
            found.append((words[0] & 0xFFF, words[1] >> 4 if size >= 4 else _NO_STYLE))
            at += 2 + size + size % 2
        for number in range(len(found)):
            yield _inherited(found, number)


def table_name(main: bytes) -> str:
    """Returns the name of the stream with the tables.

    Raises:
        DocumentUnsupported: The file is older than Word 97.
        DocumentUnreadable: It is no Word file.
    """
    if len(main) < _PIECES_AT + 8 or struct.unpack_from("<H", main)[0] != _IDENTITY:
        raise DocumentUnreadable("The Word document is damaged: its beginning is missing.")
    if struct.unpack_from("<H", main, 2)[0] < _WORD_97:
        raise DocumentUnsupported("The document was written by Word 95 or older.", "Save it as .docx.")
    return "1Table" if struct.unpack_from("<H", main, _FLAGS_AT)[0] & _SECOND_TABLE else "0Table"


def is_encrypted(main: bytes) -> bool:
    return len(main) > _FLAGS_AT + 2 and bool(struct.unpack_from("<H", main, _FLAGS_AT)[0] & _ENCRYPTED)


def _numbers(data: bytes, at: int, count: int) -> tuple[int, ...]:
    """Reads 32-bit numbers.

    Raises:
        DocumentUnreadable: They would be outside of the data.
    """
    if count < 0 or at + 4 * count > len(data):
        raise DocumentUnreadable("The Word document is damaged: it ends too early.")
    return struct.unpack_from(f"<{count}I", data, at)


def _inherited(styles: list[tuple[int, int]], number: int) -> tuple[int, Style]:
    """Returns the first style with a known meaning among a style and its ancestors."""
    seen: set[int] = set()
    while number < len(styles) and number not in seen:
        seen.add(number)
        built_in, base = styles[number]
        if 1 <= built_in <= 9:
            return built_in, Style(level=built_in)
        if built_in == _TITLE:
            return built_in, Style(is_title=True)
        if built_in in _LISTS or built_in in _CONTENTS:
            return built_in, Style(is_item=built_in in _LISTS)
        number = base
    return _NO_STYLE, Style()


def _modifiers(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 2 <= len(data):
        sprm = struct.unpack_from("<H", data, at)[0]
        at += 2
        size = _OPERAND_BYTES.get(sprm >> 13)
        if size is None:
            size = 1 + data[at] if at < len(data) else 1
        yield sprm, data[at : at + size]
        at += size


def _modified(paragraph: Paragraph, sprm: int, operand: bytes) -> Paragraph:
    value = int.from_bytes(operand, "little")
    style = paragraph.style
    if sprm == _IN_TABLE:
        return replace(paragraph, style=replace(style, in_table=bool(value)))
    if sprm == _ROW_END:
        return replace(paragraph, is_row_end=bool(value))
    if sprm == _OUTLINE_LEVEL:
        return replace(paragraph, style=replace(style, level=value + 1 if value < _NO_LEVEL else 0))
    return replace(paragraph, style=replace(style, is_item=bool(value))) if sprm == _LIST else paragraph
