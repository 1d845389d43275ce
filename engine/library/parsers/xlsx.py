"""Excel workbooks: a page for each sheet, its cells as the sheet shows them, rows with their numbers and remarks.

The XML is streamed: measured on 300,000 cells, that takes 60 % of the time of openpyxl's read-only mode, which knows
number formats too. Calamine, which does not, takes a third of ours; so it reads what is very large, and the binary
workbooks.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import sheet_remarks, xls, xlsb_formats
from engine.library.parsers.archive import Package, opened
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local, relation
from engine.library.parsers.limits import MIB, Limits
from engine.library.parsers.number_format import BUILT_IN, GENERAL, shown
from engine.library.parsers.sheets import Row, Sheets

_COLUMN = re.compile(r"[A-Z]{1,3}")
_MAX_COLUMNS = 16_384
_ESCAPED = re.compile(r"_x([0-9A-F]{4})_")
# A sheet with longer XML has a million cells or so; it is read without formats, which is faster.
_STREAMED_BYTES = 64 * MIB


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The workbook") as package:
        main, title = package.main("xl/workbook.xml"), package.title()
        is_binary = main.lower().endswith(".bin")
        if not is_binary and not _is_large(package):
            return ParsedDocument("xlsx", title, _streamed(package, main, limits), "row")
        formats = xlsb_formats.formats_of(package, main) if is_binary else {}
    return ParsedDocument("xlsx", title, xls.pages(path, limits, formats), "row")


def _is_large(package: Package) -> bool:
    return any(package.num_bytes(name) > _STREAMED_BYTES for name in package.names() if "/worksheets/" in name)


def _streamed(package: Package, main: str, limits: Limits) -> tuple[ParsedPage, ...]:
    book = package.xml(main)
    if book is None:
        raise DocumentUnreadable("The workbook is damaged: the list of its sheets is missing.")
    parts = package.related(main, "worksheet")
    cells = _Cells(package, main, is_1904=attribute(child(book, "workbookPr"), "date1904") in ("1", "true"))
    sheets, people = Sheets(limits), sheet_remarks.people_of(package, main)
    for sheet in children(child(book, "sheets"), "sheet"):
        part = parts.get(relation(sheet), "")
        # A very hidden sheet belongs to a program; Excel's menus cannot show it.
        if part and attribute(sheet, "state") != "veryHidden":
            sheets.add(attribute(sheet, "name"), cells.rows(part), sheet_remarks.of_sheet(package, part, people))
    return tuple(sheets.pages)


class _Cells:
    """The cells of a workbook, with the texts and formats that its sheets share."""

    def __init__(self, package: Package, main: str, *, is_1904: bool) -> None:
        self._package = package
        self._is_1904 = is_1904
        self._texts = list(self._shared_texts(main))
        self._formats = list(self._shared_formats(main))

    def rows(self, part: str) -> Iterator[Row]:
        """Yields the rows of a sheet that have cells."""
        number = 0
        for element in self._streamed(part, "row"):
            given = element.get("r", "")
            number = int(given) if given.isdigit() else number + 1
            # By full names, which lxml filters natively: there may be a million of them.
            space = element.tag.removesuffix("row")
            cells: list[str] = []
            for cell in element.iterchildren(f"{space}c"):
                num_empty = _column(cell.get("r", "").rstrip(string.digits)) - len(cells)
                if num_empty > 0:
                    cells += [""] * num_empty
                cells.append(self._text(cell, space))
            yield number, cells

    def _text(self, cell: etree._Element, space: str) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _rich(child(cell, "is"))
        found = next(cell.iterchildren(f"{space}v"), None)
        said = (found.text or "") if found is not None else ""
        if not said:
            return ""
        if kind == "s":
            return self._texts[int(said)] if said.isdigit() and int(said) < len(self._texts) else ""
        if kind == "b":
            return "TRUE" if said == "1" else "FALSE"
        return self._number(said, cell.get("s", "")) if kind == "n" else _unescaped(said)

    def _number(self, said: str, style: str) -> str:
        code = self._formats[int(style)] if style.isdigit() and int(style) < len(self._formats) else GENERAL
        try:
            return shown(float(said), code, is_1904=self._is_1904)
        except ValueError:
            return said

    def _shared_texts(self, main: str) -> Iterator[str]:
        for part in self._package.related(main, "sharedStrings").values():
            yield from map(_rich, self._streamed(part, "si"))

    def _shared_formats(self, main: str) -> Iterator[str]:
        """Yields the number format of each cell style."""
        for part in self._package.related(main, "styles").values():
            root = self._package.xml(part)
            own = {
                attribute(one, "numFmtId"): attribute(one, "formatCode")
                for one in children(child(root, "numFmts"), "numFmt")
            }
            for style in children(child(root, "cellXfs"), "xf"):
                number = attribute(style, "numFmtId")
                yield own.get(number) or BUILT_IN.get(int(number) if number.isdigit() else 0, GENERAL)

    def _streamed(self, part: str, name: str) -> Iterator[etree._Element]:
        """Yields the elements of that name one after the other, so that a long sheet is never in memory as a whole."""
        stream = self._package.stream(part)
        if stream is None:
            return
        with stream:
            for _, element in etree.iterparse(
                stream,
                tag=("{*}" + name),
                resolve_entities=False,
                no_network=True,
                load_dtd=False,
                remove_comments=True,
            ):
                yield element
                element.clear()
                while (previous := element.getprevious()) is not None:
                    previous.getparent().remove(previous)


@functools.lru_cache(maxsize=_MAX_COLUMNS)
def _column(letters: str) -> int:
    """Returns the index of a column such as "AB"; -1 for a cell without a reference, which follows the previous one."""
    if not _COLUMN.fullmatch(letters):
        return -1
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - ord("A") + 1
    return index - 1


def _rich(element: etree._Element | None) -> str:
    """Returns a text in runs, without phonetic hints (ruby)."""
    said: list[str] = []
    for part in elements(element):
        if local(part) == "t":
            said.append(part.text or "")
        elif local(part) == "r":
            said += [text.text or "" for text in descendants(part, "t")]
    return _unescaped("".join(said))


def _unescaped(text: str) -> str:
    """Replaces escapes such as `_x000D_`, which stand for characters that XML cannot hold."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text) if "_x" in text else text
