"""Presentations: a page for each slide, its title as heading, then its text, tables, charts and diagrams, then notes.

Read from the XML itself, like Word documents: pictures stay unread, and both forms of Office Open XML are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from engine.core import ParsedDocument, ParsedPage
from engine.errors import DocumentUnreadable
from engine.library.parsers.archive import Package, opened
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local, relation
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder, row

_SLIDE_NAME = re.compile(r"ppt/slides/slide(\d+)\.xml", re.I)
_TITLES = {"title", "ctrTitle"}
# What the master puts on every slide.
_FURNITURE = {"dt", "ftr", "hdr", "sldNum", "sldImg"}
_BULLETED = {"", "body", "obj"}
_MAX_TITLE_CHARACTERS = 300


def parse(path: Path, limits: Limits) -> ParsedDocument:
    with opened(path, limits, "The presentation") as package:
        main = package.main("ppt/presentation.xml")
        root = package.xml(main)
        if root is None:
            raise DocumentUnreadable("The presentation is damaged: the list of its slides is missing.")
        parts = _slides(package, main, root)
        pages = tuple(_page(package, part, number) for number, part in enumerate(parts, start=1))
        return ParsedDocument("pptx", package.title(), pages)


def _slides(package: Package, main: str, root: etree._Element) -> list[str]:
    """The slides' parts in the order of the show."""
    related = package.related(main, "slide")
    parts = [related.get(relation(element), "") for element in children(child(root, "sldIdLst"), "sldId")]
    if any(parts):
        return [part for part in parts if part]
    found = [(int(match.group(1)), name) for name in package.names() if (match := _SLIDE_NAME.fullmatch(name))]
    return [name for _, name in sorted(found)]


def _page(package: Package, part: str, number: int) -> ParsedPage:
    slide = _Slide(package, part)
    slide.read()
    slide.notes()
    return slide.builder.page(number, f"slide {number}")


class _Slide:
    """One slide on its way into a page; a slide whose part is missing stays empty."""

    def __init__(self, package: Package, part: str) -> None:
        self.builder = PageBuilder()
        self._package = package
        self._part = part

    def read(self) -> None:
        shapes = list(_shapes(child(self._package.xml(self._part), "cSld", "spTree")))
        titles = [shape for shape in shapes if _placeholder(shape) in _TITLES]
        for shape in titles:
            self._title(shape)
        for shape in shapes:
            if shape not in titles:
                self._shape(shape)

    def notes(self) -> None:
        """What the speaker says, under a heading of its own."""
        for part in self._package.related(self._part, "notesSlide").values():
            said = [
                text
                for shape in _shapes(child(self._package.xml(part), "cSld", "spTree"))
                if _placeholder(shape) not in _FURNITURE
                for _, text in _paragraphs(child(shape, "txBody"))
            ]
            if said:
                self.builder.add("heading", "Notes", 2)
            for text in said:
                self.builder.add("paragraph", text)

    def _title(self, shape: etree._Element) -> None:
        text = " ".join(text for _, text in _paragraphs(child(shape, "txBody")))
        if len(text) <= _MAX_TITLE_CHARACTERS:
            self.builder.add("heading", text, 1)
        else:
            self.builder.add("paragraph", text)

    def _shape(self, shape: etree._Element) -> None:
        kind = _placeholder(shape)
        if kind in _FURNITURE:
            return
        if local(shape) == "graphicFrame":
            self._graphic(shape)
            return
        paragraphs = list(_paragraphs(child(shape, "txBody")))
        is_list = kind in _BULLETED and len(paragraphs) > 1
        for is_bulleted, text in paragraphs:
            self.builder.add("list_item" if is_list and is_bulleted else "paragraph", text)

    def _graphic(self, frame: etree._Element) -> None:
        """A table, a chart or a diagram."""
        for table in descendants(frame, "tbl"):
            for line in children(table, "tr"):
                self.builder.add("table_row", row([_flat(child(cell, "txBody")) for cell in children(line, "tc")]))
        for element in descendants(frame, "chart", "relIds"):
            name = "id" if local(element) == "chart" else "dm"
            part = self._package.related(self._part).get(attribute(element, name), "")
            root = self._package.xml(part) if part else None
            if local(element) == "chart":
                self._chart(root)
            else:
                self._diagram(root)

    def _chart(self, root: etree._Element | None) -> None:
        title = child(root, "chart", "title")
        self.builder.add("paragraph", " ".join(text.text or "" for text in descendants(title, "t")))
        series = list(descendants(root, "ser"))
        if series:
            self.builder.add("table_row", row(["", *_points(child(series[0], "cat"))]))
        for one in series:
            self.builder.add("table_row", row([" ".join(_points(child(one, "tx"))), *_points(child(one, "val"))]))

    def _diagram(self, root: etree._Element | None) -> None:
        for point in descendants(root, "pt"):
            self.builder.add("list_item", _flat(child(point, "t")))


def _shapes(tree: etree._Element | None) -> Iterator[etree._Element]:
    """The shapes of a slide in reading order, those inside groups too."""
    for element in elements(tree):
        name = local(element)
        if name in ("sp", "graphicFrame"):
            yield element
        elif name in ("grpSp", "AlternateContent", "Choice"):
            # An alternative's fallback is a picture of the same.
            yield from _shapes(element)


def _placeholder(shape: etree._Element) -> str | None:
    """What a shape is there for ("title"; "" for the body); None where it is not one of the layout's places."""
    place = child(shape, "nvSpPr", "nvPr", "ph")
    return None if place is None else attribute(place, "type")


def _paragraphs(body: etree._Element | None) -> Iterator[tuple[bool, str]]:
    """Each paragraph with text, and whether it may bear a bullet."""
    for paragraph in children(body, "p"):
        text = "".join(_runs(paragraph)).strip()
        if text:
            yield child(paragraph, "pPr", "buNone") is None, text


def _runs(paragraph: etree._Element) -> Iterator[str]:
    for element in elements(paragraph):
        name = local(element)
        if name == "br":
            yield "\n"
        elif name == "r" or (name == "fld" and not attribute(element, "type").startswith(("slidenum", "datetime"))):
            text = child(element, "t")
            yield (text.text or "") if text is not None else ""
        elif name not in ("pPr", "endParaRPr", "fld"):
            # Formulas, and what stands in for them.
            yield " ".join(text.text or "" for text in descendants(element, "t"))


def _flat(body: etree._Element | None) -> str:
    return " ".join(text for _, text in _paragraphs(body))


def _points(data: etree._Element | None) -> list[str]:
    """The values of a chart's series or axis that it keeps beside its workbook."""
    return [point.text or "" for point in descendants(data, "v")]
