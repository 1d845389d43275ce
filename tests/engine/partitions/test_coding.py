"""Tests for engine.partitions.coding: a library with codes finds what it found without, whatever becomes of them."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.memory.ledger import Ledger
from engine.partitions import codebook, coding, fast_scan, open_rows
from engine.partitions.layout import Origin
from engine.partitions.residency import Slot
from engine.partitions.rows import Sweep
from engine.partitions.scanners import Scanners
from engine.partitions.store import PartitionStore
from engine.partitions.sweep import SweepPaused
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY
from tests.helpers.partitions import (
    FakeTable,
    assert_finds_what_the_table_has,
    document,
    exact,
    filled_table,
    open_store,
    queries,
)

pytestmark = pytest.mark.skipif(not fast_scan.is_available(), reason="faiss is not used on this system")

SHARDS, DOCUMENTS, ROWS = 5, 40, 5
SEALED_ROWS = (SHARDS - 1) * DOCUMENTS * ROWS


@pytest.fixture(autouse=True)
def small_libraries_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes from 700 rows on. Questions about nothing are poorly coded, so that every row is a candidate here."""
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 64)
    monkeypatch.setattr(coding, "LEAST_ROWS", 700)
    monkeypatch.setattr(codebook, "_LEAST_CANDIDATES", 10_000)


