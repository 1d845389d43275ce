"""Joining: chunks of one page that follow each other become one passage, and a small document is given whole.

Adjacent chunks overlap a little; a joined passage has the overlap once, so that it is running text. Chunks of different
pages are never joined. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.config import GenerationSettings, LibrarySettings
from engine.partitions.rows import Hit

# Between neighbouring chunks there may be white space and hidden markup; with a larger gap they are not joined.
_MAX_GAP_CHARACTERS = 200
_LINES = re.compile(r"(.*?)(line|row)s? (\d+)(?:–(\d+))?")


@dataclass(frozen=True, slots=True)
class Room:
    """How large passages may become by joining, in estimated tokens: a single one, and all of an answer."""

    passage_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, generation: GenerationSettings, library: LibrarySettings) -> Room:
        """Allows three chunks per passage, in total half of the context without the answer (the rest is history)."""
        readable = generation.max_context - generation.max_answer_tokens
        return cls(3 * library.chunk_tokens, max(library.chunk_tokens, readable // 2))


@dataclass(frozen=True, slots=True)
class _Run:
    """Chunks `first` to `last` of a page as one passage."""

    hit: Hit
    first: int
    last: int

    def can_take(self, other: _Run, room: Room) -> bool:
        is_same_page = (self.hit.document_id, self.hit.page) == (other.hit.document_id, other.hit.page)
        is_beside = self.last + 1 == other.first or other.last + 1 == self.first
        gap = max(self.hit.start, other.hit.start) - min(self.hit.end, other.hit.end)
        tokens = estimated_tokens(self.hit.text) + estimated_tokens(other.hit.text)
        return is_same_page and is_beside and gap <= _MAX_GAP_CHARACTERS and tokens <= room.passage_tokens

    def with_(self, other: _Run) -> _Run:
        return _Run(joined_hits(self.hit, other.hit), min(self.first, other.first), max(self.last, other.last))


def estimated_tokens(text: str) -> int:
    """Estimates tokens: four ASCII characters are one, any other character is one; rather too many than too few."""
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // 4) + len(text) - plain


def passages_of(hits: Iterable[Hit], limit: int, room: Room) -> list[Hit]:
    """Returns the first `limit` passages in the order of their best chunk; adjacent chunks are joined to them."""
    runs: list[_Run] = []
    for hit in hits:
        run = _Run(hit, hit.ordinal, hit.ordinal)
        beside = [other for other in runs if other.can_take(run, room)]
        if beside:
            # A chunk between two passages joins them.
            runs[runs.index(beside[0])] = joined = beside[0].with_(run)
            for other in beside[1:]:
                if joined.can_take(other, room):
                    runs.remove(other)
                    runs[runs.index(joined)] = joined = joined.with_(other)
        elif len(runs) < limit:
            runs.append(run)
        else:
            break
    return [run.hit for run in runs]


def in_order(chunks: Iterable[Hit], passage_tokens: int) -> list[Hit]:
    """Returns all chunks of a document as passages in the order of its text, joined up to `passage_tokens`."""
    room = Room(passage_tokens, passage_tokens)
    runs: list[_Run] = []
    for chunk in sorted(chunks, key=lambda hit: hit.ordinal):
        run = _Run(chunk, chunk.ordinal, chunk.ordinal)
        if runs and runs[-1].can_take(run, room):
            score = max(runs[-1].hit.score, chunk.score)
            joined = runs[-1].with_(run)
            runs[-1] = replace(joined, hit=replace(joined.hit, score=score))
        else:
            runs.append(run)
    return [run.hit for run in runs]


def with_small_documents_whole(
    passages: Sequence[Hit],
    num_chunks: Mapping[int, int],
    max_chunks: int,
    chunks_of: Callable[[Sequence[int]], Iterable[Hit]],
    room: Room,
) -> list[Hit]:
    """Extends passages of small documents to the whole document, best first, as far as there is room.

    Args:
        passages: Best first.
        num_chunks: How many chunks a document has, by id.
        max_chunks: The most chunks of a small document.
        chunks_of: Reads all chunks of some documents.
        room: How large the passages may become.
    """
    tokens = [estimated_tokens(passage.text) for passage in passages]
    left = room.total_tokens - sum(tokens)
    # Reading is the slowest step, so only documents whose passages could grow are read.
    small = dict.fromkeys(
        passage.document_id
        for passage, num_tokens in zip(passages, tokens, strict=True)
        if left > 0 and num_tokens < room.passage_tokens and 1 < num_chunks[passage.document_id] <= max_chunks
    )
    whole = _whole(chunks_of(list(small)) if small else ())
    grown = list(passages)
    for index, passage in enumerate(passages):
        document = whole.get(passage.document_id)
        if document is None:
            continue
        price = estimated_tokens(document.text) - estimated_tokens(passage.text)
        if 0 < price <= left and estimated_tokens(document.text) <= room.passage_tokens:
            grown[index] = replace(document, row_id=passage.row_id, ordinal=passage.ordinal, score=passage.score)
            left -= price
            # Its other passages are contained in this one.
            del whole[passage.document_id]
    return _without_contained(grown)


def joined_hits(first: Hit, second: Hit) -> Hit:
    """Joins both to one span of their page, with the id, ordinal and score of `first`; a gap becomes white space."""
    before, after = (first, second) if first.start <= second.start else (second, first)
    if after.end <= before.end:
        text = before.text
    else:
        gap = after.start - before.end
        # Spaces first, at the end of a line: at the beginning of a line they would be code in Markdown.
        between = " " * (gap - 2) + "\n\n"[:gap] if gap > 0 else ""
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
    """Returns the place of both: "lines 3–9" and "lines 10–24" become "lines 3–24"; equal places stay the same."""
    if first == second or not second:
        return first
    ends = _LINES.fullmatch(first), _LINES.fullmatch(second)
    if ends[0] is None or ends[1] is None or ends[0].group(1, 2) != ends[1].group(1, 2):
        return f"{first} – {second}" if first else second
    numbers = [int(number) for end in ends if end for number in end.group(3, 4) if number]
    return f"{ends[0][1]}{ends[0][2]}s {min(numbers)}–{max(numbers)}"


def _whole(chunks: Iterable[Hit]) -> dict[int, Hit]:
    """Returns documents that have a single page, as one passage each, by id."""
    whole: dict[int, Hit] = {}
    pages: dict[int, set[int | None]] = {}
    for chunk in sorted(chunks, key=lambda hit: (hit.document_id, hit.start)):
        pages.setdefault(chunk.document_id, set()).add(chunk.page)
        before = whole.get(chunk.document_id)
        whole[chunk.document_id] = chunk if before is None else joined_hits(before, chunk)
    return {document_id: hit for document_id, hit in whole.items() if len(pages[document_id]) == 1}


def _without_contained(passages: Sequence[Hit]) -> list[Hit]:
    """Removes passages that are contained in another one, which takes the first position of both."""
    kept: list[Hit] = []
    for passage in passages:
        if any(_is_within(passage, other) for other in kept):
            continue
        inside = [place for place, other in enumerate(kept) if _is_within(other, passage)]
        if inside:
            first = kept[inside[0]]
            kept[inside[0]] = replace(passage, row_id=first.row_id, ordinal=first.ordinal, score=first.score)
            kept = [other for place, other in enumerate(kept) if place not in inside[1:]]
        else:
            kept.append(passage)
    return kept


def _is_within(inner: Hit, outer: Hit) -> bool:
    is_same_page = (inner.document_id, inner.page) == (outer.document_id, outer.page)
    return is_same_page and outer.start <= inner.start and inner.end <= outer.end


def _common(first: str, second: str) -> str:
    """Returns the headings that are above both."""
    if first == second:
        return first
    shared = []
    for one, other in zip(first.split(" › "), second.split(" › "), strict=False):
        if one != other:
            break
        shared.append(one)
    return " › ".join(shared)
