"""Joining: chunks of one page that follow each other become one passage, and a small document is given whole.

Chunks repeat a little of each other at their seams; a joined passage says it once, so that what reads it has
running text. Pages are never joined. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.config import GenerationSettings, LibrarySettings
from engine.partitions.rows import Hit

# Between neighbouring chunks lie white space and markup that is never shown; more than this is no neighbourhood.
_MAX_GAP_CHARACTERS = 200
_LINES = re.compile(r"(.*?)(line|row)s? (\d+)(?:–(\d+))?")


@dataclass(frozen=True, slots=True)
class Room:
    """How large passages may become by joining, in estimated tokens: one of them, and all of an answer."""

    passage_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, generation: GenerationSettings, library: LibrarySettings) -> Room:
        """Three chunks for a passage; for all, half of what a model reads besides its answer (the rest is history)."""
        readable = generation.max_context - generation.max_answer_tokens
        return cls(3 * library.chunk_tokens, max(library.chunk_tokens, readable // 2))


def estimated_tokens(text: str) -> int:
    """Tokens by rule of thumb: four ASCII characters make one, any other character is one; errs on the large side."""
    plain = sum(character.isascii() for character in text)
    return -(-plain // 4) + len(text) - plain


def passages_of(hits: Iterable[Hit], limit: int, room: Room) -> list[Hit]:
    """The first `limit` passages in the order of their best chunk; a chunk beside one of them becomes part of it."""
    joined: list[Hit] = []
    for hit in hits:
        index = next((n for n, other in enumerate(joined) if _fits_to(other, hit, room)), None)
        if index is not None:
            joined[index] = joined_hits(joined[index], hit)
        elif len(joined) < limit:
            joined.append(hit)
        else:
            break
    return _closed_up(joined, room)


def with_small_documents_whole(
    passages: Sequence[Hit],
    num_chunks: Mapping[int, int],
    max_chunks: int,
    chunks_of: Callable[[Sequence[int]], Iterable[Hit]],
    room: Room,
) -> list[Hit]:
    """The passages, those of small documents grown to all of it, best first, as far as there is room.

    Args:
        passages: Best first.
        num_chunks: How many chunks a document has, by id.
        max_chunks: A document of more is not small.
        chunks_of: Reads all chunks of some documents.
        room: What the passages may grow to.
    """
    small = list(dict.fromkeys(p.document_id for p in passages if 1 < num_chunks[p.document_id] <= max_chunks))
    whole = _whole(chunks_of(small) if small else ())
    grown = list(passages)
    left = room.total_tokens - sum(estimated_tokens(passage.text) for passage in passages)
    for index, passage in enumerate(passages):
        document = whole.get(passage.document_id)
        if document is None or grown[index] is not passage:
            continue
        price = estimated_tokens(document.text) - estimated_tokens(passage.text)
        if 0 < price <= left and estimated_tokens(document.text) <= room.passage_tokens:
            grown[index] = replace(document, row_id=passage.row_id, ordinal=passage.ordinal, score=passage.score)
            left -= price
    return _without_contained(grown)


def joined_hits(first: Hit, second: Hit) -> Hit:
    """Both as one span of their page, with the id, ordinal and score of `first`; what lies between is white space."""
    before, after = (first, second) if first.start <= second.start else (second, first)
    if after.end <= before.end:
        text = before.text
    else:
        gap = after.start - before.end
        between = "\n\n"[:gap] + " " * (gap - 2) if gap > 0 else ""
        text = before.text + between + after.text[max(0, -gap) :]
    return replace(
        first,
        start=before.start,
        end=max(before.end, after.end),
        text=text,
        heading=_common(before.heading, after.heading),
        place=joined_place(before.place, after.place),
    )


def joined_place(first: str, second: str) -> str:
    """The place of both: "lines 3–9" and "lines 10–24" make "lines 3–24"; equal ones stay as they are."""
    if first == second or not second:
        return first
    ends = _LINES.fullmatch(first), _LINES.fullmatch(second)
    if ends[0] is None or ends[1] is None or ends[0].group(1, 2) != ends[1].group(1, 2):
        return f"{first} – {second}" if first else second
    numbers = [int(number) for end in ends if end for number in end.group(3, 4) if number]
    return f"{ends[0][1]}{ends[0][2]}s {min(numbers)}–{max(numbers)}"


def _fits_to(passage: Hit, hit: Hit, room: Room) -> bool:
    if (passage.document_id, passage.page) != (hit.document_id, hit.page):
        return False
    gap = max(passage.start, hit.start) - min(passage.end, hit.end)
    is_beside = 0 <= gap <= _MAX_GAP_CHARACTERS or (gap < 0 and not _is_within(hit, passage))
    return is_beside and estimated_tokens(passage.text) + estimated_tokens(hit.text) <= room.passage_tokens


def _closed_up(passages: Sequence[Hit], room: Room) -> list[Hit]:
    """Passages between which a chunk has closed the gap become one."""
    closed: list[Hit] = []
    for passage in passages:
        index = next((n for n, other in enumerate(closed) if _fits_to(other, passage, room)), None)
        if index is None:
            closed.append(passage)
        else:
            closed[index] = joined_hits(closed[index], passage)
    return closed


def _whole(chunks: Iterable[Hit]) -> dict[int, Hit]:
    """Documents that lie on one page, as one passage, by id."""
    whole: dict[int, Hit] = {}
    pages: dict[int, set[int | None]] = {}
    for chunk in sorted(chunks, key=lambda hit: (hit.document_id, hit.start)):
        pages.setdefault(chunk.document_id, set()).add(chunk.page)
        before = whole.get(chunk.document_id)
        whole[chunk.document_id] = chunk if before is None else joined_hits(before, chunk)
    return {document_id: hit for document_id, hit in whole.items() if len(pages[document_id]) == 1}


def _without_contained(passages: Sequence[Hit]) -> list[Hit]:
    kept: list[Hit] = []
    for passage in passages:
        if not any(
            (passage.document_id, passage.page) == (other.document_id, other.page) and _is_within(passage, other)
            for other in kept
        ):
            kept.append(passage)
    return kept


def _is_within(inner: Hit, outer: Hit) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _common(first: str, second: str) -> str:
    """The headings that both stand under."""
    if first == second:
        return first
    shared = []
    for one, other in zip(first.split(" › "), second.split(" › "), strict=False):
        if one != other:
            break
        shared.append(one)
    return " › ".join(shared)
