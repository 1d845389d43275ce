"""Whole documents: what is read when the document in question is small, or a question asks for all of it.

A document that fits is read completely, page by page. Of a longer one, passages spread evenly over the text are read,
or the best ones if all items of a kind are wanted; always in the order of the text. A specific question about a long
document is answered by ranking, which is better and faster. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.partitions.rows import Hit
from engine.retrieval.asks_whole import Wanted
from engine.retrieval.joining import Room, estimated_tokens, in_order

# A document up to this size is always read completely: ranking would choose as much.
SMALL_TOKENS = 1500
# Documents with more chunks are not checked for that.
_MAX_SMALL_CHUNKS = 32
# Longer ones are not read in full only to choose from them.
MAX_CHUNKS = 4096
# The tokens around a passage in a prompt: its number, the file's name, the page.
_AROUND_TOKENS = 16
# The approximate number of passages that are read of a document that does not fit, each of at least one chunk.
USUAL_PASSAGES = 24


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of a document that are read, in the order of its text, and the number of all its parts."""

    parts: tuple[Hit, ...]
    num_parts: int


def is_looked_into(num_chunks: int, wanted: Wanted | None) -> bool:
    """Returns whether a document with this many chunks may be read without ranking."""
    if wanted is None:
        return num_chunks <= _MAX_SMALL_CHUNKS
    return wanted == "gist" or num_chunks <= MAX_CHUNKS


def steps_of(num_chunks: int) -> list[int]:
    """Returns the ordinals of chunks that represent a document with too many chunks."""
    return spread(num_chunks, USUAL_PASSAGES, ())


def reading_of(chunks: Iterable[Hit], num_chunks: int, wanted: Wanted | None, room: Room) -> Reading | None:
    """Returns what to read of a document; None if ranking is better.

    Args:
        chunks: All chunks, or those that represent it; each with its score for the question, 0 if it was not found.
        num_chunks: The number of its chunks.
        wanted: What the question wants of it.
        room: How large passages may be.
    """
    chunks = list(chunks)
    num_unseen = max(0, num_chunks - len(chunks))
    parts = in_order(chunks, room.passage_tokens)
    most = room.total_tokens if wanted is not None else min(SMALL_TOKENS, room.total_tokens)
    if _cost(parts) <= most:
        return Reading(tuple(parts), len(parts) + num_unseen) if parts else None
    if wanted is None:
        return None
    parts = in_order(chunks, min(room.passage_tokens, room.total_tokens // USUAL_PASSAGES))
    chosen = _spread(parts, most) if wanted == "gist" else _best(parts, most)
    return Reading(tuple(parts[place] for place in chosen), len(parts) + num_unseen)


def spread(count: int, number: int, begins: Sequence[int]) -> list[int]:
    """Selects `number` of `count` places, one per equal range: the first in it that is among `begins`, or its start."""
    places = []
    for stretch in range(number):
        first, end = stretch * count // number, (stretch + 1) * count // number
        next_beginning = begins[at] if (at := bisect_right(begins, first - 1)) < len(begins) else end
        places.append(next_beginning if next_beginning < end and first > 0 else first)
    return places


def _spread(parts: Sequence[Hit], most: int) -> list[int]:
    begins = [place for place, part in enumerate(parts) if place and part.heading != parts[place - 1].heading]

    def fits(number: int) -> bool:
        return _cost([parts[place] for place in spread(len(parts), number, begins)]) <= most

    number = bisect_right(range(1, len(parts)), False, key=lambda number: not fits(number))
    # The cost need not rise with the number of places, so the binary search may be wrong.
    while number > 1 and not fits(number):
        number -= 1
    return spread(len(parts), max(1, number), begins)


def _best(parts: Sequence[Hit], most: int) -> list[int]:
    """Selects the best parts that fit, in the order of the text; parts with equal scores from the beginning on."""
    chosen = list[int]()
    for place in sorted(range(len(parts)), key=lambda place: -parts[place].score):
        most -= _cost([parts[place]])
        if most < 0 and chosen:
            break
        chosen.append(place)
    return sorted(chosen)


def _cost(parts: Iterable[Hit]) -> int:
    return sum(estimated_tokens(part.text) + _AROUND_TOKENS for part in parts)
