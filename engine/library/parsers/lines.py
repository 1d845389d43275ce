"""Texts of records, one a line (CSV, TSV, logs, JSON lines): no record is torn apart."""

from __future__ import annotations

import re
from pathlib import Path

from engine.core import Block, ParsedDocument, ParsedPage
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits

_RECORD = re.compile(r"\S(?:[^\n]*\S)?")


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    records = tuple(Block("table_row", *match.span()) for match in _RECORD.finditer(text))
    return ParsedDocument("text", "", (ParsedPage(None, text, records),))
