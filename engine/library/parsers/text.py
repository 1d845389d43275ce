"""Plain text in any encoding: paragraphs between blank lines, list items, underlined headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engine.core import Block, ParsedDocument, ParsedPage
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits

_GAP = re.compile(r"\n[ \t\f]*\n\s*|\f\s*")
_LINE = re.compile(r"\S(?:[^\n]*\S)?")
LIST_MARK = re.compile(r"[ \t]*(?:[-*+•‣◦·–]|\d{1,3}[.)]|\(?[a-z][.)])[ \t]+\S")
_UNDERLINED = re.compile(r"[^\n]{1,120}\n[ \t]*(=|-|~){3,}[ \t]*")
# Lines longer than this are not wrapped by an editor, so each is a paragraph.
_LONG_LINE_CHARACTERS = 120


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = decode(path.read_bytes())
    return by_lines("text", text, paragraphs(text))


def by_lines(family: str, text: str, blocks: Iterable[Block], title: str = "") -> ParsedDocument:
    """Returns a document whose text is its source, in which places are lines."""
    return ParsedDocument(family, title, (ParsedPage(None, text, tuple(numbered(text, blocks))),), "line")


def numbered(text: str, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yields the blocks with the lines on which they begin."""
    line, reached = 1, 0
    for block in blocks:
        line += text.count("\n", reached, block.start)
        reached = block.start
        yield replace(block, line=line)


def paragraphs(text: str, start: int = 0, stop: int | None = None) -> Iterator[Block]:
    """Yields the blocks of `text[start:stop]`, a text without markup."""
    stop = len(text) if stop is None else stop
    for gap in (*_GAP.finditer(text, start, stop), None):
        end = gap.start() if gap else stop
        block = trimmed(text, start, end)
        if block:
            yield from _structured(text, block)
        start = gap.end() if gap else end


def trimmed(text: str, start: int, end: int) -> Block | None:
    """Returns `text[start:end]` as a paragraph without the white space around it; None if there is nothing else."""
    body = text[start:end]
    lead, tail = len(body) - len(body.lstrip()), len(body.rstrip())
    return Block("paragraph", start + lead, start + tail) if tail > lead else None


def _structured(text: str, block: Block) -> Iterator[Block]:
    """Yields a paragraph as what it looks like: a heading, list items, lines, or a plain paragraph."""
    underlined = _UNDERLINED.fullmatch(text, block.start, block.end)
    if underlined:
        label = text[block.start : block.end].split("\n")[0].strip()
        yield Block("heading", block.start, block.end, 1 if underlined.group(1) == "=" else 2, label)
        return
    lines = list(_LINE.finditer(text, block.start, block.end))
    if any(LIST_MARK.match(line.group()) for line in lines):
        yield from _list_items(lines)
    elif len(lines) > 1 and block.end - block.start > _LONG_LINE_CHARACTERS * len(lines):
        yield from (Block("paragraph", *line.span()) for line in lines)
    else:
        yield block


def _list_items(lines: list[re.Match[str]]) -> Iterator[Block]:
    """Yields list items with the lines that continue them; text before the first list mark is a paragraph."""
    item = Block("list_item" if LIST_MARK.match(lines[0].group()) else "paragraph", *lines[0].span())
    for line in lines[1:]:
        if LIST_MARK.match(line.group()):
            yield item
            item = Block("list_item", *line.span())
        else:
            item = Block(item.kind, item.start, line.end())
    yield item
