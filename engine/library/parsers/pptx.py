"""Presentations: a page for each slide, its title as heading, then its text, tables, charts and diagrams.

Then follow the speaker's notes and the comments. Read from the XML itself, like Word documents: so descriptions and
recognised text of pictures are included, and strict and transitional Office Open XML are read alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers import remarks
from engine.library.parsers.archive import Package, opened
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local, relation
from engine.library.parsers.embedded import EmbeddedPictures
from engine.library.parsers.graphics import flat, paragraphs, write_graphics
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder, row

_SLIDE_NAME = re.compile(r"ppt/slides/slide(\d+)\.xml", re.I)
_TITLES = {"title", "ctrTitle"}
# Placeholders that the master puts on every slide.
_FURNITURE = {"dt", "ftr", "hdr", "sldNum", "sldImg"}
_BULLETED = {"", "body", "obj"}
_MAX_TITLE_CHARACTERS = 300


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The presentation") as package:
        main = package.main("ppt/presentation.xml")
        root = package.xml(main)
        if root is None:
            raise DocumentUnreadable("The presentation is damaged: the list of its slides is missing.")
        parts, authors = _slides(package, main, root), _authors(package, main)
        shown = (name for part in parts for name in set(package.related(part, "image").values()))
        pictures = EmbeddedPictures(package, limits, shown)
        pages = tuple(_page(package, part, number, authors, pictures) for number, part in enumerate(parts, start=1))
        return pictures.told(ParsedDocument("pptx", package.title(), pages))


def _slides(package: Package, main: str, root: etree._Element) -> list[str]:
    """Returns the slides' parts in the order of the show."""
    related = package.related(main, "slide")
    parts = [related.get(relation(element), "") for element in children(child(root, "sldIdLst"), "sldId")]
    if any(parts):
        return [part for part in parts if part]
    found = [(int(match.group(1)), name) for name in package.names() if (match := _SLIDE_NAME.fullmatch(name))]
    return [name for _, name in sorted(found)]


def _authors(package: Package, main: str) -> dict[str, str]:
    """Returns the authors of comments by id; comments since 2021 and older ones have separate ids."""
    parts = (*package.related(main, "commentAuthors").values(), *package.related(main, "authors").values())
    found = (author for part in parts for author in elements(package.xml(part)))
    return {attribute(author, "id"): attribute(author, "name") for author in found}


def _page(
    package: Package, part: str, number: int, authors: Mapping[str, str], pictures: EmbeddedPictures
) -> ParsedPage:
    slide = _Slide(package, part, pictures)
    slide.read()
    slide.notes()
    slide.comments(authors)
    return slide.builder.page(number, f"slide {number}")


class _Slide:
    """One slide that is written as a page; a slide whose part is missing stays empty."""

    def __init__(self, package: Package, part: str, pictures: EmbeddedPictures) -> None:
        self.builder = PageBuilder()
        self._package = package
        self._part = part
        self._pictures = pictures

    def read(self) -> None:
        shapes = list(_shapes(child(self._package.xml(self._part), "cSld", "spTree")))
        titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
        for shape in titles:
            self._title(shape)
        for shape in shapes:
            if shape not in titles:
                self._shape(shape)

    def notes(self) -> None:
        """Writes the speaker's notes, under a heading of their own."""
        for part in self._package.related(self._part, "notesSlide").values():
            said = [
                text
                for shape in _shapes(child(self._package.xml(part), "cSld", "spTree"))
                if _placeholder(shape) not in _FURNITURE
                for _, text in paragraphs(child(shape, "txBody"))
            ]
            if said:
                self.builder.add("heading", "Notes", 2)
            for text in said:
                self.builder.add("paragraph", text)

    def comments(self, authors: Mapping[str, str]) -> None:
        """Writes the comments on the slide with their replies, under a heading of their own."""
        parts = self._package.related(self._part, "comments").values()
        found = (one for part in parts for one in descendants(self._package.xml(part), "cm", "reply"))
        said = [text for one in found if (text := _comment(one, authors))]
        if said:
            self.builder.add("heading", "Comments", 2)
        for text in said:
            self.builder.add("paragraph", text)

    def _title(self, shape: etree._Element) -> None:
        text = " ".join(text for _, text in paragraphs(child(shape, "txBody")))
        if len(text) <= _MAX_TITLE_CHARACTERS:
            self.builder.add("heading", text, 1)
        else:
            self.builder.add("paragraph", text)

    def _shape(self, shape: etree._Element) -> None:
        kind = _placeholder(shape)
        if kind in _FURNITURE:
            return
        self._content(shape, kind)
        self.builder.add("paragraph", remarks.picture(_properties(shape)))
        name = attribute(child(shape, "blipFill", "blip"), "embed")
        for written, text in self._pictures.blocks(self._package.related(self._part, "image").get(name, "")):
            self.builder.add(written, text)

    def _content(self, shape: etree._Element, kind: str | None) -> None:
        if local(shape) == "graphicFrame":
            self._graphic(shape)
            return
        texts = list(paragraphs(child(shape, "txBody")))
        is_list = kind in _BULLETED and len(texts) > 1
        for is_bulleted, text in texts:
            self.builder.add("list_item" if is_list and is_bulleted else "paragraph", text)

    def _graphic(self, frame: etree._Element) -> None:
        """Writes a table, a chart or a diagram."""
        for table in descendants(frame, "tbl"):
            for line in children(table, "tr"):
                self.builder.add("table_row", row([flat(child(cell, "txBody")) for cell in children(line, "tc")]))
        write_graphics(self.builder, self._package, self._part, frame)


def _shapes(tree: etree._Element | None) -> Iterator[etree._Element]:
    """Yields the shapes of a slide in reading order, including groups and the shapes in them."""
    for element in elements(tree):
        name = local(element)
        if name in ("sp", "graphicFrame", "pic", "grpSp"):
            yield element
        if name in ("grpSp", "AlternateContent", "Choice"):
            # An alternative's fallback is a picture of the same.
            yield from _shapes(element)


def _properties(shape: etree._Element) -> etree._Element | None:
    """Returns the properties with a shape's name and description."""
    return child(next((one for one in elements(shape) if local(one).startswith("nv")), None), "cNvPr")


def _comment(element: etree._Element, authors: Mapping[str, str]) -> str:
    plain = child(element, "text")
    said = (plain.text or "") if plain is not None else flat(child(element, "txBody"))
    return remarks.comment(authors.get(attribute(element, "authorId"), ""), said)


def _placeholder(shape: etree._Element) -> str | None:
    """Returns the kind of a placeholder ("title"; "" for the body); None if the shape is none."""
    place = child(shape, "nvSpPr", "nvPr", "ph")
    return None if place is None else attribute(place, "type")
