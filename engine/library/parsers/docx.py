"""Word documents: headings, paragraphs, list items and tables in reading order, with what is anchored in them.

Text boxes, charts, notes, comments, and the descriptions and recognised text of pictures follow the paragraph or table
they are in; headers and footers come first.

Read from the XML itself rather than through python-docx, which loads every picture into memory, skips content
controls, text boxes and notes, and refuses strict Office Open XML. Elements are matched by their local names, which
the strict and the transitional form share. Deleted text of tracked changes is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument
from engine.errors import DocumentUnreadable
from engine.library.parsers import remarks
from engine.library.parsers.archive import Package, opened
from engine.library.parsers.docx_numbers import write_numbers
from engine.library.parsers.docx_styles import Style, is_item, level_of, styles_of
from engine.library.parsers.elements import attribute, child, descendants, elements, local, relation
from engine.library.parsers.embedded import EmbeddedPictures
from engine.library.parsers.graphics import REFERENCES, write_graphics
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import MAX_HEADING_CHARACTERS, ListingBuilder, is_layout, row

_REMOVED = {"del", "moveFrom", "delText", "instrText", "pPr", "rPr", "Fallback"}
_CHARACTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_NOTE_REFERENCES = {"footnoteReference", "endnoteReference", "commentReference"}
# Notes of other types are the lines above notes.
_NOTE_TYPES = ("", "normal")
# Shapes of VML, which Word used before 2007.
_OLD_SHAPES = {"shape", "rect", "roundrect", "oval", "group"}
# Elements that name a picture's part, today and before 2007.
_PICTURES = {"blip", "imagedata"}


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The Word document") as package:
        main = package.main("word/document.xml")
        root = package.xml(main)
        body = child(root, "body")
        if body is None:
            raise DocumentUnreadable("The Word document is damaged: its text is missing.")
        styles = styles_of(package)
        write_numbers(package, body, styles)
        pictures = EmbeddedPictures(package, limits, _shown(package, main, body))
        walk = _Walk(package, main, styles, _notes(package), pictures)
        walk.margins()
        walk.blocks(body)
        walk.builder.end_code()
        return pictures.told(ParsedDocument("docx", package.title(), (walk.builder.page(),)))


class _Walk:
    """One pass over the body in reading order."""

    def __init__(
        self,
        package: Package,
        part: str,
        styles: dict[str, Style],
        notes: dict[tuple[str, str], _Note],
        pictures: EmbeddedPictures,
    ) -> None:
        self.builder = ListingBuilder()
        self._package, self._part = package, part
        self._styles = styles
        self._notes = notes
        self._pictures = pictures
        self._has_title = False

    def margins(self) -> None:
        """Writes headers and footers, once, at the beginning: at the end they would belong to the last heading."""
        parts = (part for kind in ("header", "footer") for part in self._package.related(self._part, kind).values())
        texts = (" ".join(_cell_text(root).split()) for part in parts if (root := self._package.xml(part)) is not None)
        for text in dict.fromkeys(texts):
            # Without letters it is only a page number.
            if any(map(str.isalpha, text)):
                self.builder.add("paragraph", text)

    def blocks(self, container: etree._Element) -> None:
        for element in elements(container):
            name = local(element)
            if name == "p":
                self._paragraph(element)
            elif name == "tbl":
                self._table(element)
            elif name not in _REMOVED:
                self.blocks(element)

    def _paragraph(self, element: etree._Element) -> None:
        inline = _Inline()
        inline.gather(element)
        self._styled(element, "".join(inline.texts))
        for box in inline.boxes:
            self.blocks(box)
        self._beside(inline)

    def _beside(self, inline: _Inline) -> None:
        """Writes what is anchored in a text, except its text boxes."""
        for graphic in inline.graphics:
            self.builder.end_code()
            write_graphics(self.builder, self._package, self._part, graphic)
        for picture in inline.pictures:
            self._picture(picture)
        for kind, note_id in inline.notes:
            note = self._notes.get((kind, note_id))
            if note is not None and kind == "comment":
                said = remarks.comment(attribute(note.content, "author"), _cell_text(note.content))
                self.builder.add_comment(said)
            elif note is not None:
                self._note(note)

    def _picture(self, picture: str | etree._Element) -> None:
        """Writes a picture's description, or the text recognised in it."""
        if isinstance(picture, str):
            self.builder.add("paragraph", picture)
            return
        name = self._package.related(self._part, "image").get(_picture_id(picture), "")
        for kind, text in self._pictures.blocks(name):
            self.builder.add(kind, text)

    def _note(self, note: _Note) -> None:
        outer, self._part = self._part, note.part
        self.blocks(note.content)
        self._part = outer

    def _styled(self, element: etree._Element, text: str) -> None:
        properties = child(element, "pPr")
        style = self._styles.get(attribute(child(properties, "pStyle")), Style())
        level = level_of(properties) or style.level
        if style.is_code:
            self.builder.add_code_line(text)
        elif style.is_contents:
            return
        elif style.is_title:
            self._has_title = True
            self.builder.add("heading", text, level=1)
        elif level and len(text) <= MAX_HEADING_CHARACTERS:
            self.builder.add("heading", text, level + self._has_title)
        else:
            self.builder.add("list_item" if is_item(properties, style) else "paragraph", text)

    def _table(self, table: etree._Element) -> None:
        rows = [list(_cells(element)) for element in _rows(table)]
        if is_layout(rows, _cell_text):
            for cells in rows:
                for cell in cells:
                    self.blocks(cell)
            return
        for cells in rows:
            self.builder.add("table_row", row([_cell_text(cell) for cell in cells]))
        inline = _Inline()
        inline.gather(table)
        self._beside(inline)


