"""Org: the source stays as it is; headlines by their stars, tables by row, drawers and settings left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.core import Block, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines, paragraphs, trimmed

_PART = re.compile(
    r"^(?P<stars>\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAIT(?:ING)?|CANCELL?ED)[ \t]+)?(?:\[#\w\][ \t]*)?(?P<label>[^\n]*?)"
    r"(?:[ \t]+:[\w@#%:]+:)?[ \t]*$"
    r"|^[ \t]*#\+begin_(?P<what>src|example|export)\b[^\n]*\n(?P<code>.*?)^[ \t]*#\+end_(?P=what)[ \t]*$"
    r"|^[ \t]*:[A-Z_]+:[ \t]*\n(?:.*?\n)??[ \t]*:END:[ \t]*$"
    r"|^[ \t]*(?:#\+[\w-]+(?:\[[^\n]*?\])?:[^\n]*|#\+(?:begin|end)_\w+[^\n]*|\#[ \t][^\n]*)$"
    r"|^[ \t]*(?:SCHEDULED|DEADLINE|CLOSED):[^\n]*$"
    r"|^[ \t]*(?P<row>\|[^\n]*)$",
    re.M | re.S | re.I,
)
_TITLE = re.compile(r"^#\+title:[ \t]*([^\n]+)$", re.M | re.I)
_LINK = re.compile(r"\[\[[^\[\]]*\]\[([^\[\]]*)\]\]|\[\[([^\[\]]*)\]\]")
_RULE = re.compile(r"[|+\-\s:]*")
_MAX_LEVEL = 6


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    title = _TITLE.search(text)
    return by_lines("org", text, blocks(text), title=title.group(1).strip() if title else "")


def blocks(text: str) -> Iterator[Block]:
    """The structure of an Org text; what lies between its marked parts are paragraphs."""
    start = 0
    for part in _PART.finditer(text):
        yield from paragraphs(text, start, part.start())
        yield from _marked(text, part)
        start = part.end()
    yield from paragraphs(text, start, len(text))


def _marked(text: str, part: re.Match[str]) -> Iterator[Block]:
    if part["stars"] and part["label"].strip():
        level = min(len(part["stars"]), _MAX_LEVEL)
        label = _LINK.sub(lambda link: link[1] or link[2], part["label"]).strip()
        yield Block("heading", part.start(), part.end("label"), level, label)
    elif part["code"]:
        block = trimmed(text, *part.span("code"))
        if block:
            yield Block("code", block.start, block.end)
    elif part["row"] and not _RULE.fullmatch(part["row"]):
        yield Block("table_row", *part.span("row"))
