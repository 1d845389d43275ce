"""Tests for engine.library.read_ahead and engine.library.rows."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from engine.core import Chunk, Document, FoundFile, ReadDocument
from engine.errors import Cancelled, DiskFull, DocumentEmpty, LibraryError
from engine.library import read_ahead
from engine.library.read_ahead import ReadAhead
from engine.library.reading import Outcome, Ready, Unreadable
from engine.library.rows import content_key, content_keys, row_id, rows
from tests.helpers.library import vector_of

HANG_SECONDS = 20


def document(number: int) -> Document:
    return Document(number, (), f"/d/{number}", "pending", "", 1, 0, "", "", 0)


def ready(of: Document, num_chunks: int = 1) -> Ready:
    keys = tuple(f"{of.document_id}-{number}" for number in range(num_chunks))
    return Ready(of, FoundFile(of.path, 1, 0), "hash", ReadDocument("text", "", 0, ()), keys)


def all_of(ahead: ReadAhead, max_chunks: int = 100) -> list[list[int]]:
    taken = []
    while (outcomes := ahead.take(max_chunks, HANG_SECONDS)) is not None:
        taken.append([outcome.document.document_id for outcome in outcomes])
    return taken


def opened(count: int, read: Callable[[Document], Outcome], num_threads: int = 1) -> ReadAhead:
    return ReadAhead([document(number) for number in range(count)], read, threading.Event(), num_threads)


@pytest.mark.parametrize("num_threads", [1, 4])
def test_every_document_is_taken_once(num_threads: int) -> None:
    with opened(100, ready, num_threads) as ahead:
        taken = [number for batch in all_of(ahead) for number in batch]

    assert sorted(taken) == list(range(100))


def test_a_portion_is_no_more_than_fills_a_batch_but_at_least_one() -> None:
    done = threading.Event()

    def read(of: Document) -> Outcome:
        if of.document_id == 5:
            done.set()
        return ready(of, num_chunks=200 if of.document_id == 3 else 40)

    with opened(6, read) as ahead:
        assert done.wait(HANG_SECONDS)
        portions = all_of(ahead, max_chunks=100)

    assert portions[:3] == [[0, 1], [2], [3]]


def test_reading_waits_until_what_was_read_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "MAX_CHUNKS_AHEAD", 10)
    reads: list[int] = []
    full = threading.Event()

    def read(of: Document) -> Outcome:
        reads.append(of.document_id)
        if len(reads) == 2:
            full.set()
        return ready(of, num_chunks=5)

    with opened(50, read) as ahead:
        assert full.wait(HANG_SECONDS)
        assert ahead.take(5, HANG_SECONDS)
        assert len(reads) <= 3
        all_of(ahead)
    assert len(reads) == 50


def test_what_is_urgent_is_read_although_enough_was_read_and_has_the_same_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_ahead, "MAX_CHUNKS_AHEAD", 10)
    changed = threading.Condition()

    def num_waiting(count: int) -> bool:
        return bool(changed.wait_for(lambda: len(ahead._outcomes) == count, HANG_SECONDS))

    documents = [document(number) for number in range(50)]
    with ReadAhead(documents, lambda of: ready(of, num_chunks=5), threading.Event(), changed=changed) as ahead:
        with changed:
            assert num_waiting(2)
            assert not ahead._has_room
        ahead.hurry(range(10, 50))
        with changed:
            assert num_waiting(4)
            assert not ahead._has_room
        first = ahead.take(10, HANG_SECONDS) or []
        assert {one.document.document_id for one in first} == {10, 11}
        assert sum(map(len, all_of(ahead))) == 48


def test_files_without_chunks_are_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "MAX_DOCUMENTS_AHEAD", 3)

    with opened(20, lambda of: Unreadable(of, DocumentEmpty("No text."))) as ahead:
        portions = all_of(ahead)

    assert max(map(len, portions)) <= 3
    assert sum(map(len, portions)) == 20


def test_nothing_ready_is_not_the_end() -> None:
    gate = threading.Event()

    def read(of: Document) -> Outcome:
        gate.wait(HANG_SECONDS)
        return ready(of)

    with opened(1, read) as ahead:
        assert ahead.take(10, 0.01) == []
        gate.set()
        assert all_of(ahead) == [[0]]


def test_what_concerns_all_files_is_raised_after_what_was_read_before_it() -> None:
    def read(of: Document) -> Outcome:
        if of.document_id == 2:
            raise DiskFull("Full.")
        return ready(of)

    taken = []
    with opened(5, read) as ahead:
        for _ in range(2):
            taken += ahead.take(1, HANG_SECONDS) or []
        with pytest.raises(DiskFull):
            ahead.take(1, HANG_SECONDS)
    assert [outcome.document.document_id for outcome in taken] == [0, 1]


def test_a_fault_of_our_own_is_raised_where_it_is_waited_for() -> None:
    def read(of: Document) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(LibraryError, match="unexpectedly"), opened(1, read) as ahead:
        ahead.take(1, HANG_SECONDS)


def test_a_parser_that_was_closed_meanwhile_is_no_end_of_the_documents() -> None:
    def read(of: Document) -> Outcome:
        raise Cancelled("The pool was closed.")

    with opened(1, read) as ahead, pytest.raises(Cancelled):
        ahead.take(1, HANG_SECONDS)


def test_leaving_early_gives_up_what_is_being_read() -> None:
    enough, began = threading.Event(), threading.Event()

    def read(of: Document) -> Outcome:
        began.set()
        assert enough.wait(HANG_SECONDS)
        raise Cancelled("Enough.")

    with ReadAhead([document(1), document(2)], read, enough):
        assert began.wait(HANG_SECONDS)

    assert enough.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


def test_keys_belong_to_texts_and_ids_to_places() -> None:
    chunks = (Chunk(0, 1, 0, 3, "Book", "abc"), Chunk(1, 2, 5, 8, "Book", "abc"), Chunk(2, 2, 8, 9, "Other", "abc"))
    read = ReadDocument("pdf", "", 2, chunks)

    keys = content_keys(read, "minilm")
    made = rows(7, read, keys, {key: vector_of(key) for key in keys}, shard=3)

    assert keys[0] == keys[1] != keys[2]
    assert content_key("abc", "minilm") != content_key("abc", "other")
    assert len({row.row_id for row in made}) == 3
    assert {len(row.row_id) for row in made} == {16}
    assert row_id(7, 0) != row_id(70, 0)
    assert row_id(1, 11) != row_id(11, 1)
    assert [(row.page, row.start, row.end, row.shard) for row in made] == [(1, 0, 3, 3), (2, 5, 8, 3), (2, 8, 9, 3)]
    assert made[0].indexed_text == "Book\nabc"