@dataclass(frozen=True, slots=True)
class _Note:
    """A note or a comment, and the part it is in, which has pictures and charts of its own."""

    content: etree._Element
    part: str


class _Inline:
    """What a paragraph holds: its text, and the text boxes, charts, diagrams, pictures and notes anchored in it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.boxes: list[etree._Element] = []
        self.graphics: list[etree._Element] = []
        # Descriptions of pictures, each before the picture itself.
        self.pictures: list[str | etree._Element] = []
        self.notes: list[tuple[str, str]] = []

    def gather(self, container: etree._Element) -> None:
        for element in elements(container):
            name = local(element)
            if name == "t":
                self.texts.append(element.text or "")
            elif name in _CHARACTERS:
                self.texts.append(_CHARACTERS[name])
            elif name == "txbxContent":
                self.boxes.append(element)
            elif name in REFERENCES:
                self.graphics.append(element)
            elif name == "docPr":
                self._say(remarks.picture(element))
            elif name in _PICTURES:
                self.pictures.append(element)
            elif name in _NOTE_REFERENCES:
                self.notes.append((name.removesuffix("Reference"), attribute(element, "id")))
            elif name not in _REMOVED:
                if name in _OLD_SHAPES:
                    self._say(remarks.shown(attribute(element, "alt")))
                self.gather(element)

    def _say(self, words: str) -> None:
        if words:
            self.pictures.append(words)


def _notes(package: Package) -> dict[tuple[str, str], _Note]:
    notes: dict[tuple[str, str], _Note] = {}
    for kind in ("footnote", "endnote", "comment"):
        part = package.name_of(f"{kind}s+xml", f"word/{kind}s.xml")
        found = (note for note in elements(package.xml(part)) if attribute(note, "type") in _NOTE_TYPES)
        notes.update({(kind, attribute(note, "id")): _Note(note, part) for note in found})
    return notes


def _shown(package: Package, part: str, body: etree._Element) -> Iterator[str]:
    """Yields the part names of the text's pictures, as often as they are shown."""
    related = package.related(part, "image")
    for picture in descendants(body, *_PICTURES):
        # A fallback shows the same once more.
        if not any(local(around) == "Fallback" for around in picture.iterancestors()):
            yield related.get(_picture_id(picture), "")


def _picture_id(picture: etree._Element) -> str:
    return attribute(picture, "embed") if local(picture) == "blip" else relation(picture)


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    """Yields the rows of a table, but not those of tables inside its cells."""
    yield from _nested(table, "tr")


def _cells(table_row: etree._Element) -> Iterator[etree._Element]:
    yield from _nested(table_row, "tc")


def _nested(container: etree._Element, name: str) -> Iterator[etree._Element]:
    for element in elements(container):
        if local(element) == name:
            yield element
        elif local(element) not in _REMOVED | {"tbl", "p"}:
            yield from _nested(element, name)


def _cell_text(cell: etree._Element) -> str:
    texts: list[str] = []
    for element in elements(cell):
        if local(element) == "p":
            inline = _Inline()
            inline.gather(element)
            texts += ["".join(inline.texts), *(_cell_text(box) for box in inline.boxes)]
        elif local(element) not in _REMOVED:
            texts.append(_cell_text(element))
    return " ".join(filter(None, texts))
