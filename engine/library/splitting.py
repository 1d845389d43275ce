"""Cuts text that is too long for one chunk at the best place: at sentence ends, then words, then characters.

All costs are upper bounds in tokens. They add up because each piece is measured together with the white space before
it, and any other text before it (a comment in Markdown, say) separately: for every tokenizer that never needs more
tokens for `a + b` than for `a` and `b` alone, a run of pieces costs at most the sum of its pieces and gaps.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from engine.core import Block, BlockKind

Cost = Callable[[str], int]

# A tokenizer may call a megabyte of base64 one unknown token, and indentation none at all.
MAX_CHARACTERS_PER_TOKEN = 16

_SENTENCE_END = re.compile(r"[.!?…؟۔।॥።][\"'”’»)\]]*\s+|[。！？｡．][”’」』）】]*\s*|\n[ \t]*\n\s*")
_LINE_END = re.compile(r"\n+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n\s*")
_SPACE = re.compile(r"\s")
_MOST_ACCENTS = 32
_SIGN = re.compile(r"\S")
_CELL_END = re.compile(r"\s\|\s")
_WORD_START = re.compile(r"(?<=\s)\S|[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_SEAMS: dict[BlockKind, tuple[re.Pattern[str], ...]] = {
    "code": (_BLANK_LINE, _LINE_END),
    "table_row": (_CELL_END, _SENTENCE_END),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of text that is never divided between chunks: `text[start:end]`.

    `cost` is that of `text[lead:end]`, with only white space between `lead` and `start`. `gap_cost` is that of the text
    between the previous piece and `lead`; it counts when both are in one chunk.
    """

    start: int
    end: int
    cost: int
    kind: BlockKind
    lead: int
    gap_cost: int = 0

    @property
    def full_cost(self) -> int:
        return self.gap_cost + self.cost


def measured(text: str, block: Block, previous_end: int, cost: Cost) -> Piece:
    """Returns the block as a piece that follows one ending at `previous_end`."""
    gap = text[previous_end : block.start]
    if gap.strip():
        price = cost(text[block.start : block.end])
        return Piece(block.start, block.end, price, block.kind, block.start, cost(gap))
    return Piece(block.start, block.end, cost(text[previous_end : block.end]), block.kind, previous_end)


def meter(count_tokens: Callable[[str], int], max_tokens: int) -> Cost:
    """Returns a cost that also limits characters per token, and does not tokenize texts that are too long anyway."""

    def cost(text: str) -> int:
        floor = -(-len(text) // MAX_CHARACTERS_PER_TOKEN)
        return floor if floor > max_tokens else max(floor, count_tokens(text))

    return cost


def split(text: str, piece: Piece, limit: int, cost: Cost) -> Iterator[Piece]:
    """Splits the piece into smaller ones of at most `limit` tokens, in order, with only white space between them."""
    seams = _SEAMS.get(piece.kind, (_SENTENCE_END,))
    return _split(text, piece, limit, cost, seams)


def overlap(text: str, pieces: list[Piece], limit: int, cost: Cost) -> Piece | None:
    """Returns the end of a run of pieces: whole sentences or pieces if they fit, else words, else None."""
    start, end = pieces[0].start, pieces[-1].end
    # Estimated by the run's tokens per character, so that the first candidate is usually the right one.
    reach = int(limit * (end - start) / max(1, sum(piece.cost for piece in pieces)))
    window = max(start + 1, end - reach * 5 // 4)
    seams = {piece.start for piece in pieces if piece.start >= window}
    seams.update(match.end() for match in _SENTENCE_END.finditer(text, window - 1, end) if match.end() < end)
    tail = _longest_tail(text, sorted(seams), end, limit, cost)
    if tail is None and pieces[-1].kind in ("paragraph", "list_item"):
        words = (match.start() for match in _WORD_START.finditer(text, max(window, end - reach), end))
        tail = _longest_tail(text, words, end, limit, cost)
    return tail


def _longest_tail(text: str, starts: Iterable[int], end: int, limit: int, cost: Cost) -> Piece | None:
    for start in starts:
        price = cost(text[start:end])
        if price <= limit:
            return Piece(start, end, price, "paragraph", start)
    return None


def _split(text: str, piece: Piece, limit: int, cost: Cost, seams: tuple[re.Pattern[str], ...]) -> Iterator[Piece]:
    if piece.cost <= limit:
        yield piece
    elif not seams:
        yield from _cut(text, piece, limit, cost)
    else:
        for part in _parts(text, piece, cost, seams[0]):
            yield from _split(text, part, limit, cost, seams[1:])


def _parts(text: str, piece: Piece, cost: Cost, seam: re.Pattern[str]) -> Iterator[Piece]:
    lead, start, gap_cost = piece.lead, piece.start, piece.gap_cost
    cuts = [match.end() for match in seam.finditer(text, piece.start, piece.end)]
    for cut in (*cuts, piece.end):
        end = start + len(text[start:cut].rstrip())
        if end > start:
            yield Piece(start, end, cost(text[lead:end]), piece.kind, lead, gap_cost)
            lead, gap_cost = end, 0
        start = _next_sign(text, cut, piece.end)


def _cut(text: str, piece: Piece, limit: int, cost: Cost) -> Iterator[Piece]:
    """Cuts the piece between words into about equal parts, and cuts those again that are still too long."""
    if piece.cost <= limit or piece.end - piece.start < 2:
        yield piece
        return
    num_parts = min(piece.end - piece.start, -(-piece.cost * 21 // (20 * limit)))
    lead, start, gap_cost = piece.lead, piece.start, piece.gap_cost
    for number in range(1, max(2, num_parts) + 1):
        cut = _near(text, piece, number, max(2, num_parts))
        end = start + len(text[start:cut].rstrip())
        if end > start:
            yield from _cut(text, Piece(start, end, cost(text[lead:end]), piece.kind, lead, gap_cost), limit, cost)
            lead, gap_cost = end, 0
        start = _next_sign(text, max(start, cut), piece.end)


def _next_sign(text: str, start: int, end: int) -> int:
    """Returns the first position from `start` on that is not white space."""
    sign = _SIGN.search(text, start, end)
    return sign.start() if sign else end


def _near(text: str, piece: Piece, number: int, num_parts: int) -> int:
    """Returns where part `number` of the piece ends: at the white space nearest to its even share, else right there."""
    length = piece.end - piece.start
    target = piece.start + length * number // num_parts
    if number == num_parts:
        return piece.end
    reach = length // num_parts // 4
    after = _SPACE.search(text, target, target + reach)
    before = max(text.rfind(space, target - reach, target) for space in " \n\t\u3000")
    spaces = [position for position in (before, after.start() if after else -1) if position > piece.start]
    if spaces:
        return min(spaces, key=lambda position: abs(position - target)) + 1
    # Not between a letter and its accents; but something with dozens of accents is no letter.
    least = max(piece.start + 1, target - _MOST_ACCENTS)
    place = target
    while place > least and _continues(text[place]):
        place -= 1
    return target if _continues(text[place]) else place


def _continues(character: str) -> bool:
    return bool(unicodedata.combining(character)) or character in "\u200d\ufe0f"
