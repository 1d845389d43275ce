"""Sheets: rows of cells become a page of table rows, under the sheet's name and the head of their table.

A row that names the columns is a heading, so that every chunk of a long table has the names of its columns. Remarks on
a row follow it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from engine.core import BlockKind, ParsedPage
from engine.errors import DocumentTooLarge
from engine.library.parsers.limits import Limits
from engine.library.parsers.markup import PageBuilder, row

# A row of the sheet: its number, from 1, and its cells; empty cells at the end may be missing.
Row = tuple[int, list[str]]

# Names that programs give to sheets.
_UNNAMED = re.compile(
    r"(?:sheet|tabelle|feuil(?:le)?|hoja|foglio|planilha|blad|ark|arkusz|лист|シート|工作表)\s*\d*", re.I
)
_MAX_HEAD_CHARACTERS = 60
# The name of a column has letters, or is a year or a date.
_NAME = re.compile(r"[^\W\d_]|^(?:19|20)\d\d(?:-\d\d-\d\d)?$")


class Sheets:
    """Collects a workbook's sheets as pages.

    Args:
        limits: How many cells all of them may fill.
    """

    def __init__(self, limits: Limits) -> None:
        self.pages: list[ParsedPage] = []
        self._max_cells = limits.max_cells
        self._num_cells = 0

    def add(self, name: str, rows: Iterable[Row], remarks: Mapping[int, Sequence[str]] | None = None) -> None:
        """Adds a sheet; one without text counts as well, so that the others keep their numbers.

        Args:
            name: Its name.
            rows: In rising order.
            remarks: Remarks on rows, by row number.

        Raises:
            DocumentTooLarge: The workbook has more filled cells than the limit.
        """
        builder = PageBuilder()
        if not _UNNAMED.fullmatch(name.strip()):
            builder.add("heading", name, 1)
        num_headings = builder.num_blocks
        writer = _Writer(builder, remarks or {})
        for table in _tables(self._counted(rows)):
            writer.write(table)
        writer.end()
        if builder.num_blocks == num_headings:
            builder = PageBuilder()
        self.pages.append(builder.page(len(self.pages) + 1, f"sheet “{name}”"))

    def _counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        for number, cells in rows:
            self._num_cells += sum(map(bool, cells))
            if self._num_cells > self._max_cells:
                raise DocumentTooLarge(
                    f"The workbook has more than {self._max_cells:,} filled cells, which is more than Ragdoll reads.",
                    "Save the part that matters as a workbook of its own.",
                )
            yield number, cells


def _tables(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yields runs of rows without an empty one between them."""
    table: list[Row] = []
    for number, cells in rows:
        if not any(map(str.strip, cells)):
            continue
        if table and number != table[-1][0] + 1:
            yield table
            table = []
        table.append((number, cells))
    if table:
        yield table


class _Writer:
    """Writes tables and the remarks on their rows, in the order of the rows."""

    def __init__(self, builder: PageBuilder, remarks: Mapping[int, Sequence[str]]) -> None:
        self._builder = builder
        self._remarks = sorted(remarks.items(), reverse=True)

    def write(self, table: list[Row]) -> None:
        """Writes a table; it must be below those written before."""
        captions = 0
        while captions < len(table) and _num_filled(table[captions]) == 1 and _is_caption(table, captions):
            number, cells = table[captions]
            self._row("paragraph", list(filter(str.strip, cells)), number)
            captions += 1
        body = _without_empty_columns(table[captions:])
        has_head = _has_head(body)
        for index, (number, cells) in enumerate(body):
            self._row("heading" if index == 0 and has_head else "table_row", cells, number)

    def end(self) -> None:
        """Writes the remarks that are left, on rows without cells."""
        self._remarks_before(None)

    def _row(self, kind: BlockKind, cells: list[str], number: int) -> None:
        self._remarks_before(number)
        self._builder.add(kind, _line(cells), 2 if kind == "heading" else 0, number)
        self._remarks_before(number + 1)

    def _remarks_before(self, number: int | None) -> None:
        while self._remarks and (number is None or self._remarks[-1][0] < number):
            of, texts = self._remarks.pop()
            for text in texts:
                self._builder.add("paragraph", text, line=of)


def _line(cells: list[str]) -> str:
    """Returns the row in one line, without the empty cells at its end."""
    num_cells = max((index for index, cell in enumerate(cells, start=1) if cell.strip()), default=0)
    return row(cells[:num_cells])


def _is_caption(table: list[Row], index: int) -> bool:
    """Returns whether a row of one cell is above a table of several columns, or alone."""
    return len(table) == 1 or any(_num_filled(other) > 1 for other in table[index + 1 : index + 4])


def _num_filled(table_row: Row) -> int:
    return sum(bool(cell.strip()) for cell in table_row[1])


def _without_empty_columns(table: list[Row]) -> list[Row]:
    used = sorted({column for _, cells in table for column, cell in enumerate(cells) if cell.strip()})
    return [(number, [cells[column] if column < len(cells) else "" for column in used]) for number, cells in table]


def _has_head(table: list[Row]) -> bool:
    """Returns whether the first row names the columns: short, distinct words, above at least two more rows."""
    if len(table) < 3:
        return False
    names = [cell.strip() for cell in table[0][1] if cell.strip()]
    if len(names) < 2 or len(names) < _num_filled(table[1]) - 1 or len(set(names)) < len(names):
        return False
    return all(len(name) <= _MAX_HEAD_CHARACTERS and _NAME.search(name) for name in names)
