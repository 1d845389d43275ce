"""Tables in text (CSV, TSV): each row with the names of its columns, so that it says by itself what it is about."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.core import ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.lines import records
from engine.library.parsers.markup import CELL_SEPARATOR, PageBuilder, row
from engine.library.parsers.text import by_lines

_DELIMITERS = ",;\t|"
_SAMPLE_CHARACTERS = 64 * 2**10
_SAMPLE_ROWS = 50
_MIN_SHARE = 0.5
_MAX_FIELD_CHARACTERS = 16 * 2**20
# A header names its columns; it is no sentence.
_MAX_NAME_CHARACTERS = 80


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    delimiter = delimiter_of(text[:_SAMPLE_CHARACTERS])
    if not delimiter:
        return by_lines("text", text, records(text))
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    try:
        page = _filled(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)).page()
    except csv.Error:
        return by_lines("text", text, records(text))
    return ParsedDocument("table", "", (page,), "row")


def delimiter_of(sample: str) -> str:
    """What separates the cells: the sign that cuts the most rows into the same number of several cells; "" if none."""
    scores = {delimiter: _score(sample, delimiter) for delimiter in _DELIMITERS}
    best = max(scores, key=lambda delimiter: scores[delimiter])
    return best if scores[best][0] > _MIN_SHARE else ""


def _score(sample: str, delimiter: str) -> tuple[float, int]:
    """The share of rows that have the usual number of cells, and that number."""
    try:
        reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
        rows = [*itertools.islice((cells for cells in reader if cells), _SAMPLE_ROWS)]
    except csv.Error:
        # Quotes that close in the middle of a cell: it is another sign that separates them.
        return 0.0, 0
    widths = Counter(len(cells) for cells in rows if len(cells) > 1)
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    return count / max(1, len(rows)), width


def _filled(reader: Iterator[list[str]]) -> PageBuilder:
    builder = PageBuilder()
    rows = ((number, cells) for number, cells in enumerate(reader, start=1) if any(cell.strip() for cell in cells))
    ahead = [*itertools.islice(rows, 2)]
    header: Sequence[str] = ()
    if len(ahead) == 2 and is_header(ahead[0][1], ahead[1][1]):
        header = [" ".join(name.split()) for name in ahead.pop(0)[1]]
    for number, cells in itertools.chain(ahead, rows):
        builder.add("table_row", named(header, cells) if header else row(cells), line=number)
    return builder


def is_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether a table's first row names its columns: different short names, none of them a number."""
    names = [name.strip() for name in first]
    filled = [name for name in names if name]
    return (
        len(filled) >= max(1, len(names) - 1)
        and len(set(filled)) == len(filled)
        and names != [cell.strip() for cell in second]
        and all(len(name) <= _MAX_NAME_CHARACTERS and not _is_number(name) for name in filled)
    )


def named(header: Sequence[str], cells: Sequence[str]) -> str:
    """A row as "Name: Ann | City: Berlin"; empty cells say nothing."""
    pairs = itertools.zip_longest(header, cells[: max(len(header), len(cells))], fillvalue="")
    texts = ((name, " ".join(cell.split())) for name, cell in pairs)
    return CELL_SEPARATOR.join(f"{name}: {text}" if name else text for name, text in texts if text)


def _is_number(text: str) -> bool:
    return text.strip("+-€$£% ").replace(".", "").replace(",", "").isdigit()
