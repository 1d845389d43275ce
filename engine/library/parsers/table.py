"""Tables in text (CSV, TSV): each row is written with its column names, so that it can be understood alone."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from engine.core import ParsedDocument
from engine.library.parsers import column_names
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
# Shares of rows mean nothing for fewer rows than this.
_MIN_ROWS = 3
_MOST = 0.8
_MIN_TEXT_CHARACTERS = 40
# A cell with more lines may contain other rows because of an unclosed quote.
_MAX_CELL_LINES = 50
# Excel's row that names the delimiter; Excel does not show it.
_SAID_DELIMITER = re.compile(r"\"?sep=([^\w\s\"]|\t)\"?\n", re.I)
# Numbers, amounts, dates, numbered names, addresses.
_VALUE = re.compile(r"\d|@|://")


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    said = _SAID_DELIMITER.match(text)
    delimiter = said[1] if said else delimiter_of(text)
    if not delimiter:
        return by_lines("text", text, records(text))
    csv.field_size_limit(_MAX_FIELD_CHARACTERS)
    table = text[said.end() :] if said else text
    for has_quotes in (True, False):
        with suppress(csv.Error):
            return ParsedDocument("table", "", (_filled(_rows(table, delimiter, has_quotes)).page(),), "row")
    return by_lines("text", text, records(text))


def delimiter_of(text: str) -> str:
    """Returns the delimiter: the sign that cuts most rows into the same number of cells; "" if there is none."""
    sample, is_cut = text[:_SAMPLE_CHARACTERS], len(text) > _SAMPLE_CHARACTERS
    scores = {delimiter: _score(sample, delimiter, is_cut) for delimiter in _DELIMITERS}
    best = max(scores, key=lambda delimiter: scores[delimiter])
    return best if scores[best][0] > _MIN_SHARE else ""


def _score(sample: str, delimiter: str, is_cut: bool) -> tuple[float, int]:
    """Returns the share of rows that have the usual number of cells, and that number."""
    stream = io.StringIO(sample, newline="")
    rows: list[list[str]] = []
    num_bad = 0
    try:
        reader = csv.reader(stream, delimiter=delimiter, strict=True)
        rows.extend(itertools.islice(filter(None, reader), _SAMPLE_ROWS))
        if is_cut and len(rows) > 1 and stream.tell() == len(sample):
            rows.pop()
    except csv.Error:
        # A quote that closes in the middle of a cell means that this is not the delimiter. At the end of a cut sample,
        # a quote may just be open.
        num_bad = 0 if is_cut and stream.tell() == len(sample) else 1
    widths = Counter(len(cells) for cells in rows if len(cells) > 1)
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    return count / max(1, len(rows) + num_bad), width


def _rows(text: str, delimiter: str, has_quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, with their numbers.

    Raises:
        csv.Error: Quotes have no meaning in this text, or a cell is too large.
    """
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    )
    num_lines = num_delimiters = 0
    for number, cells in enumerate(reader, start=1):
        num_delimiters = num_delimiters or len(cells) - 1
        if reader.line_num - num_lines > _MAX_CELL_LINES and any(
            _is_table(cell, delimiter, num_delimiters) for cell in cells
        ):
            raise csv.Error("A quote at the beginning of a cell that nothing closes.")
        num_lines = reader.line_num
        if any(cell.strip() for cell in cells):
            yield number, cells


def _is_table(cell: str, delimiter: str, num_delimiters: int) -> bool:
    """Returns whether a cell contains other rows: most of its many lines have the table's number of delimiters."""
    lines = cell.splitlines()
    return (
        len(lines) > _MAX_CELL_LINES
        and sum(line.count(delimiter) == num_delimiters for line in lines) > len(lines) * _MIN_SHARE
    )


def _filled(rows: Iterator[tuple[int, list[str]]]) -> PageBuilder:
    builder = PageBuilder()
    ahead = [*itertools.islice(rows, 1 + _SAMPLE_ROWS)]
    header: Sequence[str] = ()
    if len(ahead) > 1 and is_header(ahead[0][1], [cells for _, cells in ahead[1:]]):
        header = [" ".join(name.split()) for name in ahead.pop(0)[1]]
    for number, cells in itertools.chain(ahead, rows):
        builder.add("table_row", named(header, cells) if header else row(cells), line=number)
    return builder


def is_header(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether a table's first row is a header: distinct short names that are usual or unlike the rows below."""
    names = [name.strip() for name in first]
    filled = [name for name in names if name]
    return (
        len(filled) >= max(1, len(names) - 1)
        and len(set(filled)) == len(filled)
        and names != [cell.strip() for cell in rows[0]]
        and all(len(name) <= _MAX_NAME_CHARACTERS and not _is_number(name) for name in filled)
        and (column_names.are_usual(filled, rows[0]) or _is_unlike(names, rows))
    )


def _is_unlike(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Returns whether a first row is of another kind than those below it."""
    columns = [
        (name, [cell.strip() for cell in column if cell.strip()])
        for name, column in zip(names, itertools.zip_longest(*rows, fillvalue=""), strict=False)
    ]
    if any(cells and _is_above(name, cells) for name, cells in columns):
        return True
    written = "".join(names)
    below = ["".join(cells) for cells in rows]
    return len(rows) >= _MIN_ROWS and (
        (written.islower() and not any(map(str.islower, below)))
        or (written.isupper() and not any(map(str.isupper, below)))
    )


def _is_above(name: str, cells: Sequence[str]) -> bool:
    """Returns whether a name is above cells of another kind: values, the same few words, or long texts."""
    if not name:
        # Programs leave a column of row numbers without a name.
        return len(cells) >= _MIN_ROWS and all(map(str.isdigit, cells))
    if not _VALUE.search(name) and sum(bool(_VALUE.search(cell)) for cell in cells) >= _MOST * len(cells):
        return True
    if len(cells) < _MIN_ROWS or name in cells:
        return False
    is_repeating = 2 * len(set(cells)) <= len(cells)
    return is_repeating or median(map(len, cells)) > max(_MIN_TEXT_CHARACTERS, 3 * len(name))


def named(header: Sequence[str], cells: Sequence[str]) -> str:
    """Returns a row as "Name: Ann | City: Berlin", without empty cells."""
    pairs = itertools.zip_longest(header, cells[: max(len(header), len(cells))], fillvalue="")
    texts = ((name, " ".join(cell.split())) for name, cell in pairs)
    return CELL_SEPARATOR.join(f"{name}: {text}" if name else text for name, text in texts if text)


def _is_number(text: str) -> bool:
    return text.strip("+-€$£% ").replace(".", "").replace(",", "").isdigit()
