"""Texts of records, one a line (CSV, TSV, logs, JSON lines): no record is torn apart."""

from __future__ import annotations

import re
from pathlib import Path

from engine.core import Block, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines

_RECORD = re.compile(r"\S(?:[^\n]*\S)?")


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    records = (Block("table_row", *match.span()) for match in _RECORD.finditer(text))
    return by_lines("text", text, records)
