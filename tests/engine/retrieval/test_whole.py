"""Tests for engine.retrieval.whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from engine.partitions.rows import Hit
from engine.retrieval.joining import Room, estimated_tokens
from engine.retrieval.whole import SMALL_TOKENS, is_looked_into, reading_of, spread, steps_of
from tests.helpers.chunk_rows import hit

ROOM = Room(passage_tokens=720, total_tokens=3840)


def chunk(ordinal: int, tokens: int, *, page: int | None = None, heading: str = "", score: float = 0.0) -> Hit:
    found = hit(f"1-{ordinal}", f"{ordinal:03} ".ljust(4 * tokens, "x"), start=4 * tokens * ordinal, page=page)
    return replace(found, ordinal=ordinal, heading=heading, score=score)


def pages(count: int, tokens: int, chunks_of_page: int = 1) -> list[Hit]:
    return [chunk(n, tokens, page=n // chunks_of_page + 1) for n in range(count * chunks_of_page)]


def ordinals(parts: Sequence[Hit]) -> list[int]:
    return [part.ordinal for part in parts]


def test_what_fits_is_read_page_by_page_in_the_order_of_its_text():
    reading = reading_of(reversed(pages(5, 200, 3)), 15, "gist", ROOM)
    assert reading is not None
    assert [part.page for part in reading.parts] == [1, 2, 3, 4, 5]
    assert [estimated_tokens(part.text) for part in reading.parts] == [600] * 5
    assert reading.num_parts == 5


def test_a_part_fits_as_well_as_the_best_of_its_chunks():
    reading = reading_of([chunk(0, 20, score=0.2), chunk(1, 20, score=0.7)], 2, None, ROOM)
    assert reading is not None
    assert [part.score for part in reading.parts] == [0.7]


@pytest.mark.parametrize(("tokens", "is_read"), [(280, True), (320, False)])
def test_only_a_small_document_is_read_through_whatever_is_asked(tokens: int, is_read: bool):
    found = pages(5, tokens)
    assert (reading_of(found, 5, None, ROOM) is not None) == is_read
    assert is_read == (5 * tokens <= SMALL_TOKENS)
    reading = reading_of(found, 5, "gist", ROOM)
    assert reading is not None
    assert len(reading.parts) == 5


def test_nothing_is_read_beyond_the_room():
    small = Room(passage_tokens=300, total_tokens=500)
    assert reading_of(pages(5, 200), 5, None, small) is None
    for wanted in ("gist", "each"):
        reading = reading_of(pages(5, 200), 5, wanted, small)  # type: ignore[arg-type]
        assert reading is not None
        assert sum(estimated_tokens(part.text) for part in reading.parts) <= small.total_tokens
        assert (len(reading.parts), reading.num_parts) == (2, 5)


def test_of_what_does_not_fit_passages_spread_evenly_are_read_and_its_beginning():
    reading = reading_of(pages(96, 200), 96, "gist", ROOM)
    assert reading is not None
    read = ordinals(reading.parts)
    assert (read[0], reading.num_parts) == (0, 96)
    steps = {after - before for before, after in pairwise(read)}
    assert len(read) == 17
    assert steps <= {5, 6}
    assert read[-1] >= 90


def test_where_a_section_begins_goes_before_what_stands_within_one():
    found = [replace(one, heading=f"Chapter {n // 10}", page=None) for n, one in enumerate(pages(96, 200))]
    reading = reading_of(found, 96, "gist", ROOM)
    assert reading is not None
    assert set(range(0, 96, 10)) <= set(ordinals(reading.parts))


def test_of_all_that_is_of_a_kind_the_best_is_read_in_the_order_of_the_text():
    found = [replace(one, score=1.0 if n in (90, 7, 41) else 0.0) for n, one in enumerate(pages(96, 200))]
    reading = reading_of(found, 96, "each", ROOM)
    assert reading is not None
    read = ordinals(reading.parts)
    assert {7, 41, 90} <= set(read)
    assert read == sorted(read)


def test_where_there_is_much_room_neighbours_are_read_together():
    much = Room(passage_tokens=720, total_tokens=16000)
    reading = reading_of([chunk(n, 200) for n in range(400)], 400, "gist", much)
    assert reading is not None
    assert len(reading.parts) <= 30


def test_what_was_not_looked_at_counts_among_what_there_is():
    steps = steps_of(9000)
    reading = reading_of([chunk(n, 200) for n in steps], 9000, "gist", ROOM)
    assert reading is not None
    assert reading.num_parts == 9000
    assert len(reading.parts) < len(steps)
    assert max(after - before for before, after in pairwise(steps)) <= 9000 // len(steps) + 1


def test_nothing_is_read_of_a_document_without_text():
    assert reading_of([], 0, "gist", ROOM) is None


@pytest.mark.parametrize(
    ("num_chunks", "wanted", "is_so"),
    [(4, None, True), (400, None, False), (400, "each", True), (9000, "each", False), (9000, "gist", True)],
)
def test_long_documents_are_looked_into_only_where_that_is_asked_for(num_chunks, wanted, is_so):
    assert is_looked_into(num_chunks, wanted) == is_so


def test_from_each_stretch_comes_where_something_begins_or_its_beginning():
    assert spread(10, 5, ()) == [0, 2, 4, 6, 8]
    assert spread(10, 5, (1, 3, 8)) == [0, 3, 4, 6, 8]
    assert spread(3, 3, (1,)) == [0, 1, 2]
    assert spread(9, 1, (4,)) == [0]
