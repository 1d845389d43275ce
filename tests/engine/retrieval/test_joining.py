"""Tests for engine.retrieval.joining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.partitions.rows import Hit
from engine.retrieval.joining import (
    Room,
    estimated_tokens,
    joined_hits,
    joined_place,
    passages_of,
    with_small_documents_whole,
)
from tests.helpers.chunk_rows import hit

PAGE = "The lease begins in May. The rent is 900 Euro. Pets are welcome.\n\nHeating is extra. Keys are at the desk."
# Where the chunks of the page begin, in order.
STARTS = (0, 25, 47, 66)
ROOM = Room(passage_tokens=100, total_tokens=1000)


def cut(start: int, end: int, *, document_id: int = 1, page: int | None = None) -> Hit:
    found = hit(f"{document_id}-{page}-{start}", PAGE[start:end], document_id=document_id, start=start, page=page)
    return replace(found, ordinal=STARTS.index(start))


def test_chunks_that_overlap_are_joined_as_the_page_has_them():
    [passage] = passages_of([cut(25, 64), cut(0, 46)], 3, ROOM)
    assert passage.text == PAGE[0:64]
    assert (passage.start, passage.end, passage.row_id) == (0, 64, "1-None-25")


def test_what_lies_between_neighbours_is_white_space_of_the_same_length():
    joined = joined_hits(cut(47, 64), cut(66, 83))
    assert joined.text == PAGE[47:83]
    assert joined_hits(cut(0, 24), cut(47, 64)).text == PAGE[0:24] + " " * 21 + "\n\n" + PAGE[47:64]


def test_a_chunk_between_two_passages_makes_them_one():
    [passage] = passages_of([cut(0, 24), cut(47, 64), cut(25, 46)], 3, Room(100, 1000))
    assert (
        passage.text == PAGE[0:64].replace(". The", ".\nThe").replace(". Pets", ".\nPets") or passage.text == PAGE[0:64]
    )
    assert (passage.start, passage.end) == (0, 64)


@pytest.mark.parametrize(
    "other",
    [
        {"page": 2},
        {"document_id": 2},
    ],
    ids=["next page", "another document"],
)
def test_pages_and_documents_are_never_joined(other: dict[str, int]):
    first = cut(0, 46, page=1)
    second = replace(cut(47, 64, page=1), **other)  # type: ignore[arg-type]
    assert passages_of([first, second], 3, ROOM) == [first, second]


def test_chunks_that_are_far_apart_stay_apart():
    first, second = hit("a", "x" * 50), replace(hit("b", "y" * 50, start=400), ordinal=1)
    assert passages_of([first, second], 3, ROOM) == [first, second]


def test_a_passage_does_not_outgrow_its_room():
    chunks = [replace(hit(f"c{n}", "x" * 100, start=100 * n), ordinal=n) for n in range(6)]
    passages = passages_of(chunks, 6, Room(passage_tokens=75, total_tokens=1000))
    assert [(p.start, p.end) for p in passages] == [(0, 300), (300, 600)]


def test_joining_makes_room_for_further_passages():
    hits = [cut(0, 46), cut(25, 64), hit("z", "Something else.", document_id=2), hit("y", "More.", document_id=3)]
    assert [p.document_id for p in passages_of(hits, 2, ROOM)] == [1, 2]


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("page 3", "page 3", "page 3"),
        ("lines 3–9", "lines 10–24", "lines 3–24"),
        ("line 3", "lines 4–9", "lines 3–9"),
        ("sheet “Budget”, rows 12–18", "sheet “Budget”, rows 5–11", "sheet “Budget”, rows 5–18"),
        ("", "", ""),
        ("", "lines 1–2", "lines 1–2"),
        ("slide “One”", "slide “Two”", "slide “One” – slide “Two”"),
    ],
)
def test_the_place_of_a_joined_passage_is_that_of_both(first: str, second: str, joined: str):
    assert joined_place(first, second) == joined


def test_headings_that_both_stand_under_remain():
    first, second = replace(cut(0, 24), heading="Lease › Rent"), replace(cut(25, 46), heading="Lease › Pets")
    assert joined_hits(first, second).heading == "Lease"


def whole(passages: Sequence[Hit], chunks: Sequence[Hit], room: Room = ROOM, max_chunks: int = 4) -> list[Hit]:
    counts = {id_: sum(chunk.document_id == id_ for chunk in chunks) for id_ in {c.document_id for c in chunks}}
    return with_small_documents_whole(
        passages, counts, max_chunks, lambda ids: [chunk for chunk in chunks if chunk.document_id in ids], room
    )


def test_a_small_document_is_given_whole():
    chunks = [cut(0, 24), cut(25, 64), cut(66, len(PAGE))]
    [passage] = whole([replace(chunks[1], score=0.7)], chunks)
    assert passage.text.split() == PAGE.split()
    assert (passage.start, passage.end, passage.score) == (0, len(PAGE), 0.7)


def test_two_passages_of_one_small_document_become_one():
    chunks = [cut(0, 24), cut(25, 64), cut(66, len(PAGE))]
    assert len(whole([chunks[2], chunks[0]], chunks)) == 1


@pytest.mark.parametrize(
    ("room", "max_chunks"), [(Room(20, 1000), 4), (Room(100, 15), 4), (ROOM, 2)], ids=["passage", "answer", "not small"]
)
def test_a_document_that_does_not_fit_stays_as_it_was(room: Room, max_chunks: int):
    chunks = [cut(0, 24), cut(25, 64), cut(66, len(PAGE))]
    assert whole([chunks[1]], chunks, room, max_chunks) == [chunks[1]]


def test_a_small_document_of_several_pages_stays_as_it_was():
    chunks = [cut(0, 24, page=1), cut(25, 64, page=2)]
    assert whole([chunks[0]], chunks) == [chunks[0]]


def test_tokens_are_estimated_on_the_large_side():
    assert estimated_tokens("The lease begins in May.") == 6
    assert estimated_tokens("北京大学") == 4
    assert estimated_tokens("") == 0


def test_a_small_document_that_has_grown_leaves_the_rest_of_the_room_to_others():
    chunks = [cut(0, 24), cut(25, 64), cut(66, len(PAGE))]
    others = [replace(chunk, row_id=f"other-{n}", document_id=2) for n, chunk in enumerate(chunks)]
    passages = [chunks[0], chunks[1], others[0]]
    sizes = sum(estimated_tokens(passage.text) for passage in passages)
    growth = estimated_tokens(PAGE) - estimated_tokens(chunks[0].text)
    grown = whole(passages, [*chunks, *others], Room(100, sizes + 2 * growth))
    assert [(one.document_id, one.start, one.end) for one in grown] == [(1, 0, len(PAGE)), (2, 0, len(PAGE))]


def test_a_document_that_grows_from_its_second_passage_stands_where_the_first_stood():
    chunks = [cut(0, 24), cut(25, 64), cut(66, len(PAGE))]
    passages = [replace(chunks[0], score=0.9), replace(chunks[1], score=0.8)]
    sizes = sum(estimated_tokens(passage.text) for passage in passages)
    # Enough for what the second lacks of the document, and not for what the first does.
    room = Room(100, sizes + estimated_tokens(PAGE) - estimated_tokens(chunks[1].text))
    [passage] = whole(passages, chunks, room)
    assert (passage.start, passage.end) == (0, len(PAGE))
    assert (passage.row_id, passage.score) == (chunks[0].row_id, 0.9)
