"""Word's paragraph styles: which of them make headings, titles, lists, listings and tables of contents."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lxml import etree

from engine.library.parsers.archive import Package
from engine.library.parsers.elements import attribute, child, children, whole_number

# Word's own styles have English names in every language; the other forms are used by publishers.
_HEADING_STYLE = re.compile(r"head(?:ing)?[ _-]?([1-9a-i])")
_TITLE_STYLE = re.compile(r"(?:(?:book|part|chapter|appendix|section|frontmatter)[ _-]?)?title")
_CODE_STYLE = re.compile(
    r"(?!.*(?:label|caption|listing)).*(?:\bcode|code(?:wide|block|annotated)?\b|preformatted|macro text).*"
)
_CONTENTS_STYLE = re.compile(r"toc \d|table of figures|index \d")
_BODY_TEXT_LEVEL = 9


@dataclass(frozen=True, slots=True)
class Style:
    """What a paragraph style says about structure, including what it inherits. `level` 0 is body text.

    `number_id` is the list in which its paragraphs are numbered, at `number_level`.
    """

    name: str = ""
    level: int = 0
    is_list: bool = False
    number_id: str = ""
    number_level: int = 0

    @property
    def is_title(self) -> bool:
        return _TITLE_STYLE.fullmatch(self.name) is not None

    @property
    def is_code(self) -> bool:
        return _CODE_STYLE.fullmatch(self.name) is not None

    @property
    def is_contents(self) -> bool:
        """Whether it is for lines of a table of contents or an index, which only repeat other text."""
        return _CONTENTS_STYLE.match(self.name) is not None


def styles_of(package: Package) -> dict[str, Style]:
    """Returns the document's styles by id."""
    root = package.part("styles+xml", "word/styles.xml")
    by_id = {attribute(element, "styleId"): element for element in children(root, "style")}
    return {style_id: _style(style_id, by_id) for style_id in by_id}


def _style(style_id: str, by_id: dict[str, etree._Element]) -> Style:
    """Returns a style with what it inherits; a broken file may link styles in a circle."""
    name, level, is_list, number_id, number_level = "", 0, False, "", ""
    seen: set[str] = set()
    while style_id in by_id and style_id not in seen:
        seen.add(style_id)
        element = by_id[style_id]
        properties = child(element, "pPr")
        own_name = attribute(child(element, "name")).lower()
        heading = _HEADING_STYLE.fullmatch(own_name)
        name = name or own_name
        level = level or level_of(properties) or (_rank(heading.group(1)) if heading else 0)
        is_list = is_list or child(properties, "numPr") is not None or own_name.startswith("list")
        number_id = number_id or attribute(child(properties, "numPr", "numId"))
        number_level = number_level or attribute(child(properties, "numPr", "ilvl"))
        style_id = attribute(child(element, "basedOn"))
    return Style(name, level, is_list, number_id, whole_number(number_level, 0))


def _rank(sign: str) -> int:
    """Returns the level in "heading 2" or "head b"."""
    return int(sign) if sign.isdigit() else ord(sign) - ord("a") + 1


def level_of(properties: etree._Element | None) -> int:
    """Returns the outline level that paragraph properties set, 1 for the top; 0 if they set none."""
    level = whole_number(attribute(child(properties, "outlineLvl")), _BODY_TEXT_LEVEL)
    return level + 1 if level < _BODY_TEXT_LEVEL else 0


def is_item(properties: etree._Element | None, style: Style) -> bool:
    """Returns whether a paragraph with these properties is an item of a list."""
    numbering = child(properties, "numPr")
    if numbering is None:
        return style.is_list
    return attribute(child(numbering, "numId")) != "0"
