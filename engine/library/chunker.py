"""Chunks: a document's structure packed into passages of bounded size, each a span of one page under its headings.

A heading begins a chunk and stays with what follows. Paragraphs, list items, table rows and code definitions
stay whole when they fit. A section that needs several chunks is cut into about equal ones that overlap a little;
small sections of one parent share a chunk. No chunk crosses a page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.core import Chunk, ParsedDocument, ParsedPage
from engine.library.places import Places
from engine.library.splitting import Cost, Piece, measured, meter, overlap, split

if TYPE_CHECKING:
    from engine.partitions.rows import ChunkRow

SEPARATOR = " › "
MAX_HEADING_TOKENS = 40
_MAX_LABEL_CHARACTERS = 200
_ESTIMATED_TOKEN = re.compile(r"[A-Za-z0-9]{1,6}|[^\sA-Za-z0-9]")


def chunk(
    document: ParsedDocument, count_tokens: Callable[[str], int], max_tokens: int, overlap_tokens: int
) -> list[Chunk]:
    """Returns the document's chunks in order.

    `count_tokens(indexed_text(chunk)) <= max_tokens` holds for each, provided that two joined texts never cost
    more tokens than both alone. Each text is counted a bounded number of times.

    Args:
        document: Pages with their blocks.
        count_tokens: The embedder's measure, without special tokens.
        max_tokens: The most that one chunk may cost together with its heading line.
        overlap_tokens: About how much of a chunk is repeated at the start of the next one of its section.
    """
    cost = meter(count_tokens, max_tokens)
    outline = _Outline(document.title)
    chunks: list[Chunk] = []
    for page in document.pages:
        places = Places(document, page)
        outline.turn_to(page.place)
        for section in _joined(_sections(page, outline, cost), max_tokens):
            heading, budget = _headed(section.path, max_tokens, cost)
            for start, end in _packed(page.text, section, budget, min(overlap_tokens, budget // 4), cost):
                text, place = page.text[start:end], places.place(start, end)
                chunks.append(Chunk(len(chunks), page.number, start, end, heading, text, place))
    return chunks


def indexed_text(chunk: Chunk | ChunkRow) -> str:
    """Returns what is embedded and counted for a chunk: its shortened heading path on one line, then its text.

    Also accepts a row: its stored indexed text may be of another form, for the search by words.
    """
    heading = shortened(chunk.heading)
    return f"{heading}\n{chunk.text}" if heading else chunk.text


def shortened(heading: str) -> str:
    """Cuts a heading path to about 40 tokens: drops outer headings first, then the end of the innermost one."""
    parts = heading.split(SEPARATOR)
    while len(parts) > 1 and estimate_tokens(SEPARATOR.join(parts)) > MAX_HEADING_TOKENS:
        del parts[0]
    return _first_tokens(SEPARATOR.join(parts), MAX_HEADING_TOKENS)


def estimate_tokens(text: str) -> int:
    """Estimates tokens without a tokenizer: up to six ASCII letters are one token, any other sign is one."""
    return len(_ESTIMATED_TOKEN.findall(text))


def _first_tokens(text: str, limit: int) -> str:
    for count, token in enumerate(_ESTIMATED_TOKEN.finditer(text)):
        if count == limit:
            return text[: token.start()].rstrip()
    return text


@dataclass(frozen=True, slots=True)
class _Section:
    """Neighbouring pieces of a page that belong under one path of headings."""

    path: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def cost(self) -> int:
        return sum(piece.full_cost for piece in self.pieces)

    @property
    def has_heading(self) -> bool:
        return self.pieces[0].kind == "heading"

    @property
    def is_bare(self) -> bool:
        """Whether it ends with a heading, so that nothing stands below it."""
        return self.pieces[-1].kind == "heading"


class _Outline:
    """The headings that apply at the current position; kept from page to page, but not from slide to slide."""

    def __init__(self, title: str) -> None:
        self._title = _one_line(title)
        self._place = ""
        self._open: list[tuple[int, str]] = []

    def turn_to(self, place: str) -> None:
        """Continues on a page with that name; a page with another name is not under the headings of the last one."""
        if place != self._place:
            self._open.clear()
        self._place = place

    def enter(self, level: int, label: str) -> None:
        self._open = [heading for heading in self._open if heading[0] < level]
        self._open.append((level, _one_line(label)))

    @property
    def path(self) -> tuple[str, ...]:
        labels = tuple(label for _, label in self._open if label)
        if not self._title or (labels and labels[0].casefold() == self._title.casefold()):
            return labels
        return (self._title, *labels)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_LABEL_CHARACTERS].rstrip()


def _sections(page: ParsedPage, outline: _Outline, cost: Cost) -> Iterator[_Section]:
    pieces: list[Piece] = []
    previous_end = 0
    for block in page.blocks:
        if block.kind == "heading":
            if pieces:
                yield _Section(outline.path, tuple(pieces))
                pieces = []
            outline.enter(block.level, block.label or page.text[block.start : block.end])
        pieces.append(measured(page.text, block, previous_end, cost))
        previous_end = block.end
    if pieces:
        yield _Section(outline.path, tuple(pieces))


def _joined(sections: Iterable[_Section], max_tokens: int) -> list[_Section]:
    """Joins sections that are too small with a neighbour."""
    joined: list[_Section] = []
    for section in sections:
        merged = _merged(joined[-1], section, max_tokens) if joined else None
        joined[-1:] = [merged] if merged else [*joined[-1:], section]
    if len(joined) > 1 and joined[-1].is_bare and joined[-2].cost + joined[-1].cost <= max_tokens // 2:
        last = joined.pop()
        joined[-1] = _Section(joined[-1].path, joined[-1].pieces + last.pieces)
    return joined


def _merged(first: _Section, second: _Section, max_tokens: int) -> _Section | None:
    """Returns both sections as one, or None if they should stay separate."""
    pieces = first.pieces + second.pieces
    if first.is_bare:
        return _Section(second.path, pieces) if first.cost <= max_tokens // 4 else None
    if second.is_bare:
        return None
    total, tiny = first.cost + second.cost, max_tokens // 10
    if _related(first.path, second.path):
        if total <= max_tokens // 2:
            return _Section(_common(first.path, second.path), pieces)
        if min(first.cost, second.cost) <= tiny and total <= max_tokens * 3 // 4:
            return _Section(max(first, second, key=lambda section: section.cost).path, pieces)
    elif not first.has_heading and first.cost <= tiny and total <= max_tokens * 3 // 4:
        # The rest of a section from the previous page, or a running title: too little to stand alone.
        return _Section(second.path, pieces)
    return None


def _related(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Returns whether they are children of one parent, or a parent and its child."""
    return first == second[:-1] or (first[:-1] == second[:-1] and len(first) == len(second))


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return first if first == second[: len(first)] else first[:-1]


