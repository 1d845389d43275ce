"""reStructuredText: the source stays as it is; titles are recognised by their underlines (and overlines)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.core import Block, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines, paragraphs

_SIGN = r"[!-/:-@\[-`{-~]"
_TITLE = re.compile(
    rf"^(?:(?P<over>(?P<o>{_SIGN})(?P=o){{2,}})[ \t]*\n[ \t]*)?(?P<label>\w[^\n]*+|[^\w\s][^\w\n]*+\w[^\n]*+)\n"
    rf"(?P<under>(?P<u>{_SIGN})(?P=u){{2,}})[ \t]*$",
    re.M,
)
# Link targets, comments and substitutions are not shown; footnotes and directives are.
_UNSHOWN = re.compile(
    r"\.\.[ \t]++(?:_[^\n]*:|\|[^\n]*+|(?!\[|(?:[\w-]+:)*[\w-]+::)[^\n]*+)(?:\n[ \t]++[^\n]*+)*+\s*+|:\w+:[^\n]*"
)
_ROLE = re.compile(r":[\w:+.-]+:`([^`<]*?)(?:\s*<[^`]*>)?`")
_MARKS = re.compile(r"\*\*|``|(?<!\w)[*`]|[*`](?!\w)")
_MAX_LEVEL = 6


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    return by_lines("rst", text, blocks(text))


def blocks(text: str) -> Iterator[Block]:
    """Yields titles and the paragraphs between them; a style's level is the order of its first appearance."""
    styles: list[str] = []
    start = 0
    for title in _TITLE.finditer(text):
        if not _is_title(title):
            continue
        style = title["u"] * (2 if title["over"] else 1)
        if style not in styles:
            styles.append(style)
        yield from _body(text, start, title.start())
        level = min(styles.index(style) + 1, _MAX_LEVEL)
        yield Block("heading", title.start(), title.end(), level, _spoken(title["label"]))
        start = title.end()
    yield from _body(text, start, len(text))


def _is_title(title: re.Match[str]) -> bool:
    """Returns whether the underline is as long as the title, and the overline, if there is one, equals it."""
    is_framed = title["over"] is None or title["over"] == title["under"]
    return is_framed and len(title["under"]) >= len(title["label"].strip())


def _body(text: str, start: int, end: int) -> Iterator[Block]:
    is_literal = False
    for block in paragraphs(text, start, end):
        words = text[block.start : block.end]
        if _UNSHOWN.fullmatch(words):
            continue
        margin = text.rfind("\n", 0, block.start) + 1
        is_literal = is_literal and block.start > margin
        yield replace(block, kind="code", level=0, label="") if is_literal else block
        is_literal = is_literal or words.endswith("::") or words.startswith((".. code", ".. sourcecode"))


def _spoken(label: str) -> str:
    """Returns a title without its markup."""
    return _MARKS.sub("", _ROLE.sub(r"\1", label)).strip()
