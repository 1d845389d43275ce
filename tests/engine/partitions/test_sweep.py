"""Tests for engine.partitions.sweep: a sweep that was interrupted goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.partitions import open_rows
from engine.partitions.store import PartitionStore
from engine.partitions.sweep import SweepForsaken, SweepPaused
from tests.helpers.partition_reads import FOR_GOOD, Reads
from tests.helpers.partitions import FakeTable, document, exact, filled_table, open_store, queries

LIMIT = 10


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 16)


@pytest.fixture
def table() -> FakeTable:
    return filled_table(4)


@pytest.fixture
def store(table: FakeTable, tmp_path: Path) -> Iterator[PartitionStore]:
    """One whose partitions are all read from the disk at each sweep."""
    store = open_store(table, tmp_path / "shards", budget_bytes=0)
    store.maintain()
    assert store.num_cold >= 3
    yield store
    store.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def assert_found(table: FakeTable, vectors: Any, found: Any) -> None:
    wanted = [[row.score for row in exact(list(table.rows.values()), query, LIMIT)] for query in vectors]
    assert [[row.score for row in line] for line in found] == [pytest.approx(line, abs=1e-3) for line in wanted]


@pytest.mark.parametrize("num_queries", [1, 3])
@pytest.mark.parametrize("failing", [min, max])
def test_what_was_read_before_an_error_is_not_read_again_and_nothing_is_left_out(
    store: PartitionStore, table: FakeTable, reads: Reads, failing: Callable[..., int], num_queries: int
) -> None:
    vectors = queries(num_queries)
    reads.no_room[failing(sealed.number for sealed in store._sealed())] = 1
    with pytest.raises(OSError, match="Cannot allocate"):
        store.search(vectors, LIMIT)
    before = list(reads.numbers)
    assert bool(before) == (failing is max)
    found = store.search(vectors, LIMIT)
    assert sorted(reads.numbers) == sorted(sealed.number for sealed in store._sealed())
    assert len(set(reads.numbers)) == len(reads.numbers)
    assert_found(table, vectors, found)


def test_memory_that_is_refused_for_what_comes_next_is_asked_for_again_when_what_is_there_was_scanned(
    table: FakeTable, tmp_path: Path, reads: Reads
) -> None:
    store = open_store(table, tmp_path / "shards")
    store.maintain()
    vectors, last = queries(3), max(sealed.number for sealed in store._sealed())
    # Once ahead of time, and once when nothing else is left to do.
    reads.no_room[last] = 2
    with pytest.raises(OSError, match="Cannot allocate"):
        store.search(vectors, LIMIT)
    assert_found(table, vectors, store.search(vectors, LIMIT))
    assert sorted(reads.numbers) == sorted(sealed.number for sealed in store._sealed())
    store.close()


def test_a_disk_that_fails_once_costs_nothing(store: PartitionStore, table: FakeTable, reads: Reads) -> None:
    vectors, numbers = queries(3), [sealed.number for sealed in store._sealed()]
    reads.fail(numbers, times=1)
    table.asked_for.clear()
    assert_found(table, vectors, store.search(vectors, LIMIT))
    assert sorted(reads.numbers) == sorted(numbers)
    assert (store._shards.snapshot().missing, table.asked_for) == ((), [])


@pytest.mark.expects_warnings
@pytest.mark.parametrize("num_queries", [1, 3])
@pytest.mark.parametrize("failing", [min, max])
def test_a_partition_that_cannot_be_read_is_missing_and_no_other_is_read_twice(
    store: PartitionStore, table: FakeTable, reads: Reads, failing: Callable[..., int], num_queries: int
) -> None:
    vectors, numbers = queries(num_queries), [sealed.number for sealed in store._sealed()]
    reads.fail([failing(numbers)], FOR_GOOD)
    assert_found(table, vectors, store.search(vectors, LIMIT))
    assert sorted(reads.numbers) == sorted(numbers)
    assert store._shards.snapshot().missing == (failing(numbers),)
    store.maintain()
    assert_found(table, vectors, store.search(vectors, LIMIT))
    assert store._shards.snapshot().missing == ()


def test_a_sweep_lets_others_by_between_partitions_and_goes_on(
    store: PartitionStore, table: FakeTable, reads: Reads
) -> None:
    vectors, others, num_pauses = queries(3), queries(2, seed=7), 0
    while True:
        try:
            found = store.search(vectors, LIMIT, should_pause=lambda: True)
        except SweepPaused:
            num_pauses += 1
            assert_found(table, others, store.search(others, LIMIT))
        else:
            break
    num_partitions = len(store._sealed())
    assert num_pauses == num_partitions - 1
    # Each once for the sweep that was paused, and all of them for each that went between.
    assert len(reads.numbers) == num_partitions + num_pauses * num_partitions
    assert_found(table, vectors, found)


@pytest.mark.parametrize("other", ["queries", "limit", "documents", "loads"])
def test_only_the_same_sweep_goes_on(store: PartitionStore, table: FakeTable, reads: Reads, other: str) -> None:
    vectors = queries(3)
    with pytest.raises(SweepPaused):
        store.search(vectors, LIMIT, should_pause=lambda: True)
    num_read = len(reads.numbers)
    everything = {row.document_id for row in table.rows.values()}
    store.search(
        queries(3, seed=1) if other == "queries" else vectors,
        LIMIT + 1 if other == "limit" else LIMIT,
        everything if other == "documents" else None,
        99 if other == "loads" else None,
    )
    assert len(reads.numbers) == num_read + len(store._sealed())


def test_a_sweep_of_partitions_that_were_written_anew_begins_anew(
    store: PartitionStore, table: FakeTable, reads: Reads
) -> None:
    vectors = queries(3)
    with pytest.raises(SweepPaused):
        store.search(vectors, LIMIT, should_pause=lambda: True)
    document_id = next(iter(table.rows.values())).document_id
    gone = {row.document_id for row in table.rows.values() if row.document_id <= document_id + 2}
    table.delete_documents(gone)
    for _ in range(3):
        store.maintain()
    assert_found(table, vectors, store.search(vectors, LIMIT))


def test_what_came_while_a_sweep_was_interrupted_is_found(
    store: PartitionStore, table: FakeTable, reads: Reads
) -> None:
    vectors = queries(1)
    with pytest.raises(SweepPaused):
        store.search(vectors, LIMIT, should_pause=lambda: True)
    newest = max(row.shard for row in table.rows.values())
    [new] = document(900, 1, newest)[900]
    table.put_documents({900: [replace(new, vector=vectors[0])]})
    found = store.search(vectors, LIMIT)
    assert found[0][0].document_id == 900
    assert_found(table, vectors, found)
    # Of what is in files nothing was read twice.
    assert len(set(reads.numbers)) == len(reads.numbers)


def test_a_sweep_begins_anew_where_a_partition_was_missing_before(
    table: FakeTable, tmp_path: Path, reads: Reads
) -> None:
    store = open_store(table, tmp_path / "shards", budget_bytes=0)
    store.maintain()
    lost = store._sealed()[0]
    store._shards.mark_missing((lost,))
    vectors = queries(2)
    with pytest.raises(SweepPaused):
        store.search(vectors, LIMIT, should_pause=lambda: True)
    store.maintain()
    assert_found(table, vectors, store.search(vectors, LIMIT))
    store.close()


def test_an_interrupted_sweep_is_let_go_when_nobody_comes_again(store: PartitionStore) -> None:
    with pytest.raises(SweepPaused):
        store.search(queries(1), LIMIT, should_pause=lambda: True)
    assert len(store._sweeper._interrupted) == 1
    for _ in range(64):
        store.search(queries(1, seed=1), LIMIT)
    assert store._sweeper._interrupted == []


def test_only_so_many_interrupted_sweeps_are_remembered(store: PartitionStore, reads: Reads) -> None:
    for seed in range(5):
        with pytest.raises(SweepPaused):
            store.search(queries(1, seed=seed), LIMIT, should_pause=lambda: True)
    num_partitions, reads.numbers = len(store._sealed()), []
    for seed in reversed(range(5)):
        store.search(queries(1, seed=seed), LIMIT)
    # Two of the five begin anew.
    assert len(reads.numbers) == 5 * num_partitions - 3


@pytest.mark.expects_warnings
def test_room_of_a_reading_that_failed_is_given_back(table: FakeTable, tmp_path: Path, reads: Reads) -> None:
    store = open_store(table, tmp_path / "shards")
    store.maintain()
    reads.fail([sealed.number for sealed in store._sealed()], FOR_GOOD)
    vectors = queries(1)
    assert_found(table, vectors, store.search(vectors, LIMIT))
    assert (store._residency.numbers, store._residency.num_bytes) == ((), 0)
    store.close()


def test_an_interrupted_sweep_holds_nothing_that_changes(store: PartitionStore, table: FakeTable) -> None:
    with pytest.raises(SweepPaused):
        store.search(queries(1), LIMIT, should_pause=lambda: True)
    [waiting] = store._sweeper._interrupted
    assert waiting.snapshot.open == ()
    assert not any(isinstance(found.source, open_rows.View) for found in waiting.walk._candidates)


def test_an_interrupted_sweep_of_files_that_were_replaced_is_let_go(store: PartitionStore, table: FakeTable) -> None:
    with pytest.raises(SweepPaused):
        store.search(queries(1), LIMIT, should_pause=lambda: True)
    document_id = next(iter(table.rows.values())).document_id
    table.delete_documents({row.document_id for row in table.rows.values() if row.document_id <= document_id + 2})
    for _ in range(3):
        store.maintain()
    store.search(queries(1, seed=1), LIMIT)
    assert store._sweeper._interrupted == []


def test_a_sweep_that_nobody_wants_any_more_is_not_kept(store: PartitionStore) -> None:
    def forsaken() -> bool:
        raise SweepForsaken

    with pytest.raises(SweepForsaken):
        store.search(queries(1), LIMIT, should_pause=forsaken)
    assert store._sweeper._interrupted == []
