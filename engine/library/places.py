"""Places: where a span is in its document, as users would say it ("sheet “Budget”, rows 12–18")."""

from __future__ import annotations

from bisect import bisect_right
from itertools import takewhile

from engine.core import ParsedDocument, ParsedPage


class Places:
    """Names spans of one page. Spans are asked for by the hundred, so what it takes is prepared once."""

    def __init__(self, document: ParsedDocument, page: ParsedPage) -> None:
        self._page = page
        self._name = page.place or (f"page {page.number}" if page.number is not None else "")
        self._line_word = page.line_word or document.line_word
        self._starts = [block.start for block in page.blocks]
        # The block and the character that were counted to last, and the line.
        self._counted = (-1, 0, 0)

    def place(self, start: int, end: int) -> str:
        """Where `page.text[start:end]` stands; "" where the format has no places."""
        return ", ".join(filter(None, (self._name, self._lines(start, end))))

    def _lines(self, start: int, end: int) -> str:
        first = self._first_line(start, end) if self._line_word else 0
        if not first:
            return ""
        last = max(first, self._line(max(start, end - 1)))
        return f"{self._line_word} {first}" if first == last else f"{self._line_word}s {first}–{last}"

    def _first_line(self, start: int, end: int) -> int:
        """The first line in a span; a heading that is no part of the sheet itself may stand before it."""
        if line := self._line(start):
            return line
        blocks = self._page.blocks
        below = (blocks[index] for index in range(bisect_right(self._starts, start), len(blocks)))
        return next((block.line for block in takewhile(lambda block: block.start < end, below) if block.line), 0)

    def _line(self, position: int) -> int:
        """The line that a character stands on: some way into the block that begins last before it, 0 if unknown."""
        index = bisect_right(self._starts, position) - 1
        if index < 0 or not self._page.blocks[index].line:
            return 0
        if self._line_word != "line" or self._page.has_line_blocks:
            # A cell, a row or a record is one, however many lines it is shown on.
            return self._page.blocks[index].line
        # Spans come from front to back and overlap: of a block that is the whole of a file each line is counted a few
        # times, from wherever was counted to.
        block, place, line = self._counted
        if block != index:
            place, line = self._starts[index], self._page.blocks[index].line
        line += self._page.text.count("\n", place, position) - self._page.text.count("\n", position, place)
        self._counted = (index, position, line)
        return line