@pytest.fixture
def table() -> FakeTable:
    return filled_table(SHARDS, DOCUMENTS, ROWS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shards"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def store(table: FakeTable, folder: Path, ledger: Ledger) -> Iterator[PartitionStore]:
    """Four sealed shards with codes and an open one."""
    store = open_store(table, folder, ledger)
    store.maintain()
    table.asked_for.clear()
    yield store
    store.check_integrity()
    store.close()


def coded(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.codes"))


ALL = ["000000.codes", "000001.codes", "000002.codes", "000003.codes"]


def codes_bytes(store: PartitionStore) -> int:
    return sum(fast_scan.packed_bytes(partition.count, DIMENSIONS // 4) for partition in store._sealed())


# --- with codes ---


def test_a_large_library_has_codes_and_finds_everything(store: PartitionStore, table: FakeTable, folder: Path):
    assert coded(folder) == ALL
    assert_finds_what_the_table_has(store, table)
    assert_finds_what_the_table_has(store, table, 50)
    assert table.asked_for == []


def test_a_small_library_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coding, "LEAST_ROWS", SEALED_ROWS + 1)
    table = filled_table(SHARDS, DOCUMENTS, ROWS)
    store = open_store(table, folder)
    store.maintain()
    assert coded(folder) == []
    assert not (folder / codebook.NAME).exists()
    store.close()


def test_a_system_without_faiss_has_none_and_finds_everything(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    with_codes = open_store(table, folder)
    with_codes.maintain()
    with_codes.close()
    monkeypatch.setattr(fast_scan, "is_available", lambda: False)
    store = open_store(table, folder)
    store.maintain()
    assert all(partition.codes is None for partition in store._sealed())
    assert_finds_what_the_table_has(store, table)
    store.close()


def test_only_codes_are_resident_and_the_ledger_knows(store: PartitionStore, ledger: Ledger):
    store.search(queries(1), 5)
    resident = [span for span in ledger.spans("ram") if span.what.startswith("partition ")]
    assert sum(span.num_bytes for span in resident) == codes_bytes(store)
    assert {span.state for span in resident} == {"resident"}
    assert store.index_bytes < sum(partition.shape.block_bytes for partition in store._sealed())
    on_disk = sum(partition.disk_bytes for partition in store._sealed()) + codes_bytes(store)
    assert ledger.held_bytes("disk", "index") == on_disk


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_codes_that_the_budget_does_not_hold_are_read_for_each_search(
    store: PartitionStore, table: FakeTable, ledger: Ledger, share: float
):
    others = store.index_bytes - codes_bytes(store)
    store.set_budget_bytes(others + int(share * codes_bytes(store)))
    assert_finds_what_the_table_has(store, table)
    assert_finds_what_the_table_has(store, table)
    held = sum(span.num_bytes for span in ledger.spans("ram") if span.what.startswith("partition "))
    assert held <= share * codes_bytes(store)


def test_a_search_that_is_confined_stays_in_its_documents(
    store: PartitionStore, table: FakeTable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("engine.partitions.sweep._FEW_ROWS", 20)
    for wanted in ([3], [7, 90, 130], range(20, 60), range(1, 200, 2), range(1, 200)):
        assert_finds_what_the_table_has(store, table, 10, wanted)


def test_few_rows_are_looked_at_without_reading_codes(store: PartitionStore, table: FakeTable):
    sweeps: list[Sweep] = []
    store.on_sweep = sweeps.append
    assert_finds_what_the_table_has(store, table, 10, [7, 90, 130])
    assert store._residency.numbers == ()
    assert [sweep.num_loads for sweep in sweeps] == [0]


def test_what_is_removed_or_changed_is_found_no_more(store: PartitionStore, table: FakeTable):
    table.delete_documents([1, 45, 46, 100])
    table.put_documents(document(2, 3, 4, "changed") | document(90, 4, 4, "changed"))
    assert_finds_what_the_table_has(store, table)
    assert_finds_what_the_table_has(store, table, 30, range(1, 120))


# --- their files ---


def test_a_shard_that_is_written_anew_gets_new_codes(store: PartitionStore, table: FakeTable, folder: Path):
    table.delete_documents(range(1, 12))
    store.maintain()
    assert coded(folder) == ["000000-1.codes", *ALL[1:]]
    assert all(partition.codes is not None for partition in store._sealed())
    assert_finds_what_the_table_has(store, table)


def test_a_shard_without_rows_has_no_codes(store: PartitionStore, table: FakeTable, folder: Path):
    table.delete_documents(range(1, DOCUMENTS + 1))
    store.maintain()
    assert coded(folder) == ALL[1:]
    assert_finds_what_the_table_has(store, table)


def test_the_next_start_finds_codes_and_writes_none(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    inodes = [path.stat().st_ino for path in sorted(folder.iterdir()) if path.name != "alive.json"]
    again = open_store(table, folder)
    assert all(partition.codes is not None for partition in again._sealed())
    again.maintain()
    assert [path.stat().st_ino for path in sorted(folder.iterdir()) if path.name != "alive.json"] == inodes
    assert_finds_what_the_table_has(again, table)
    again.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("name", [codebook.NAME, ALL[1]])
@pytest.mark.parametrize("damage", ["lost", "cut", "changed"])
def test_what_is_lost_or_damaged_between_two_starts_is_made_anew(
    table: FakeTable, folder: Path, name: str, damage: str
):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    ruin(folder / name, damage)
    again = open_store(table, folder)
    assert_finds_what_the_table_has(again, table)
    again.maintain()
    assert coded(folder) == ALL
    assert all(partition.codes is not None for partition in again._sealed())
    assert_finds_what_the_table_has(again, table)
    assert None not in table.asked_for
    again.close()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("damage", ["lost", "cut", "changed"])
def test_codes_that_are_damaged_while_they_are_wanted_cost_no_row(
    store: PartitionStore, table: FakeTable, folder: Path, damage: str
):
    ruin(folder / ALL[1], damage)
    assert_finds_what_the_table_has(store, table)
    assert [partition.codes is None for partition in store._sealed()] == [False, True, False, False]
    assert table.asked_for == []
    store.maintain()
    assert all(partition.codes is not None for partition in store._sealed())
    assert_finds_what_the_table_has(store, table)


def ruin(path: Path, damage: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x41
    path.unlink()
    if damage != "lost":
        path.write_bytes(content[:-10] if damage == "cut" else content)


@pytest.mark.expects_warnings
def test_exact_rows_that_changed_on_the_disk_are_written_anew(store: PartitionStore, table: FakeTable):
    partition = store._sealed()[2]
    with partition.path.open("r+b") as file:
        file.seek(partition._exact_at)
        file.write(bytes(partition.shape.exact_bytes))
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == [{2}]
    store.maintain()
    assert_finds_what_the_table_has(store, table)
    assert table.asked_for == [{2}]
    assert all(partition.codes is not None for partition in store._sealed())


@pytest.mark.expects_warnings
def test_beside_a_damaged_partition_the_others_are_asked_again(
    store: PartitionStore, table: FakeTable, monkeypatch: pytest.MonkeyPatch
):
    """They were asked for no more rows than should have been needed beside those of the damaged one."""
    numbers, best = list[int](), Scanners.best

    def counted(scanners: Scanners, parts: Sequence[Any], *others: Any) -> object:
        numbers.append(len(parts))
        return best(scanners, parts, *others)

    assert_finds_what_the_table_has(store, table)
    monkeypatch.setattr(Scanners, "best", counted)
    partition = store._sealed()[2]
    with partition.path.open("r+b") as file:
        file.seek(partition._exact_at)
        file.write(bytes(partition.shape.exact_bytes))
    swept = store._sweeper.sweep(store._shards.snapshot(), queries(3), 10)
    assert swept.damaged == (partition,)
    assert numbers == [4, 3]
    others = [row for row in table.rows.values() if row.shard != 2]
    wanted = [[row.score for row in exact(others, query, 10)] for query in queries(3)]
    assert [[row.score for row in found] for found in swept.found] == [pytest.approx(line, abs=1e-3) for line in wanted]
    assert_finds_what_the_table_has(store, table)
    store.maintain()


@pytest.mark.expects_warnings
@pytest.mark.parametrize("is_pausing", [False, True])
@pytest.mark.parametrize("was_resident", [False, True])
def test_beside_a_partition_that_turns_out_to_be_damaged_none_is_read_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, was_resident: bool, is_pausing: bool
):
    table = filled_table(SHARDS + 2, DOCUMENTS, ROWS)
    store = open_store(table, folder)
    store.maintain()
    store.set_partition_bytes(2 * codes_bytes(store) // 3)
    vectors, loads, loaded = queries(3), list[int](), Slot.loaded
    store.search(vectors, 10)
    resident = set(store._residency.numbers)
    assert (len(resident), store.num_cold) == (4, 2)
    monkeypatch.setattr(Slot, "loaded", lambda slot: loads.append(slot.partition.number) or loaded(slot))
    partition = next(p for p in store._sealed() if (p.number in resident) == was_resident)
    with partition.path.open("r+b") as file:
        file.seek(partition._exact_at)
        file.write(bytes(partition.shape.exact_bytes))
    found, num_pauses = None, 0
    while found is None:
        try:
            found = store.search(vectors, 10, should_pause=lambda: is_pausing)
        except SweepPaused:
            num_pauses += 1
    # Of those that were scanned beside the damaged one, some had to leave for the two that were not in memory.
    assert max(Counter(loads).values()) == 1
    assert (len(loads) > 2) == was_resident
    assert len(set(loads) - resident) == 2
    assert bool(num_pauses) == is_pausing
    wanted = [[row.score for row in exact(list(table.rows.values()), query, 10)] for query in vectors]
    assert [[row.score for row in line] for line in found] == [pytest.approx(line, abs=1e-3) for line in wanted]
    assert table.asked_for[-1] == {partition.number}
    store.close()


def test_four_times_as_many_rows_get_a_new_codebook(
    store: PartitionStore, table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    before = (folder / codebook.NAME).read_bytes()
    table.put_documents(document(900, 10, SHARDS))
    store.maintain()
    assert (folder / codebook.NAME).read_bytes() == before
    monkeypatch.setattr(coding, "_GROWN", 1.2)
    table.put_documents(document(901, 10, SHARDS + 1))
    store.maintain()
    assert (folder / codebook.NAME).read_bytes() != before
    assert len({partition.codes.book.crc for partition in store._sealed() if partition.codes}) == 1
    assert_finds_what_the_table_has(store, table)


def test_codes_of_two_books_are_searched_side_by_side(
    store: PartitionStore, table: FakeTable, monkeypatch: pytest.MonkeyPatch
):
    """As they are while a new codebook takes over."""
    monkeypatch.setattr(coding, "_GROWN", 0)
    store._coding._make_book(store._sealed(), SEALED_ROWS // 2)
    book = store._coding._book
    assert book is not None
    for partition in store._sealed()[:2]:
        partition.codes = coding.CodesFile.write(
            partition.path.with_suffix(".codes"), book, partition.header.block_crc, partition.pieces()
        )
    assert len({partition.codes.book.crc for partition in store._sealed() if partition.codes}) == 2
    assert_finds_what_the_table_has(store, table)
    assert_finds_what_the_table_has(store, table, 20, range(30, 150))


def test_vectors_that_cannot_be_coded_are_not_tried_at_every_turn(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    tried: list[int] = []
    monkeypatch.setattr(codebook, "made", lambda sample, embedder, num_rows: tried.append(num_rows))
    store = open_store(table, folder)
    for _ in range(3):
        store.maintain()
    assert tried == [SEALED_ROWS]
    assert_finds_what_the_table_has(store, table)
    store.close()


def test_a_new_embedding_model_gets_a_codebook_of_its_own(table: FakeTable, folder: Path):
    store = open_store(table, folder)
    store.maintain()
    store.close()
    before = (folder / codebook.NAME).read_bytes()
    again = open_store(table, folder, origin=Origin("model@2", table.table_id, DIMENSIONS))
    again.maintain()
    assert (folder / codebook.NAME).read_bytes() != before
    assert IDENTITY.encode() not in (folder / codebook.NAME).read_bytes()
    assert_finds_what_the_table_has(again, table)
    again.close()


def test_after_a_stay_on_the_disk_there_are_codes_again(store: PartitionStore, table: FakeTable, ledger: Ledger):
    store.search(queries(1), 5)
    store.set_mode("on_disk")
    store.maintain()
    assert ledger.held_bytes("ram", "index") == 0
    assert not any(store._folder.glob("*.codes"))
    store.set_mode("resident")
    store.maintain()
    assert all(partition.codes is not None for partition in store._sealed())
    assert_finds_what_the_table_has(store, table)


def test_a_full_disk_leaves_the_search_as_it_was(table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coding, "LEAST_ROWS", SEALED_ROWS + 1)
    store = open_store(table, folder)
    store.maintain()
    monkeypatch.setattr(coding, "LEAST_ROWS", 700)

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            store.maintain()
        assert_finds_what_the_table_has(store, table)
        assert coded(folder) == []
    with monkeypatch.context() as patch:
        # It is made once and written when there is room.
        patch.setattr(codebook, "made", None)
        store.maintain()
    assert coded(folder) == ALL
    assert_finds_what_the_table_has(store, table)
    store.close()


@pytest.mark.parametrize("num_steps", range(6))
def test_a_kill_while_codes_are_written_is_mended_by_the_next_start(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch, num_steps: int
):
    """Killed with the file beside written and not yet renamed, of the codebook first and of each codes file then."""

    class Killed(BaseException):
        pass

    done, replace = [0], os.replace

    def renaming(source: Path, target: Path) -> None:
        if Path(target).suffix in (".codes", ""):
            done[0] += 1
            if done[0] > num_steps:
                Path(source).with_suffix(".tmp").write_bytes(Path(source).read_bytes())
                raise Killed
        replace(source, target)

    store = open_store(table, folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", renaming)
        if num_steps < 5:
            with pytest.raises(Killed):
                store.maintain()
        else:
            store.maintain()
    again = open_store(table, folder)
    assert_finds_what_the_table_has(again, table)
    again.maintain()
    again.check_integrity()
    assert coded(folder) == ALL
    assert not list(folder.glob("*.tmp"))
    assert_finds_what_the_table_has(again, table)
    for one in (store, again):
        one.close()


@pytest.mark.parametrize("seed", range(3))
def test_any_history_with_codes_ends_with_what_the_table_has(
    table: FakeTable, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int
):
    random, arrived = np.random.default_rng(seed), 0
    monkeypatch.setattr(coding, "_GROWN", 1.1)
    store = open_store(table, folder, budget_bytes=int(random.integers(0, 20_000)))
    for _ in range(25):
        match random.choice(["put", "put", "delete", "search", "search", "maintain", "close", "damage"]):
            case "put":
                arrived += 1
                table.put_documents(document(int(random.integers(1, 260)), 6, SHARDS + arrived // 20, f"v{arrived}"))
            case "delete":
                table.delete_documents(random.integers(1, 260, 4).tolist())
            case "search":
                wanted = None if random.random() < 0.5 else random.integers(1, 260, 120).tolist()
                assert_finds_what_the_table_has(store, table, 8, wanted)
            case "maintain":
                store.maintain()
            case "close":
                store.close()
                store = open_store(table, folder, budget_bytes=int(random.integers(0, 20_000)))
            case "damage":
                for path in list(folder.glob("*.codes"))[:1]:
                    path.write_bytes(b"nothing")
                store.close()
                store = open_store(table, folder)
    store.maintain()
    store.check_integrity()
    assert_finds_what_the_table_has(store, table, 30)
    store.close()
