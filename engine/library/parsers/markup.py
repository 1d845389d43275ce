"""Builds the text of a page out of blocks, for formats whose source is not what people read (HTML, DOCX)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from engine.core import Block, BlockKind, ParsedPage
from engine.library.parsers.encoding import clean

CELL_SEPARATOR = " | "
# A longer "heading" is text that the author wanted to look big, a longer "cell" is part of the page's layout.
MAX_HEADING_CHARACTERS = 300
_LAYOUT_CHARACTERS = 600
# What programs write into a title property by themselves.
_PROGRAM_TITLE = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel)\b.*|untitled.*|no title|title|document\d*|slide \d+|print(?:out)?"
    r"|(?:word|powerpoint|pdf) (?:document|presentation)"
    r"|.*\.(?:docx?|pdf|pptx?|xlsx?|indd|qxd|tex|dvi|ps|odt|rtf|html?|fm|p65|cdr|ai))",
    re.I,
)


T = TypeVar("T")


class PageBuilder:
    """Collects blocks in order, with a blank line between them, and a line end between items of a list or table."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._blocks: list[Block] = []
        self._length = 0

    def add(self, kind: BlockKind, text: str, level: int = 0, line: int = 0) -> None:
        text = clean(text).strip()
        if not text:
            return
        gap = self._gap(kind)
        start = self._length + len(gap)
        self._texts += (gap, text)
        self._length = start + len(text)
        self._blocks.append(Block(kind, start, self._length, level, line=line))

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    def page(self, number: int | None = None, place: str = "") -> ParsedPage:
        return ParsedPage(number, "".join(self._texts), tuple(self._blocks), place)

    def _gap(self, kind: BlockKind) -> str:
        if not self._blocks:
            return ""
        return "\n" if kind == self._blocks[-1].kind and kind in ("list_item", "table_row") else "\n\n"


class ListingBuilder(PageBuilder):
    """A builder for formats in which each line of a listing is a paragraph: they become one block of code."""

    def __init__(self) -> None:
        super().__init__()
        self._code: list[str] = []
        self._comments: list[str] = []

    def add(self, kind: BlockKind, text: str, level: int = 0, line: int = 0) -> None:
        self.end_code()
        super().add(kind, text, level, line)

    def add_code_line(self, text: str) -> None:
        self._code.append(text)

    def add_comment(self, text: str) -> None:
        """Adds a comment; one on a line of a listing waits for the listing's end."""
        if self._code:
            self._comments.append(text)
        else:
            self.add("paragraph", text)

    def end_code(self) -> None:
        """Adds the gathered listing, if there is one, and the comments on it."""
        super().add("code", "\n".join(self._code))
        self._code.clear()
        for comment in self._comments:
            super().add("paragraph", comment)
        self._comments.clear()


def is_layout(rows: Sequence[Sequence[T]], text_of: Callable[[T], str]) -> bool:
    """Returns whether a table only frames text: it has one column, or a cell with more text than usual."""
    if all(len(cells) <= 1 for cells in rows):
        return True
    return any(len(text_of(cell)) > _LAYOUT_CHARACTERS for cells in rows for cell in cells)


def row(cells: list[str]) -> str:
    """Returns a table row in one line: "a | b | c", "" if all cells are empty."""
    texts = [" ".join(cell.split()) for cell in cells]
    return CELL_SEPARATOR.join(texts).strip() if any(texts) else ""


def sane_title(title: str) -> str:
    """Returns a title property, "" if only a program can have written it."""
    title = " ".join(clean(title).split())
    return "" if _PROGRAM_TITLE.fullmatch(title) or not any(map(str.isalpha, title)) else title
