"""Org: the source stays as it is; headlines by their stars, tables by row, drawers and settings left out."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

from engine.core import Block, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines, paragraphs, trimmed

_PART = re.compile(
    r"^(?P<stars>\*+)[ \t]+(?:(?:TODO|DONE|NEXT|WAIT(?:ING)?|CANCELL?ED)[ \t]+)?(?:\[#\w\][ \t]*)?"
    r"(?P<label>(?:[^ \t\n]++|[ \t]++(?!:[\w@#%:]{2,}+(?<=:)[ \t]*+$|$))*+)"
    r"(?:[ \t]++:[\w@#%:]{2,}+(?<=:)(?=[ \t]*+$))?+[ \t]*+$"
    r"|^[ \t]*#\+begin_(?P<what>src|example|export)\b[^\n]*\n"
    r"|^[ \t]*(?P<drawer>:[A-Z_]+:[ \t]*\n)"
    r"|^[ \t]*(?:#\+[\w-]+(?:\[[^\n]*?\])?:[^\n]*|#\+(?:begin|end)_\w+[^\n]*|\#[ \t][^\n]*)$"
    r"|^[ \t]*(?:SCHEDULED|DEADLINE|CLOSED):[^\n]*$"
    r"|^[ \t]*(?P<row>\|[^\n]*)$",
    re.M | re.I,
)
_END = re.compile(r"^[ \t]*(?:#\+end_(?P<what>src|example|export)|:END:)[ \t]*$", re.M | re.I)
_TITLE = re.compile(r"^#\+title:[ \t]*([^\n]+)$", re.M | re.I)
_LINK = re.compile(r"\[\[[^\[\]]*\]\[([^\[\]]*)\]\]|\[\[([^\[\]]*)\]\]")
_RULE = re.compile(r"[|+\-\s:]*")
_MAX_LEVEL = 6
_DRAWER = "drawer"


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    title = _TITLE.search(text)
    return by_lines("org", text, blocks(text), title=title.group(1).strip() if title else "")


def blocks(text: str) -> Iterator[Block]:
    """Yields the blocks of an Org text; the text between marked parts is paragraphs."""
    start, at, ends = 0, 0, _ends(text)
    while (part := _PART.search(text, at)) is not None:
        # The end of a block is looked up in `ends`: searching the text for each would take quadratic time.
        kind = part["what"].lower() if part["what"] else _DRAWER if part["drawer"] else ""
        of_kind = ends.get(kind, [])
        place = bisect_left(of_kind, (part.end(), 0))
        end = of_kind[place] if kind and place < len(of_kind) else None
        if end is None and part["drawer"]:
            at = part.end()
            continue
        yield from paragraphs(text, start, part.start())
        if end is None:
            yield from () if kind else _marked(part)
            start = at = part.end() - bool(kind)
        else:
            if part["what"] and (code := trimmed(text, part.end(), end[0])):
                yield Block("code", code.start, code.end)
            start = at = end[1]
    yield from paragraphs(text, start, len(text))


def _ends(text: str) -> dict[str, list[tuple[int, int]]]:
    """Returns where blocks of each kind, and drawers, may end."""
    ends: dict[str, list[tuple[int, int]]] = {}
    for end in _END.finditer(text):
        ends.setdefault((end["what"] or _DRAWER).lower(), []).append(end.span())
    return ends


def _marked(part: re.Match[str]) -> Iterator[Block]:
    """Yields a headline or a row of a table; settings and dates are left out."""
    if part["stars"] and part["label"].strip():
        level = min(len(part["stars"]), _MAX_LEVEL)
        label = _LINK.sub(lambda link: link[1] or link[2], part["label"]).strip()
        yield Block("heading", part.start(), part.end("label"), level, label)
    elif part["row"] and not _RULE.fullmatch(part["row"]):
        yield Block("table_row", *part.span("row"))