def _headed(path: tuple[str, ...], max_tokens: int, cost: Cost) -> tuple[str, int]:
    """Returns the heading of a section's chunks, and how many tokens it leaves for their text."""
    heading = SEPARATOR.join(path)
    price = cost(shortened(heading) + "\n") if heading else 0
    # In a script that costs a token per letter, the heading must not take the room of the text.
    return (heading, max_tokens - price) if price <= max_tokens // 2 else ("", max_tokens)


def _packed(text: str, section: _Section, budget: int, overlap_tokens: int, cost: Cost) -> Iterator[tuple[int, int]]:
    """Yields spans of at most `budget` tokens each that together cover the section."""
    pieces = list(_fitting(text, section.pieces, budget, budget - overlap_tokens, cost))
    remaining = sum(piece.full_cost for piece in pieces)
    num_chunks = max(1, -(-remaining // (budget - overlap_tokens)))
    packer = _Packer(budget, target=remaining / num_chunks if remaining > budget else budget, tiny=budget // 10)
    previous: list[Piece] = []
    index = 0
    while index < len(pieces):
        repeated = overlap(text, previous, overlap_tokens, cost) if previous and overlap_tokens else None
        if repeated and repeated.cost + pieces[index].full_cost > budget:
            repeated = None
        previous = packer.take(pieces, index, repeated.cost if repeated else 0, remaining)
        remaining -= sum(piece.full_cost for piece in previous)
        index += len(previous)
        yield (repeated or previous[0]).start, previous[-1].end


@dataclass(frozen=True, slots=True)
class _Packer:
    """Fills chunks to about `target`, at most `budget`; exceeds the target where a `tiny` rest would remain."""

    budget: int
    target: float
    tiny: int

    def take(self, pieces: list[Piece], first: int, used: int, remaining: int) -> list[Piece]:
        """Returns the pieces of the next chunk, beginning with `first`; `used` tokens of its budget are taken."""
        taken = [pieces[first]]
        # The gap before the first piece belongs to the chunk only if the chunk begins with an overlap.
        room = self.budget - used - (pieces[first].full_cost if used else pieces[first].cost)
        fresh = pieces[first].full_cost
        for index in range(first + 1, len(pieces)):
            price = pieces[index].full_cost
            if price > room or self._is_full(taken, fresh, remaining - fresh):
                break
            taken.append(pieces[index])
            room -= price
            fresh += price
        return taken

    def _is_full(self, taken: list[Piece], fresh: int, left: int) -> bool:
        return fresh >= self.target and left > self.tiny and taken[-1].kind != "heading"


def _fitting(text: str, pieces: tuple[Piece, ...], budget: int, limit: int, cost: Cost) -> Iterator[Piece]:
    """Yields the pieces, splitting those that fit no chunk; what follows a heading must fit together with it."""
    headings = 0
    for piece in pieces:
        room = budget - headings if headings <= budget // 2 else budget
        yield from split(text, piece, min(limit, room), cost) if piece.cost > room else (piece,)
        headings = headings + piece.cost if piece.kind == "heading" else 0
