"""Writes measured points as CSV, and as a shaded table for the terminal."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

# From least to most.
_SHADES = " ░▒▓█"

Row = Mapping[str, float]


def write_csv(file: Path, rows: Sequence[Row]) -> None:
    """Writes one line per point; the columns are those of the first."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def heat_map(rows: Sequence[Row], down: str, across: str, value: str) -> str:
    """Returns a grid of `value`, shaded by its share of the maximum; the greatest of a cell's points counts."""
    cells: dict[tuple[float, float], float] = {}
    for row in rows:
        place = row[down], row[across]
        cells[place] = max(row[value], cells.get(place, row[value]))
    most = max(cells.values(), default=0.0)
    columns = sorted({place[1] for place in cells})
    lines = [f"{value}: {down} (down) by {across} (across)"]
    lines.append(" " * 8 + "".join(f"{column:>12g}" for column in columns))
    for line in sorted({place[0] for place in cells}):
        lines.append(f"{line:>8g}" + "".join(_cell(cells.get((line, column)), most) for column in columns))
    return "\n".join(lines)


def _cell(value: float | None, most: float) -> str:
    if value is None:
        return " " * 12
    shade = _SHADES[min(len(_SHADES) - 1, int(len(_SHADES) * value / most))] if most > 0 else _SHADES[0]
    return f"{value:>9.3g} {shade * 2}"
