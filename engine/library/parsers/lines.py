"""Texts of one record per line (logs, unparsable tables): no record is split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.core import Block, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines, numbered

_RECORD = re.compile(r"\S(?:[^\n]*\S)?")


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    return by_lines("text", text, records(text))


def records(text: str) -> Iterator[Block]:
    """Yields the lines of a text that are not empty, with their numbers."""
    return numbered(text, (Block("table_row", *match.span()) for match in _RECORD.finditer(text)))
