"""Paragraphs of RTF and old Word files as they end: headings, list items, cells that gather to rows, waiting notes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core import ParsedPage
from engine.library.parsers.markup import PageBuilder, row

_MAX_HEADING_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Style:
    """The structure of a paragraph, or of a paragraph style. `level` 0 is body text."""

    level: int = 0
    is_title: bool = False
    is_item: bool = False
    in_table: bool = False


class Paragraphs:
    """Writes a page; the text of notes and boxes follows the paragraph in which they are anchored."""

    def __init__(self) -> None:
        self._builder = PageBuilder()
        self._cell: list[str] = []
        self._cells: list[str] = []
        self._notes: list[str] = []
        self._has_title = False

    def page(self) -> ParsedPage:
        self.end_row()
        return self._builder.page()

    def end(self, text: str, style: Style) -> None:
        """Ends a paragraph."""
        if style.in_table:
            self._cell.append(text)
            return
        self.end_row()
        self._add(text, style)
        self._add_notes()

    def end_cell(self, text: str) -> None:
        self._cells.append(" ".join(filter(None, (*self._cell, text))))
        self._cell.clear()

    def end_row(self) -> None:
        """Ends a table's row, if one is open: a table may lack the end of its last one."""
        if self._cell:
            self.end_cell("")
        if self._cells:
            self._builder.add("table_row", row(self._cells))
            self._cells.clear()
            self._add_notes()

    def note(self, text: str) -> None:
        self._notes.append(text)

    def _add(self, text: str, style: Style) -> None:
        if style.is_title:
            self._has_title = self._has_title or bool(text.strip())
            self._builder.add("heading", text, 1)
        elif style.level and len(text) <= _MAX_HEADING_CHARACTERS:
            self._builder.add("heading", text, style.level + self._has_title)
        else:
            self._builder.add("list_item" if style.is_item else "paragraph", text)

    def _add_notes(self) -> None:
        for text in self._notes:
            self._builder.add("paragraph", text)
        self._notes.clear()
