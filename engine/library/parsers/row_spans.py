"""Cells that reach into the rows below them are said again in each: a row is read, and found, by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# What browsers take for the most.
_MAX_COLUMNS, _MAX_ROWS = 1000, 65534
# A longer text says more than what the rows beside it have in common.
_MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as it is written. `num_rows` and `num_columns` are what it reaches over."""

    text: str
    num_rows: int = 1
    num_columns: int = 1


class RowSpans:
    """What reaches into the next row of a table, by the column where it begins."""

    def __init__(self) -> None:
        self._held: dict[int, Cell] = {}

    def row(self, cells: Sequence[Cell]) -> list[str]:
        """The texts of the next row, column by column; `cells` are those that are written there."""
        held, begun = dict(self._held), dict[int, Cell]()
        texts: list[str] = []
        column = written = 0
        while held or written < len(cells):
            if written == len(cells):
                column = min(held)
            above = held.pop(column, None)
            cell = above or cells[written]
            if above is None:
                written += 1
            texts.append(cell.text)
            if cell.num_rows > 1:
                begun[column] = Cell(cell.text[:_MAX_CHARACTERS], cell.num_rows - 1, cell.num_columns)
            column += cell.num_columns
        self._held = begun
        return texts


def reach(rows: str, columns: str) -> tuple[int, int]:
    """How many rows and columns a cell says that it reaches over; no rows are all that follow."""
    num_rows = int(rows) if rows.strip().isdecimal() else 1
    num_columns = int(columns) if columns.strip().isdecimal() else 1
    return min(num_rows or _MAX_ROWS, _MAX_ROWS), min(max(num_columns, 1), _MAX_COLUMNS)
