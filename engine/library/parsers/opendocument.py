"""OpenDocument files: texts in reading order, presentations by slide, drawings by page, spreadsheets by row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import nested, xls
from engine.library.parsers.archive import Package, opened
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local, whole_number
from engine.library.parsers.embedded import EmbeddedPictures
from engine.library.parsers.limits import MIB, Limits
from engine.library.parsers.markup import ListingBuilder, sane_title
from engine.library.parsers.opendocument_locks import is_locked, unlocked
from engine.library.parsers.opendocument_text import Flow, comment, flat, picture_name, styles
from engine.library.parsers.sheets import Row, Sheets

# Bodies that consist of slides or pages: their format, and what one is called.
_PAGED = {"presentation": ("odp", "slide"), "drawing": ("odg", "page")}
_FURNITURE = {"date-time", "footer", "header", "page-number"}
_NOTES_FURNITURE = {"page", "handout", *_FURNITURE}
_ROW_GROUPS = {"table-header-rows", "table-rows", "table-row-group"}
# The widest spreadsheet; a cell that claims more repetitions is an attack.
_MAX_COLUMNS = 16_384
# A spreadsheet with longer XML would need too much memory as a tree.
_TREE_BYTES = 64 * MIB


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The document") as package:
        if is_locked(package):
            inner = unlocked(package, limits)
            if isinstance(inner, bytes):
                return nested.parse(inner, "", limits)
            return _read(inner, _title(inner), limits)
        title = _title(package)
        if package.num_bytes("content.xml") <= _TREE_BYTES:
            return _read(package, title, limits)
    return ParsedDocument("ods", title, xls.pages(path, limits, {}), "row")


def _read(package: Package, title: str, limits: Limits) -> ParsedDocument:
    root = package.xml("content.xml")
    pictures = EmbeddedPictures(package, limits, map(picture_name, descendants(root, "image")))
    for body in elements(child(root, "body")):
        if local(body) == "spreadsheet":
            return ParsedDocument("ods", title, _sheets(body, limits), "row")
        if local(body) in _PAGED:
            format_, word = _PAGED[local(body)]
            pages = _slides(body, word, styles(package), pictures)
            return pictures.told(ParsedDocument(format_, title, tuple(pages)))
        flow = Flow(ListingBuilder(), styles(package), pictures)
        flow.blocks(body)
        flow.builder.end_code()
        return pictures.told(ParsedDocument("odt", title, (flow.builder.page(),)))
    raise DocumentUnreadable("The document is damaged: its text is missing.")


def _title(package: Package) -> str:
    title = child(package.xml("meta.xml"), "meta", "title")
    return sane_title(title.text or "") if title is not None else ""


def _slides(body: etree._Element, word: str, named: dict[str, str], pictures: EmbeddedPictures) -> Iterator[ParsedPage]:
    """Yields the slides of a presentation or the pages of a drawing; `word` is what one is called."""
    for number, slide in enumerate(children(body, "page"), start=1):
        flow = Flow(ListingBuilder(), named, pictures)
        frames = list(_shapes(slide))
        for frame in sorted(frames, key=lambda frame: attribute(frame, "class") != "title"):
            _shape(flow, frame)
        _notes(flow, child(slide, "notes"))
        yield flow.builder.page(number, f"{word} {number}")


def _shapes(container: etree._Element) -> Iterator[etree._Element]:
    for element in elements(container):
        if local(element) == "g":
            yield from _shapes(element)
        elif local(element) != "notes" and attribute(element, "class") not in _FURNITURE:
            yield element


def _shape(flow: Flow, shape: etree._Element) -> None:
    if attribute(shape, "class") == "title":
        flow.builder.add("heading", flat(shape), 1)
    elif local(shape) == "annotation":
        flow.builder.add("paragraph", comment(shape))
    else:
        flow.blocks(shape)
        flow.builder.end_code()


def _notes(flow: Flow, notes: etree._Element | None) -> None:
    frames = [frame for frame in elements(notes) if attribute(frame, "class") not in _NOTES_FURNITURE]
    if any(map(flat, frames)):
        flow.builder.add("heading", "Notes", 2)
    for frame in frames:
        _shape(flow, frame)


def _sheets(body: etree._Element, limits: Limits) -> tuple[ParsedPage, ...]:
    sheets = Sheets(limits)
    for table in children(body, "table"):
        sheets.add(attribute(table, "name"), _rows(table), _comments(table))
    return tuple(sheets.pages)


def _comments(table: etree._Element) -> dict[int, list[str]]:
    """Returns the comments on cells, by row number."""
    found: dict[int, list[str]] = {}
    number = 1
    for element in _row_elements(table):
        said = [text for annotation in element.iter("{*}annotation") if (text := comment(annotation))]
        if said:
            found[number] = said
        number += _repeated(element, "number-rows-repeated")
    return found


def _rows(table: etree._Element) -> Iterator[Row]:
    """Yields the filled rows of a sheet, repeated ones as often as they count."""
    number = 1
    for element in _row_elements(table):
        cells = _cells(element)
        times = _repeated(element, "number-rows-repeated")
        if cells:
            yield from ((number + index, cells) for index in range(times))
        number += times


def _row_elements(container: etree._Element) -> Iterator[etree._Element]:
    for element in elements(container):
        if local(element) == "table-row":
            yield element
        elif local(element) in _ROW_GROUPS:
            yield from _row_elements(element)


def _cells(element: etree._Element) -> list[str]:
    """Returns the text of the cells, without the thousands of empty ones at the end."""
    cells: list[str] = []
    num_empty = 0
    for cell in elements(element):
        times = min(_repeated(cell, "number-columns-repeated"), _MAX_COLUMNS - len(cells))
        text = (flat(cell) or attribute(cell, "value")) if local(cell) == "table-cell" else ""
        if not text:
            num_empty = min(num_empty + times, _MAX_COLUMNS)
            continue
        cells += [""] * num_empty + [text] * times
        num_empty = 0
    return cells


def _repeated(element: etree._Element, name: str) -> int:
    return max(1, whole_number(attribute(element, name), 1))
