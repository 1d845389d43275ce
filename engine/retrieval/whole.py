"""Whole documents: what is read when the document in question is small, or a question asks for all of it.

What fits is read in full, page by page. Of what does not, passages spread evenly over the text are read, or those that
rank best where all of a kind is wanted; always in the order of the text, as people would. A pointed question to a long
document is none of this: there ranking chooses better, and reading takes its time. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.partitions.rows import Hit
from engine.retrieval.asks_whole import Wanted
from engine.retrieval.joining import Room, estimated_tokens, in_order

# So much is read whatever is asked: it is no more than ranking would choose.
SMALL_TOKENS = 1500
# And whoever looks for that looks into documents of no more chunks.
_MAX_SMALL_CHUNKS = 32
# Longer ones are not read in full only to choose from them.
MAX_CHUNKS = 4096
# What stands around a passage in a prompt: its number, the file's name, the page.
_AROUND_TOKENS = 16
# Of a document that does not fit, about so many passages are read, of one chunk at least.
USUAL_PASSAGES = 24


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of a document, in the order of its text, and of how many such parts it consists."""

    parts: tuple[Hit, ...]
    num_parts: int


def is_looked_into(num_chunks: int, wanted: Wanted | None) -> bool:
    """Whether a document of so many chunks may be read otherwise than by ranking."""
    if wanted is None:
        return num_chunks <= _MAX_SMALL_CHUNKS
    return wanted == "gist" or num_chunks <= MAX_CHUNKS


def steps_of(num_chunks: int) -> list[int]:
    """The ordinals that stand for a document of too many chunks to look at."""
    return spread(num_chunks, USUAL_PASSAGES, ())


def reading_of(chunks: Iterable[Hit], num_chunks: int, wanted: Wanted | None, room: Room) -> Reading | None:
    """What to read of a document; None where ranking chooses better.

    Args:
        chunks: All of it, or what stands for it; each with how well it fits the question, 0 where it was not found.
        num_chunks: How many it has.
        wanted: What the question wants of it.
        room: What passages may take.
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
    """`number` of `count` places, one from each of as many equal stretches: the first of them that begins something."""
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
    # More places need not be dearer ones.
    while number > 1 and not fits(number):
        number -= 1
    return spread(len(parts), max(1, number), begins)


def _best(parts: Sequence[Hit], most: int) -> list[int]:
    """The best of them as far as they fit; then from the beginning on."""
    chosen = list[int]()
    for place in sorted(range(len(parts)), key=lambda place: -parts[place].score):
        most -= _cost([parts[place]])
        if most < 0 and chosen:
            break
        chosen.append(place)
    return sorted(chosen)


def _cost(parts: Iterable[Hit]) -> int:
    return sum(estimated_tokens(part.text) + _AROUND_TOKENS for part in parts)
