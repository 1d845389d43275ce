"""Places: where a span is in its document, as users would say it ("sheet “Budget”, rows 12–18")."""

from __future__ import annotations

from bisect import bisect_right
from itertools import takewhile

from engine.core import ParsedDocument, ParsedPage


class Places:
    """Names spans of one page. There may be hundreds of spans, so the positions of blocks are prepared once."""

    def __init__(self, document: ParsedDocument, page: ParsedPage) -> None:
        self._page = page
        self._name = page.place or (f"page {page.number}" if page.number is not None else "")
        self._line_word = page.line_word or document.line_word
        self._starts = [block.start for block in page.blocks]
        # Where the last count of lines ended: block, character, line.
        self._counted = (-1, 0, 0)

    def place(self, start: int, end: int) -> str:
        """Returns where `page.text[start:end]` is; "" where the format has no places."""
        return ", ".join(filter(None, (self._name, self._lines(start, end))))

    def _lines(self, start: int, end: int) -> str:
        first = self._first_line(start, end) if self._line_word else 0
        if not first:
            return ""
        last = max(first, self._line(max(start, end - 1)))
        return f"{self._line_word} {first}" if first == last else f"{self._line_word}s {first}–{last}"

    def _first_line(self, start: int, end: int) -> int:
        """Returns the first line in a span; before it may be a heading that is not part of the sheet itself."""
        if line := self._line(start):
            return line
        blocks = self._page.blocks
        below = (blocks[index] for index in range(bisect_right(self._starts, start), len(blocks)))
        return next((block.line for block in takewhile(lambda block: block.start < end, below) if block.line), 0)

    def _line(self, position: int) -> int:
        """Returns the line of a character, counted from the beginning of its block; 0 if unknown."""
        index = bisect_right(self._starts, position) - 1
        if index < 0 or not self._page.blocks[index].line:
            return 0
        if self._line_word != "line" or self._page.has_line_blocks:
            # A cell, a row or a record counts as one, however many lines it is shown on.
            return self._page.blocks[index].line
        # Spans come from front to back and overlap, so counting continues from the last place; otherwise each span
        # in a block as large as the file would be counted from the beginning.
        block, place, line = self._counted
        if block != index:
            place, line = self._starts[index], self._page.blocks[index].line
        line += self._page.text.count("\n", place, position) - self._page.text.count("\n", position, place)
        self._counted = (index, position, line)
        return line
