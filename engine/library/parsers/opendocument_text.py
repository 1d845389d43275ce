"""Text in OpenDocument XML: headings, paragraphs, lists and tables as blocks, with what is anchored in them.

That is text boxes, footnotes, comments, and the descriptions and recognised text of pictures; they follow their
paragraph or table.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from lxml import etree

from engine.library.parsers import remarks
from engine.library.parsers.archive import Package
from engine.library.parsers.elements import attribute, child, children, descendants, elements, local, whole_number
from engine.library.parsers.embedded import EmbeddedPictures
from engine.library.parsers.markup import MAX_HEADING_CHARACTERS, ListingBuilder, is_layout, row

_TITLES = {"Title"}
_CODE = {"Preformatted_20_Text"}
# Deleted text, declarations, annotations, and lists that only repeat other text.
_UNSHOWN = {
    "tracked-changes", "annotation", "forms", "sequence-decls", "variable-decls", "user-field-decls",
    "table-of-content", "alphabetical-index", "illustration-index", "table-index", "object-index", "user-index",
    "notes", "note-citation", "ruby-text", "event-listeners", "script", "title", "desc",
}  # fmt: skip
_SPACES = {"tab": "\t", "line-break": "\n"}
_MAX_SPACES = 1000


def styles(package: Package) -> dict[str, str]:
    """Returns each style's parent: programs derive automatic styles from the one that the author chose."""
    return {
        attribute(style, "name"): attribute(style, "parent-style-name")
        for part in ("styles.xml", "content.xml")
        for style in descendants(package.xml(part), "style")
    }


def flat(container: etree._Element | None) -> str:
    """Returns all paragraphs in one line."""
    texts: list[str] = []
    for element in elements(container):
        name = local(element)
        if name in ("p", "h"):
            inline = _Inline()
            inline.gather(element)
            texts += ["".join(inline.texts), *map(flat, inline.boxes)]
        elif name not in _UNSHOWN:
            texts.append(flat(element))
    return " ".join(filter(None, texts))


def comment(annotation: etree._Element) -> str:
    """Returns a comment as text; "" if it is empty."""
    author = child(annotation, "creator")
    return remarks.comment((author.text or "") if author is not None else "", flat(annotation))


def picture_name(image: etree._Element) -> str:
    """Returns the name of a picture's part in the package; for an external picture, there is no such part."""
    return posixpath.normpath(attribute(image, "href"))


class Flow:
    """One pass over a text in reading order; `styles` is what `styles()` returns."""

    def __init__(self, builder: ListingBuilder, styles: dict[str, str], pictures: EmbeddedPictures) -> None:
        self.builder = builder
        self._styles = styles
        self._pictures = pictures
        self._has_title = False

    def blocks(self, container: etree._Element, *, is_list: bool = False) -> None:
        for element in elements(container):
            name = local(element)
            if name in ("p", "h"):
                self._paragraph(element, is_list=is_list)
            elif name == "table":
                self._table(element)
            elif name == "desc":
                self.builder.add("paragraph", remarks.shown(element.text or ""))
            elif name == "image":
                self._picture(element)
            elif name not in _UNSHOWN:
                self.blocks(element, is_list=is_list or name == "list")

    def _paragraph(self, element: etree._Element, *, is_list: bool) -> None:
        inline = _Inline()
        inline.gather(element)
        self._styled(element, "".join(inline.texts), is_list=is_list)
        for box in (*inline.boxes, *inline.notes):
            self.blocks(box)
        self._comments(inline.comments)

    def _picture(self, image: etree._Element) -> None:
        for kind, text in self._pictures.blocks(picture_name(image)):
            self.builder.add(kind, text)

    def _comments(self, annotations: Iterable[etree._Element]) -> None:
        for said in map(comment, annotations):
            self.builder.add_comment(said)

    def _styled(self, element: etree._Element, text: str, *, is_list: bool) -> None:
        style = attribute(element, "style-name")
        names = {style, self._styles.get(style, "")}
        level = attribute(element, "outline-level")
        if names & _CODE:
            self.builder.add_code_line(text)
        elif names & _TITLES:
            self._has_title = True
            self.builder.add("heading", text, 1)
        elif local(element) == "h" and len(text) <= MAX_HEADING_CHARACTERS:
            self.builder.add("heading", text, max(1, whole_number(level, 1)) + self._has_title)
        else:
            self.builder.add("list_item" if is_list else "paragraph", text)

    def _table(self, table: etree._Element) -> None:
        rows = [list(_cells(line)) for line in _rows(table)]
        if is_layout(rows, flat):
            for cells in rows:
                for cell in cells:
                    self.blocks(cell)
            return
        for cells in rows:
            self.builder.add("table_row", row([flat(cell) for cell in cells]))
        for image in table.iter("{*}image"):
            self._picture(image)
        self._comments(table.iter("{*}annotation"))


class _Inline:
    """What a paragraph holds: its text, and the boxes, notes and comments anchored in it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.boxes: list[etree._Element] = []
        self.notes: list[etree._Element] = []
        self.comments: list[etree._Element] = []

    def gather(self, element: etree._Element) -> None:
        # White space of the XML is one space; more of it is written as elements.
        self.texts.append(_collapsed(element.text))
        for part in element:
            if isinstance(part.tag, str):
                self._part(part)
            self.texts.append(_collapsed(part.tail))

    def _part(self, part: etree._Element) -> None:
        name = local(part)
        if name == "s":
            count = attribute(part, "c")
            self.texts.append(" " * min(whole_number(count, 1), _MAX_SPACES))
        elif name in _SPACES:
            self.texts.append(_SPACES[name])
        elif name == "note":
            self.notes += children(part, "note-body")
        elif name == "annotation":
            self.comments.append(part)
        elif name in ("frame", "custom-shape", "text-box"):
            self.boxes.append(part)
        elif name not in _UNSHOWN:
            self.gather(part)


def _collapsed(text: str | None) -> str:
    if not text:
        return ""
    lead, tail = text[:1].isspace(), text[-1:].isspace()
    words = " ".join(text.split())
    return f"{' ' * lead}{words}{' ' * tail}" if words else " "


def _rows(table: etree._Element) -> Iterator[etree._Element]:
    for element in elements(table):
        if local(element) == "table-row":
            yield element
        elif local(element) in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(element)


def _cells(line: etree._Element) -> Iterator[etree._Element]:
    yield from children(line, "table-cell")
