"""Old presentations (.ppt, PowerPoint 97 to 2003): a page for each slide with its title and texts, then the notes.

The text of a slide's placeholders is in the outline, all other text in the shapes. Shapes also refer to the outline, so
they give the order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import encrypted, remarks
from engine.library.parsers.compound import opened
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder
from engine.library.parsers.ppt_records import Objects, Record, is_encrypted, records

_DOCUMENT, _SLIDE, _NOTES = 0x03E8, 0x03EE, 0x03F0
_LIST, _PLACED, _NOTES_OF = 0x0FF0, 0x03F3, 0x03F1
_SLIDES, _NOTES_PAGES = 0, 2
_DRAWING, _SHAPE, _TEXT_BOX, _SHAPE_DATA, _PLACE = 0x040C, 0xF004, 0xF00D, 0xF011, 0x0BC3
_KIND_OF_TEXT, _WIDE, _NARROW, _IN_OUTLINE = 0x0F9F, 0x0FA0, 0x0FA8, 0x0F9E
_OPTIONS, _IS_LONG, _DESCRIPTION = 0xF00B, 0x8000, 0xC381
_OPTION = struct.Struct("<HI")
_TAGS, _TAG, _TAG_DATA, _COMMENT, _STRING = 0x1388, 0x138A, 0x138B, 0x2EE0, 0x0FBA

_TITLES, _BODIES, _SAID = {0, 6}, {1, 5, 7, 8}, 2
_OTHER_TEXT = 4
# Placeholders of date, number, footer and header, which the master puts on every slide.
_FURNITURE = {7, 8, 9, 10}
_MAX_TITLE_CHARACTERS = 300


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, "The presentation") as file:
        current, main = file.data("Current User") or b"", file.data("PowerPoint Document") or b""
        if not is_encrypted(current):
            pages = tuple(_pages(Objects(current, main)))
            return ParsedDocument("ppt", file.title(), pages)
    return encrypted.parse(path, limits)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text and its kind, such as title or body."""

    kind: int
    text: str

    def paragraphs(self) -> Iterator[str]:
        """Returns the paragraphs with text; a lone asterisk is the placeholder of a date or a number."""
        lines = (line.replace("\x0b", "\n").strip() for line in self.text.split("\r"))
        return (line for line in lines if line and line != "*")


@dataclass(frozen=True, slots=True)
class _Placed:
    """An entry in the list of slides or notes: its object, the slide's number, its texts in the outline."""

    object_number: int
    slide_number: int
    outline: tuple[_Text, ...]


def _pages(objects: Objects) -> Iterator[ParsedPage]:
    document = objects.find(objects.document_number, _DOCUMENT)
    if document is None:
        raise DocumentUnreadable("The presentation is damaged: the list of its slides is missing.")
    notes = dict(_notes(objects, document))
    for number, placed in enumerate(_listed(document, _SLIDES), start=1):
        slide = objects.find(placed.object_number, _SLIDE)
        builder = PageBuilder()
        _write(builder, _texts(slide, placed.outline))
        _write_below(builder, "Notes", notes.get(placed.slide_number, ()))
        _write_below(builder, "Comments", _comments(slide))
        yield builder.page(number, f"slide {number}")


def _listed(document: Record, which: int) -> list[_Placed]:
    """Returns the slides in the order of the show, or the pages of notes; each once."""
    found: dict[int, _Placed] = {}
    for of_kind in document.children(_LIST):
        if of_kind.instance != which:
            continue
        head: Record | None = None
        texts: list[Record] = []
        for record in (*records(of_kind.data), None):
            if record is None or record.kind == _PLACED:
                if head is not None:
                    placed = _Placed(head.number(0), head.number(12), tuple(_read_texts(texts)))
                    found.setdefault(placed.object_number, placed)
                head, texts = record, []
            else:
                texts.append(record)
    return list(found.values())


