"""Tests for engine.partitions.store: what it finds, whatever has become of its files."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from engine.errors import LibraryError
from engine.memory.ledger import Ledger
from engine.partitions import open_rows, upkeep
from engine.partitions.layout import Origin, PartitionDamaged
from engine.partitions.packed import Identities
from engine.partitions.partition import Partition
from engine.partitions.reconcile import Note
from engine.partitions.rows import Sweep, Vectors
from engine.partitions.snapshot import Snapshot
from engine.partitions.store import PartitionStore
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY
from tests.helpers.partitions import (
    ORIGIN,
    PLENTY,
    FakeTable,
    assert_finds_what_the_table_has,
    document,
    exact,
    filled_table,
    open_store,
    queries,
)

PATIENCE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 16)


@pytest.fixture
def table() -> FakeTable:
    return filled_table(4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shards"


@pytest.fixture
def open_files_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: a file that is open can be neither replaced nor deleted."""
    opened, really_open = list[tuple[Path, weakref.ref[Partition]]](), Partition.open

    def opening(path: Path, origin: Origin) -> Partition:
        partition = really_open(path, origin)
        opened.append((path, weakref.ref(partition)))
        return partition

    def refused(change: Callable[..., None], which: int) -> Callable[..., None]:
        def changing(*paths: Path, **options: bool) -> None:
            if any(path == paths[which] and reference() is not None for path, reference in opened):
                raise PermissionError(errno.EACCES, "The process cannot access the file", str(paths[which]))
            change(*paths, **options)

        return changing

    monkeypatch.setattr(Partition, "open", opening)
    monkeypatch.setattr(Path, "unlink", refused(Path.unlink, 0))
    monkeypatch.setattr(os, "replace", refused(os.replace, 1))


@pytest.fixture
def store(table: FakeTable, folder: Path) -> Iterator[PartitionStore]:
    """Three sealed shards and an open one; agrees with the table when the test is over."""
    store = open_store(table, folder)
    store.maintain()
    table.asked_for.clear()
    yield store
    store.check_integrity()
    store.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FILES = ["000000.shard", "000001.shard", "000002.shard"]


# --- searching -----------------------------------------------------------------------------------


def test_an_empty_library_finds_nothing(folder: Path):
    store = open_store(FakeTable(), folder)
    assert store.search(queries(2), 5) == [[], []]
    store.maintain()
    store.close()


def test_all_but_the_newest_shard_are_sealed_and_everything_is_found(
    store: PartitionStore, table: FakeTable, folder: Path
):
    assert names(folder) == FILES
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == []


