"""Markdown: the source stays as it is, so that it can be shown, with its structure marked in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from engine.core import Block, BlockKind, ParsedDocument
from engine.library.parsers.encoding import decode
from engine.library.parsers.limits import Limits
from engine.library.parsers.text import by_lines, trimmed

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
_TITLE = re.compile(r"^title[ \t]*:[ \t]*(.*[^ \t\n]|[ \t])[ \t]*$", re.M)
# Rules, table delimiters, link definitions (but not footnotes), comments and lone tags are not shown. Possessive and
# atomic groups prevent exponential backtracking.
_UNSHOWN = re.compile(
    r"(?:[\s*_|:=-]++|(?>\[(?!\^)[^\]\n]+\]:[ \t]*\S+(?:[ \t]+[\"'(][^\n]*)?[ \t]*(?:\n|\Z))|(?><!--.*?-->)"
    r"|</?[a-zA-Z][^<>]*+>)*+",
    re.S,
)
# A picture embedded as a data URL: thousands of characters that nobody reads.
_DATA_ADDRESS = re.compile(r"(\bdata:[a-z]+/[\w.+-]+[;,])[^\s\"'<>()\[\]]{64,}+", re.I)
_LEAVES: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "tr_open": "table_row",
    "fence": "code",
    "code_block": "code",
    "html_block": "paragraph",
}
_SPOKEN = ("text", "code_inline")
# Parsing inline markup takes half of the time, and is needed only in headings.
_INLINE = MarkdownIt("commonmark")
_BLOCKS = MarkdownIt("commonmark").enable("table").disable("inline")


def parse(path: Path, limits: Limits) -> ParsedDocument:
    text = without_data(decode(path.read_bytes()))
    matter = _FRONT_MATTER.match(text)
    title = _TITLE.search(matter.group(1) or "") if matter else None
    found = blocks(text, matter.end() if matter else 0)
    return by_lines("markdown", text, found, title=title.group(1).strip("\"'") if title else "")


def without_data(text: str) -> str:
    """Shortens data URLs of embedded pictures; the lines stay the same."""
    return _DATA_ADDRESS.sub(r"\1…", text)


def blocks(text: str, body_start: int = 0) -> Iterator[Block]:
    """Yields the blocks from `body_start` on, and the text between them, such as front matter."""
    end = 0
    for block in _marked(text, body_start):
        if block.start < end:
            continue
        yield from _between(text, end, block.start)
        if block.kind != "paragraph" or _is_shown(text, block):
            yield block
        end = block.end
    yield from _between(text, end, len(text))


def _between(text: str, start: int, end: int) -> Iterator[Block]:
    block = trimmed(text, start, end)
    if block and _is_shown(text, block):
        yield block


def _is_shown(text: str, block: Block) -> bool:
    return _UNSHOWN.fullmatch(text, block.start, block.end) is None


def _marked(text: str, body_start: int) -> Iterator[Block]:
    body = text[body_start:]
    line_starts = [body_start, *(body_start + match.end() for match in re.finditer("\n", body)), len(text)]
    links: dict[str, Any] = {}
    tokens = _BLOCKS.parse(body, links)
    items: list[int] = []
    for index, token in enumerate(tokens):
        if token.type == "list_item_open" and token.map:
            items.append(token.map[0])
        elif token.type == "list_item_close":
            items.pop()
        elif token.type in _LEAVES and token.map:
            first, last = token.map
            block = trimmed(text, line_starts[first], line_starts[min(last, len(line_starts) - 1)])
            if block:
                kind = _LEAVES[token.type]
                if kind == "heading":
                    label = _spoken(tokens[index + 1].content, links)
                    yield replace(block, kind=kind, level=int(token.tag[1]), label=label)
                else:
                    yield replace(block, kind="list_item" if items and kind == "paragraph" else kind)


def _spoken(heading: str, links: dict[str, Any]) -> str:
    """Returns a heading without markup: "Using `Arc<T>`" becomes "Using Arc<T>". `links` are the link definitions."""
    children = [child for inline in _INLINE.parseInline(heading, links) for child in inline.children or ()]
    words = (" " if child.type == "softbreak" else child.content for child in children if _is_said(child))
    return "".join(words) or heading


def _is_said(token: Token) -> bool:
    return token.type in _SPOKEN or token.type in ("softbreak", "hardbreak")
