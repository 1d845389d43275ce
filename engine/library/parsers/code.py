"""Source code by definition: what begins at the left margin after a blank line is one block with all below it.

This needs no grammar and holds for every language that people indent; a comment or decorator directly above a
definition stays with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.core import Block, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines, trimmed

_GAP = re.compile(r"\n[ \t]*\n\s*")
# A closing bracket at the margin ends a definition and begins none.
_CLOSING = ")]}"


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    return by_lines("code", text, definitions(text))


def definitions(text: str) -> Iterator[Block]:
    """Yields the blocks of a source text."""
    start = 0
    for cut in (*_margins(text), len(text)):
        block = trimmed(text, start, cut)
        if block:
            yield Block("code", block.start, block.end)
        start = cut


def _margins(text: str) -> Iterator[int]:
    """Yields the positions where a line begins at the left margin after a blank one."""
    for gap in _GAP.finditer(text):
        if gap.end() < len(text) and text[gap.end() - 1] == "\n" and text[gap.end()] not in _CLOSING:
            yield gap.end()
