"""Cells that reach into the rows below them are said again in each: a row is read, and found, by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.library.parsers.elements import whole_number

# What browsers take for the most.
_MAX_COLUMNS, _MAX_ROWS = 1000, 65534
# A longer text says more than what the rows beside it have in common.
_MAX_CHARACTERS = 200
# Of all that a table says again: a small file could say it without end.
_MAX_AGAIN = 10**6


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it is written. `num_rows` and `num_columns` are what it reaches over."""

    text: str
    num_rows: int = 1
    num_columns: int = 1


class RowSpans:
    """What reaches into the next row of a table, with the columns where it begins, in their order."""

    def __init__(self) -> None:
        self._held: list[tuple[int, Cell]] = []
        self._num_again = 0

    def row(self, cells: Sequence[Cell]) -> list[str]:
        """The texts of the next row, column by column; `cells` are those that are written there."""
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
    """How many rows and columns a cell says that it reaches over; no rows are all that follow."""
    num_rows, num_columns = whole_number(rows, 1), whole_number(columns, 1)
    return min(num_rows or _MAX_ROWS, _MAX_ROWS), min(max(num_columns, 1), _MAX_COLUMNS)
