"""Cells that reach into the rows below them are said again in each: a row is read, and found, by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.library.parsers.elements import whole_number

# The limits of browsers.
_MAX_COLUMNS, _MAX_ROWS = 1000, 65534
# A longer text is repeated only up to here.
_MAX_CHARACTERS = 200
# The limit for all repeated text of a table: a small file could repeat it without end.
_MAX_AGAIN = 10**6


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it is written; it spans `num_rows` and `num_columns`."""

    text: str
    num_rows: int = 1
    num_columns: int = 1


class RowSpans:
    """Cells that reach into the next row of a table, with their first columns, in order."""

    def __init__(self) -> None:
        self._held: list[tuple[int, Cell]] = []
        self._num_again = 0

    def row(self, cells: Sequence[Cell]) -> list[str]:
        """Returns the texts of the next row, column by column; `cells` are those that are written in it."""
        held, begun = deque(self._held), list[tuple[int, Cell]]()
        texts: list[str] = []
        column = written = 0
        while held or written < len(cells):
            if held and (held[0][0] <= column or written == len(cells)):
                begins, cell = held.popleft()
                column = max(column, begins)
                self._num_again += len(cell.text) + 1
            else:
                cell = cells[written]
                written += 1
            texts.append(cell.text)
            if cell.num_rows > 1:
                begun.append((column, Cell(cell.text[:_MAX_CHARACTERS], cell.num_rows - 1, cell.num_columns)))
            column += cell.num_columns
        self._held = begun if self._num_again < _MAX_AGAIN else []
        return texts


def reach(rows: str, columns: str) -> tuple[int, int]:
    """Returns how many rows and columns a cell spans; 0 rows mean all that follow."""
    num_rows, num_columns = whole_number(rows, 1), whole_number(columns, 1)
    return min(num_rows or _MAX_ROWS, _MAX_ROWS), min(max(num_columns, 1), _MAX_COLUMNS)