def _notes(objects: Objects, document: Record) -> Iterator[tuple[int, list[str]]]:
    """Yields the speaker's notes, by the number of the slide."""
    for placed in _listed(document, _NOTES_PAGES):
        page = objects.find(placed.object_number, _NOTES)
        of = next(page.children(_NOTES_OF), None) if page is not None else None
        if of is not None:
            said = (text for text in _texts(page, placed.outline) if text.kind == _SAID)
            yield of.number(0), [line for text in said for line in text.paragraphs()]


def _texts(page: Record | None, outline: Sequence[_Text]) -> list[_Text]:
    """Returns all texts of a slide, its titles first."""
    found: list[_Text] = []
    used: set[int] = set()
    for shape in _shapes(page):
        for box in shape.children(_TEXT_BOX):
            inside = list(records(box.data))
            found += _read_texts(inside)
            for reference in (record.number(0) for record in inside if record.kind == _IN_OUTLINE):
                if reference < len(outline) and reference not in used:
                    used.add(reference)
                    found.append(outline[reference])
        found.append(_Text(_OTHER_TEXT, remarks.shown(_description(shape))))
    found += (text for index, text in enumerate(outline) if index not in used)
    return sorted(found, key=lambda text: text.kind not in _TITLES)


def _shapes(page: Record | None) -> Iterator[Record]:
    """Yields the shapes of a slide, also those in groups, but not those of the master."""
    drawings = page.children(_DRAWING) if page is not None else iter(())
    for shape in (shape for drawing in drawings for shape in drawing.below(_SHAPE)):
        places = (place for data in shape.children(_SHAPE_DATA) for place in data.children(_PLACE))
        if not any(len(place.data) > 4 and place.data[4] in _FURNITURE for place in places):
            yield shape


def _description(shape: Record) -> str:
    """Returns a shape's description from its options: first come fixed-size numbers, then longer values in order."""
    for options in shape.children(_OPTIONS):
        at = _OPTION.size * options.instance
        for index in range(min(options.instance, len(options.data) // _OPTION.size)):
            name, value = _OPTION.unpack_from(options.data, _OPTION.size * index)
            if name == _DESCRIPTION:
                return bytes(options.data[at : at + value]).decode("utf-16-le", "replace").rstrip("\0")
            at += value if name & _IS_LONG else 0
    return ""


def _read_texts(found: Iterable[Record]) -> Iterator[_Text]:
    """Yields each text with the kind in the record before it."""
    kind = _OTHER_TEXT
    for record in found:
        if record.kind == _KIND_OF_TEXT:
            kind = record.number(0)
        elif record.kind == _WIDE:
            yield _Text(kind, _wide(record))
        elif record.kind == _NARROW:
            yield _Text(kind, bytes(record.data).decode("latin-1"))


def _comments(slide: Record | None) -> Iterator[str]:
    if slide is None:
        return
    blobs = (blob for tags in slide.children(_TAGS) for tag in tags.children(_TAG) for blob in tag.children(_TAG_DATA))
    for one in (one for blob in blobs for one in blob.children(_COMMENT)):
        # 0 is the author, 1 the text.
        strings = {string.instance: _wide(string) for string in one.children(_STRING)}
        said = remarks.comment(strings.get(0, ""), strings.get(1, ""))
        if said:
            yield said


def _wide(record: Record) -> str:
    return bytes(record.data).decode("utf-16-le", "replace")


def _write(builder: PageBuilder, texts: Iterable[_Text]) -> None:
    for text in texts:
        lines = list(text.paragraphs())
        title = " ".join(" ".join(lines).split())
        if text.kind in _TITLES and len(title) <= _MAX_TITLE_CHARACTERS:
            builder.add("heading", title, 1)
            continue
        is_list = text.kind in _BODIES and len(lines) > 1
        for line in lines:
            builder.add("list_item" if is_list else "paragraph", line)


def _write_below(builder: PageBuilder, heading: str, said: Iterable[str]) -> None:
    """Writes text that is not on the slide itself, under a heading of its own."""
    for index, text in enumerate(said):
        if not index:
            builder.add("heading", heading, 2)
        builder.add("paragraph", text)