def test_rows_without_files_are_found_by_the_table(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == [{0, 1, 2}]
    store.close()


def test_a_search_stays_in_its_documents(store: PartitionStore, table: FakeTable):
    for wanted in ([3], {1, 9, 17, 25, 999}, range(1, 33)):
        assert_finds_what_the_table_has(store, table, 7, wanted)
    assert store.search(queries(1), 5, [999]) == [[]]
    assert store.search(queries(1), 5, []) == [[]]


def test_partitions_without_wanted_documents_are_not_read(table: FakeTable, folder: Path):
    sweeps: list[Sweep] = []
    store = open_store(table, folder)
    store.maintain()
    store.on_sweep = sweeps.append
    store.search(queries(3), 5, [9])
    store.search(queries(3), 5, [9])
    store.search(queries(2), 5)
    assert [(sweep.num_loads, sweep.num_queries, sweep.num_partitions) for sweep in sweeps] == [
        (1, 3, 3), (0, 3, 3), (2, 2, 3),
    ]  # fmt: skip
    assert all(sweep.seconds > 0 for sweep in sweeps)
    store.close()


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_the_limit_holds(store: PartitionStore, table: FakeTable, limit: int):
    found = store.search(queries(2), limit)
    assert [len(rows) for rows in found] == [min(limit, len(table.rows))] * 2


def test_no_queries_or_no_limit_find_nothing(store: PartitionStore):
    assert store.search(np.zeros((0, DIMENSIONS), np.float32), 5) == []
    assert store.search(queries(2), 0) == [[], []]


# --- following -----------------------------------------------------------------------------------


def test_what_is_written_is_found_at_once(store: PartitionStore, table: FakeTable):
    table.put_documents(document(100, 30, 3, "new"))
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == []


def test_what_is_removed_is_found_no_more(store: PartitionStore, table: FakeTable):
    table.delete_documents([1, 9, 25])
    assert_finds_what_the_table_has(store, table)
    assert_finds_what_the_table_has(store, table, 50)


def test_a_document_written_again_is_found_as_it_is_now(store: PartitionStore, table: FakeTable):
    table.put_documents(document(2, 3, 3, "changed"))
    table.put_documents(document(26, 3, 3, "changed"))
    assert_finds_what_the_table_has(store, table, 50)


def test_the_next_number_seals_the_last(store: PartitionStore, table: FakeTable, folder: Path):
    table.put_documents(document(100, 5, 4))
    assert names(folder) == FILES
    store.maintain()
    assert names(folder) == [*FILES, "000003.shard"]
    assert_finds_what_the_table_has(store, table, 50)


def test_a_fifth_of_dead_rows_makes_a_new_file(store: PartitionStore, table: FakeTable, folder: Path):
    table.delete_documents([1])
    store.maintain()
    assert names(folder) == FILES
    table.delete_documents([2])
    store.maintain()
    assert names(folder) == ["000000-1.shard", *FILES[1:]]
    assert_finds_what_the_table_has(store, table, 50)


@pytest.mark.usefixtures("open_files_stay")
def test_a_file_that_is_open_is_written_anew_beside_it_and_goes_when_nobody_has_it_open(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    assert_finds_what_the_table_has(store, table, 50)
    table.delete_documents([1, 2, *range(9, 17)])
    assert store._look_after(threading.Event())
    assert names(folder) == ["000000-1.shard", *FILES]
    # The next sweep lets go of what was replaced.
    assert_finds_what_the_table_has(store, table, 50)
    assert not store._look_after(threading.Event())
    assert names(folder) == ["000000-1.shard", FILES[2]]
    table.delete_documents([3, 4])
    store.maintain()
    assert names(folder) == ["000000-1.shard", "000000-2.shard", FILES[2]]
    store.check_integrity()
    store.close()
    again = open_store(table, folder)
    assert names(folder) == ["000000-2.shard", FILES[2], "alive.json"]
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    again.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("error", [PartitionDamaged("it has rotted"), OSError(errno.EMFILE, "Too many open files")])
def test_files_that_cannot_be_read_after_they_were_written_do_not_fill_the_disk(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def rotten(path: Path, origin: Origin) -> Partition:
        raise error

    store = open_store(table, folder)
    monkeypatch.setattr(Partition, "open", rotten)
    for _ in range(3):
        with pytest.raises(LibraryError):
            store.maintain()
    store.close()
    assert not [*folder.glob("*.shard")]


def test_of_two_files_of_a_shard_the_later_counts_unless_it_is_damaged(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    first = (folder / FILES[0]).read_bytes()
    table.delete_documents([1, 2])
    store.maintain()
    store.close()
    (folder / FILES[0]).write_bytes(first)
    again = open_store(table, folder)
    assert [sealed.partition.count for sealed in again._shards.snapshot().sealed] == [30, 40, 40]
    assert names(folder) == ["000000-1.shard", *FILES[1:], "alive.json"]
    again.close()
    (folder / "000000-1.shard").write_bytes(b"")
    (folder / FILES[0]).write_bytes(first)
    again = open_store(table, folder)
    assert [sealed.partition.count for sealed in again._shards.snapshot().sealed] == [40, 40, 40]
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    again.close()


@pytest.mark.usefixtures("open_files_stay")
def test_a_file_that_is_not_ours_and_cannot_be_deleted_does_not_keep_the_others_from_being_used(
    table: FakeTable, folder: Path
):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    (folder / FILES[1]).rename(folder / "000007.shard")
    other = Partition.open(folder / "000007.shard", ORIGIN)
    again = open_store(table, folder)
    assert [sealed.partition.number for sealed in again._shards.snapshot().sealed] == [0, 2]
    assert "000007.shard" in names(folder)
    del other
    again.maintain()
    assert names(folder) == [*FILES, "alive.json"]
    again.close()


def test_a_shard_without_rows_has_no_file(store: PartitionStore, table: FakeTable, folder: Path):
    table.delete_documents(range(9, 17))
    store.maintain()
    assert names(folder) == [FILES[0], FILES[2]]
    assert_finds_what_the_table_has(store, table, 50)


def test_rows_that_come_late_to_a_sealed_shard_join_it(store: PartitionStore, table: FakeTable, folder: Path):
    table.put_documents(document(100, 20, 0, "late"))
    table.put_documents(document(101, 1, 3))
    assert_finds_what_the_table_has(store, table, 50)
    store.maintain()
    assert store.index_bytes > 0
    assert_finds_what_the_table_has(store, table, 50)


@pytest.mark.expects_warnings
def test_losing_step_is_mended_by_reading_everything_again(
    store: PartitionStore, table: FakeTable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(store._following, "_packed", lambda documents: 1 / 0)
    table.put_documents(document(100, 5, 3))
    assert "lost step" in caplog.text
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == [None]
    store.maintain()
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == [None]


@pytest.mark.expects_warnings
def test_a_change_that_is_lost_during_a_reading_is_found_by_the_next(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    store = open_store(table, folder)
    store.maintain()
    read = table.vectors_of_shard

    def losing(shard: int) -> Iterator[tuple[Identities, Vectors]]:
        yield from list(read(shard))
        monkeypatch.setattr(table, "vectors_of_shard", read)
        with monkeypatch.context() as patch:
            patch.setattr(store._following, "_packed", lambda documents: 1 / 0)
            table.put_documents(document(100, 5, 3, "lost"))

    store._following.forget()
    monkeypatch.setattr(table, "vectors_of_shard", losing)
    store.maintain()
    assert_finds_what_the_table_has(store, table, 60)
    store.maintain()
    table.asked_for.clear()
    store.check_integrity()
    assert_finds_what_the_table_has(store, table, 60)
    assert table.asked_for == []
    store.close()


def test_a_change_just_behind_a_reading_is_followed(table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch):
    store = open_store(table, folder)
    store.maintain()
    following = store._following
    following.forget()

    class Interrupted:
        """As where the index thread has the lock as soon as it is let go of."""

        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()
            if following.is_in_step:
                monkeypatch.setattr(following, "_changing", lock)
                table.put_documents(document(100, 5, 3, "just behind"))

    lock = following._changing
    monkeypatch.setattr(following, "_changing", Interrupted())
    store.maintain()
    assert_finds_what_the_table_has(store, table, 60)
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table, 60)
    assert table.asked_for == []
    store.close()


def test_changes_during_a_reading_are_in_its_result(folder: Path):
    class Busy(FakeTable):
        """Is written to whenever it is read."""

        changes: ClassVar[list[Callable[[FakeTable], None]]] = []

        def identities(self) -> Iterator[Identities]:
            yield from list(super().identities())
            if self.changes:
                self.changes.pop(0)(self)

        def vectors_of_shard(self, shard: int) -> Iterator[tuple[Identities, Vectors]]:
            if self.changes:
                self.changes.pop(0)(self)
            yield from list(super().vectors_of_shard(shard))

    table = Busy()
    for id_ in range(1, 20):
        table.put_documents(document(id_, 5, id_ // 6))
    store = open_store(table, folder)
    store.maintain()
    Busy.changes += [
        lambda table: table.put_documents(document(2, 3, 3, "again") | document(30, 3, 3)),
        lambda table: table.delete_documents([19, 30, 8]),
    ]
    store.set_mode("on_disk")
    store.maintain()
    store.set_mode("resident")
    store.maintain()
    assert Busy.changes == []
    store.check_integrity()
    assert_finds_what_the_table_has(store, table, 60)
    store.close()


def test_changes_while_a_file_is_written_are_in_it(
    store: PartitionStore, table: FakeTable, monkeypatch: pytest.MonkeyPatch
):
    write = upkeep.write_partition

    def changing(*args: Any) -> None:
        monkeypatch.setattr(upkeep, "write_partition", write)
        table.delete_documents([25])
        table.put_documents(document(26, 4, 3, "late") | document(27, 2, 4, "moved on"))
        write(*args)

    monkeypatch.setattr(upkeep, "write_partition", changing)
    table.put_documents(document(100, 5, 4))
    store.maintain()
    store.check_integrity()
    assert_finds_what_the_table_has(store, table, 60)


def test_changes_while_a_file_is_made_anew_are_in_it(folder: Path):
    table = filled_table(3)
    store = open_store(table, folder)
    read = table.vectors_of_shard

    def changing(shard: int) -> Iterator[tuple[Identities, Vectors]]:
        yield from list(read(shard))
        table.vectors_of_shard = read  # type: ignore[method-assign]
        table.delete_documents([1])
        table.put_documents(document(2, 4, 0, "late") | document(3, 2, 2, "moved on"))

    table.vectors_of_shard = changing  # type: ignore[method-assign]
    store.maintain()
    store.check_integrity()
    assert_finds_what_the_table_has(store, table, 60)
    store.close()


# --- opening again -------------------------------------------------------------------------------


def test_after_an_ordinary_end_no_row_is_compared(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    table.delete_documents([1])
    store.close()
    table.num_readings = 0
    again = open_store(table, folder)
    assert table.num_readings == 0
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    assert not again._shards.due()
    again.close()


def test_after_a_kill_every_row_is_compared(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    killed = open_store(table, folder)
    table.delete_documents([1, 17])
    table.put_documents(document(9, 2, 3, "moved"))
    table.num_readings = 0
    again = open_store(table, folder)
    assert table.num_readings == 1
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    assert not again._shards.snapshot().missing
    for one in (killed, again):
        one.close()


def test_a_job_that_ended_spares_the_comparison_even_after_a_kill(table: FakeTable, folder: Path):
    killed = open_store(table, folder)
    killed.maintain()
    table.delete_documents([1])
    table.optimize()
    table.num_readings = 0
    again = open_store(table, folder)
    assert table.num_readings == 0
    again.check_integrity()
    for one in (killed, again):
        one.close()


def test_a_file_that_is_finished_while_the_note_is_made_is_kept(
    store: PartitionStore, table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    """The caretaker seals shard 3 just after the snapshot that the note tells of."""
    taken = store._shards.snapshot

    def snapshot() -> Snapshot:
        snapshot = taken()
        monkeypatch.setattr(store._shards, "snapshot", taken)
        store.maintain()
        return snapshot

    table.put_documents(document(100, 5, 4))
    monkeypatch.setattr(store._following, "note_bytes", lambda: None)
    monkeypatch.setattr(store._shards, "snapshot", snapshot)
    table.optimize()
    assert names(folder) == [*FILES, "000003.shard", "alive.json"]
    again = open_store(table, folder)
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 60)
    again.close()


def test_a_note_that_knows_nothing_of_a_file_is_not_believed(store: PartitionStore, table: FakeTable, folder: Path):
    table.optimize()
    note = Note.read(folder)
    assert note is not None
    replace(note, sealed={name: told for name, told in note.sealed.items() if name != "1"}).write(folder)
    table.num_readings = 0
    again = open_store(table, folder)
    assert table.num_readings == 1
    assert not again._shards.snapshot().missing
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 60)
    again.close()


def test_no_note_is_made_of_rows_that_were_let_go(store: PartitionStore, table: FakeTable, folder: Path):
    """Neither of none at all, when they are let go between the question whether they are there and the note."""
    store._following.forget()
    table.optimize()
    assert Note.read(folder) is None
    assert store._following.snapshot() is None


def test_rows_written_late_before_a_kill_are_not_forgotten(table: FakeTable, folder: Path):
    killed = open_store(table, folder)
    killed.maintain()
    table.put_documents(document(1, 5, 0, "another text"))
    table.put_documents(document(200, 1, 3))
    again = open_store(table, folder)
    assert again._shards.snapshot().missing == (0,)
    assert_finds_what_the_table_has(again, table, 50)
    again.maintain()
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    for one in (killed, again):
        one.close()


def _gone(path: Path) -> None:
    path.unlink()


def _cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _garbage(path: Path) -> None:
    path.write_bytes(b"\x80" * path.stat().st_size)


def _another_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_gone, _cut_short, _empty, _garbage, _another_header])
@pytest.mark.parametrize("ended", ["ordinarily", "by a kill"])
def test_a_file_that_cannot_be_used_is_made_anew(
    table: FakeTable, folder: Path, damage: Callable[[Path], None], ended: str
):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    damage(folder / FILES[1])
    if ended == "by a kill":
        (folder / "alive.json").unlink()
    again = open_store(table, folder)
    assert again._shards.snapshot().missing == (1,)
    assert_finds_what_the_table_has(again, table, 50)
    again.maintain()
    assert {*FILES} <= {*names(folder)}
    table.asked_for.clear()
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    assert table.asked_for == []
    again.close()


@pytest.mark.parametrize("origin", [Origin("other@2", "table-1", DIMENSIONS), Origin(IDENTITY, "table-2", DIMENSIONS)])
def test_files_of_another_origin_are_dropped(table: FakeTable, folder: Path, origin: Origin):
    store = open_store(table, folder, origin=origin)
    store.maintain()
    store.close()
    again = open_store(table, folder)
    assert again._shards.snapshot().sealed == ()
    assert_finds_what_the_table_has(again, table)
    again.close()


def test_a_file_under_another_number_is_dropped(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    (folder / FILES[1]).rename(folder / "000007.shard")
    again = open_store(table, folder)
    assert again._shards.snapshot().missing == (1,)
    assert not (folder / "000007.shard").exists()
    again.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("section", ["block", "exact"])
def test_a_file_that_changed_on_the_disk_never_gives_a_wrong_answer(table: FakeTable, folder: Path, section: str):
    store = open_store(table, folder)
    store.maintain()
    partition = store._shards.snapshot().sealed[1].partition
    offset = partition._block_at + partition.shape.rows_at if section == "block" else partition._exact_at
    with partition.path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\x5a" * 300)
    assert_finds_what_the_table_has(store, table, 50)
    assert table.asked_for[-1] == {1}
    store.maintain()
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table, 50)
    assert table.asked_for == []
    store.check_integrity()
    store.close()


@pytest.mark.expects_warnings
def test_a_resident_partition_whose_file_is_cut_short_is_answered_by_the_table(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    assert_finds_what_the_table_has(store, table, 50)
    partition = store._shards.snapshot().sealed[1].partition
    os.truncate(partition.path, partition._exact_at)
    assert_finds_what_the_table_has(store, table, 50)
    assert table.asked_for[-1] == {1}
    store.maintain()
    store.check_integrity()
    store.close()


@pytest.mark.expects_warnings
def test_rows_of_a_damaged_file_do_not_keep_healthy_ones_from_being_found(folder: Path):
    """The damaged file has all of the nearest rows; its candidates alone would fill the pool."""
    table = FakeTable()
    vector = queries(1)[0]
    order = np.random.default_rng(4).standard_normal((160, DIMENSIONS)).astype(np.float32)
    for place, noise in enumerate(order):
        shard = place // 40
        near = vector * (3 if shard == 1 else 1) + noise * 0.3
        [row] = document(place + 1, 1, shard)[place + 1]
        table.put_documents({place + 1: [replace(row, vector=near / np.linalg.norm(near))]})
    store = open_store(table, folder)
    store.maintain()
    partition = store._shards.snapshot().sealed[1].partition
    store.search(vector[None], 5)
    with partition.path.open("r+b") as file:
        file.seek(partition._exact_at)
        file.write(b"\x5a" * partition.shape.exact_bytes)
    swept = store._sweeper.sweep(store._shards.snapshot(), vector[None], 5)
    healthy = [row for row in table.rows.values() if row.shard != 1]
    assert swept.damaged == (partition,)
    assert [row.row_id for row in swept.found[0]] == [row.row_id for row in exact(healthy, vector, 5)]
    assert_finds_what_the_table_has(store, table)
    store.close()


# --- disagreement ---------------------------------------------------------------------------------


def test_integrity_names_what_disagrees(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    lost = next(row for row in table.rows.values() if row.shard == 1)
    del table.rows[lost.row_id]
    with pytest.raises(LibraryError, match=f"1 places: {lost.row_id} is not in the table any more"):
        store.check_integrity()
    table.rows |= {lost.row_id: lost}
    store.check_integrity()
    table.rows |= {row.row_id: row for row in document(900, 2, 2)[900]}
    with pytest.raises(LibraryError, match=r"2 places: .* is not in the partitions"):
        store.check_integrity()
    store.close()


def test_of_what_is_removed_nothing_stays_in_memory_before_it_is_sealed(folder: Path):
    table, ledger = FakeTable(), Ledger()
    store = open_store(table, folder, ledger)
    # A part of a block, of sixteen rows here, and two blocks.
    for removed in (document(1, 9, 0), document(2, 19, 0)):
        table.put_documents(removed)
        assert any(span.what == "newest passages" and span.num_bytes for span in ledger.spans("ram"))
        table.delete_documents(list(removed))
        assert not any(span.what == "newest passages" and span.num_bytes for span in ledger.spans("ram"))
        assert store.index_bytes == 0
    table.put_documents(document(3, 9, 0))
    assert_finds_what_the_table_has(store, table)
    store.close()


# --- budget ---------------------------------------------------------------------------------------


def held(ledger: Ledger) -> list[str]:
    return [span.what for span in ledger.spans("ram") if span.what.startswith("partition ")]


def test_the_budget_decides_how_many_partitions_stay(table: FakeTable, folder: Path):
    ledger = Ledger()
    store = open_store(table, folder, ledger)
    store.maintain()
    assert_finds_what_the_table_has(store, table)
    assert held(ledger) == ["partition 0", "partition 1", "partition 2"]
    assert ledger.held_bytes("ram", "index") == pytest.approx(store.index_bytes, rel=0.05)
    block = store._shards.snapshot().sealed[0].partition.shape.block_bytes
    store.set_budget_bytes(store.index_bytes - block)
    assert len(held(ledger)) == 2
    store.set_budget_bytes(0)
    assert held(ledger) == []
    assert_finds_what_the_table_has(store, table)
    assert held(ledger) == []
    store.set_budget_bytes(PLENTY)
    assert_finds_what_the_table_has(store, table)
    assert len(held(ledger)) == 3
    assert store.counters() == {
        "partitions": 3.0,
        "partitions_resident": 3.0,
        "partitions_resident_ratio": 1.0,
        "partition_loads": 9.0,
    }
    store.close()
    store.close()
    assert ledger.spans() == ()


@pytest.mark.parametrize("num_resident", [1, 2, 3, 5])
def test_every_budget_finds_the_same_and_reads_only_what_is_not_there(folder: Path, num_resident: int):
    table, ledger, sweeps = filled_table(8), Ledger(), list[Sweep]()
    store = open_store(table, folder, ledger)
    store.maintain()
    sealed = [sealed.partition for sealed in store._shards.snapshot().sealed]
    others = store.index_bytes - sum(partition.shape.block_bytes for partition in sealed)
    budget = others + num_resident * max(partition.shape.block_bytes for partition in sealed)
    store.set_budget_bytes(budget)
    store.on_sweep = sweeps.append
    for _ in range(4):
        assert_finds_what_the_table_has(store, table, 20)
        assert ledger.held_bytes("ram", "index") <= budget
    assert [sweep.num_loads for sweep in sweeps] == [7] + [7 - num_resident] * 3
    store.close()


def test_what_is_used_stays(folder: Path):
    table, ledger = filled_table(8), Ledger()
    store = open_store(table, folder, ledger)
    store.maintain()
    sealed = [sealed.partition for sealed in store._shards.snapshot().sealed]
    others = store.index_bytes - sum(partition.shape.block_bytes for partition in sealed)
    for _ in range(5):
        store.search(queries(1), 5, range(25, 41))
    store.set_budget_bytes(others + 3 * max(partition.shape.block_bytes for partition in sealed))
    store.search(queries(1), 5, [1])
    assert held(ledger) == ["partition 3", "partition 4", "partition 0"]
    store.close()


def test_what_comes_after_the_end_takes_nothing_any_more(table: FakeTable, folder: Path):
    ledger = Ledger()
    store = open_store(table, folder, ledger)
    store.maintain()
    store.close()
    store.set_budget_bytes(0)
    store.set_mode("on_disk")
    table.put_documents(document(100, 5, 3))
    table.optimize()
    store.maintain()
    assert_finds_what_the_table_has(store, table)
    assert ledger.spans() == ()
    assert not table.has_vector_index


def test_a_budget_that_was_waiting_for_a_search_may_come_after_the_end(table: FakeTable, folder: Path):
    ledger = Ledger()
    store = open_store(table, folder, ledger)
    store.maintain()
    with store._sweeping:
        threads = [threading.Thread(target=end) for end in (store.close, lambda: store.set_budget_bytes(0))]
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert ledger.spans() == ()


@pytest.mark.parametrize("bound", [PartitionStore.set_partition_bytes, PartitionStore.set_budget_bytes])
def test_a_bound_waits_for_no_sweep_and_its_bytes_are_given_back_when_that_has_ended(
    bound: Callable[[PartitionStore, int], None], table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger, sweeps, goes_on = Ledger(), threading.Event(), threading.Event()
    store = open_store(table, folder, ledger)
    store.maintain()
    assert_finds_what_the_table_has(store, table)
    sweep = store._sweeper.sweep

    def slow_sweep(*what):
        sweeps.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        return sweep(*what)

    monkeypatch.setattr(store._sweeper, "sweep", slow_sweep)
    searching = threading.Thread(target=store.search, args=(queries(1), 5))
    planning = threading.Thread(target=bound, args=(store, 0))
    searching.start()
    assert sweeps.wait(PATIENCE_SECONDS)
    planning.start()
    planning.join(PATIENCE_SECONDS / 2)
    was_waiting, held_then = planning.is_alive(), held(ledger)
    goes_on.set()
    for thread in (searching, planning):
        thread.join()
    assert not was_waiting
    # Not before anybody could take them.
    assert len(held_then) == 3
    assert held(ledger) == []
    assert_finds_what_the_table_has(store, table)
    store.close()


@pytest.mark.parametrize("bound", [PartitionStore.set_partition_bytes, PartitionStore.set_budget_bytes])
def test_a_sweep_under_way_gives_back_as_it_comes_to_another_partition(
    bound: Callable[[PartitionStore, int], None], folder: Path
):
    table, ledger, held_then = filled_table(8), Ledger(), list[int]()
    store = open_store(table, folder, ledger)
    store.maintain()

    def note() -> bool:
        held_then.append(len(held(ledger)))
        if len(held_then) == 4:
            bound(store, 0)
        return False

    store.search(queries(1), 5, should_pause=note)
    # Of the two, one is looked at while the next is read.
    assert max(held_then[:4]) >= 4 > 2 >= max(held_then[4:])
    assert held(ledger) == []
    assert_finds_what_the_table_has(store, table)
    store.close()


def test_a_plan_is_heeded_at_once_where_nobody_searches(table: FakeTable, folder: Path):
    ledger = Ledger()
    store = open_store(table, folder, ledger)
    store.maintain()
    assert_finds_what_the_table_has(store, table)
    store.set_partition_bytes(0)
    assert held(ledger) == []
    store.set_partition_bytes(PLENTY)
    assert_finds_what_the_table_has(store, table)
    assert len(held(ledger)) == 3
    store.close()
    store.set_partition_bytes(0)
    assert ledger.spans() == ()


# --- on disk --------------------------------------------------------------------------------------


def test_on_disk_nothing_stays_in_memory_or_files_and_back_again_everything_is_found(
    store: PartitionStore, table: FakeTable, folder: Path
):
    store.maintain()
    assert any(folder.glob("*.shard"))
    store.set_mode("on_disk")
    store.maintain()
    assert table.has_vector_index
    assert store.index_bytes == 0
    assert not any(folder.glob("*.shard")), "what is removed from now on would stay in them"
    table.put_documents(document(100, 5, 3))
    table.delete_documents([1])
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == [None]
    store.set_mode("resident")
    assert_finds_what_the_table_has(store, table)
    store.maintain()
    assert not table.has_vector_index
    table.asked_for.clear()
    assert_finds_what_the_table_has(store, table, 50)
    assert table.asked_for == []


def test_a_store_may_begin_on_disk(table: FakeTable, folder: Path):
    store = open_store(table, folder, mode="on_disk")
    assert_finds_what_the_table_has(store, table)
    store.maintain()
    store.check_integrity()
    store.close()
    assert not any(folder.glob("*.shard"))


# --- its thread -----------------------------------------------------------------------------------


def test_the_thread_seals_by_itself(table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch):
    store = open_store(table, folder)
    store.start()
    try:
        while not (folder / FILES[2]).exists():
            time.sleep(0.01)
        table.put_documents(document(100, 5, 4))
        while not (folder / "000003.shard").exists():
            time.sleep(0.01)
    finally:
        store.close()


@pytest.mark.expects_warnings
def test_a_file_that_cannot_be_read_once_written_is_left_for_later(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    store = open_store(table, folder)
    with monkeypatch.context() as patch:
        writings: list[object] = []

        def spoiled(path: Path, *_: object) -> None:
            writings.append(path)
            assert len(writings) < 5, "written again and again"
            path.write_bytes(b"spoiled")

        patch.setattr(upkeep, "write_partition", spoiled)
        with pytest.raises(LibraryError, match="cannot be read after it was written"):
            store.maintain()
    assert_finds_what_the_table_has(store, table)
    store.maintain()
    table.asked_for.clear()
    store.check_integrity()
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == []
    store.close()


def test_a_narrow_search_reads_only_the_likeliest_partitions(table: FakeTable, folder: Path):
    store = open_store(table, folder, budget_bytes=0)
    try:
        store.maintain()
        vectors = queries(1)
        everything = store.search(vectors, 5)
        assert store.num_cold == len(FILES)
        sweeps: list[Sweep] = []
        store.on_sweep = sweeps.append
        narrow = store.search(vectors, 5, max_loads=0)
        some = store.search(vectors, 5, max_loads=1)
        assert [sweep.num_loads for sweep in sweeps] == [0, 1]
        assert [sweep.num_skipped for sweep in sweeps] == [store.num_cold, store.num_cold - 1]
        assert everything[0][0].score >= some[0][0].score >= narrow[0][0].score
        assert store.search(vectors, 5, max_loads=99) == everything
    finally:
        store.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.ESTALE, errno.ENOMEM])
def test_files_that_the_system_does_not_give_now_are_used_when_it_does(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    really_open = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".shard"):
            raise OSError(number, os.strerror(number))
        return really_open(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        again = open_store(table, folder)
        assert_finds_what_the_table_has(again, table, 50)
        with pytest.raises(OSError, match=re.escape(os.strerror(number))):
            again.maintain()
    assert {*FILES} <= {*names(folder)}
    again.maintain()
    assert [sealed.partition.path.name for sealed in again._shards.snapshot().sealed] == FILES
    again.check_integrity()
    assert_finds_what_the_table_has(again, table, 50)
    again.close()
