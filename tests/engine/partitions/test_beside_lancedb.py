"""Tests for the partition store beside the real table: what it finds is what LanceDB finds, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.config import MemorySettings
from engine.memory.ledger import Ledger
from engine.partitions import open_rows
from engine.partitions import reader as reader_module
from engine.partitions import table as table_module
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY
from tests.helpers.partitions import PLENTY, document, queries


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rows, "ROWS_PER_BLOCK", 64)


def open_both(folder: Path, ledger: Ledger | None = None) -> tuple[ChunkTable, PartitionStore]:
    ledger = ledger or Ledger()
    table = ChunkTable.open(folder / "lancedb", DIMENSIONS, IDENTITY, MemorySettings(), ledger)
    origin = Origin(IDENTITY, table.table_id, DIMENSIONS)
    return table, PartitionStore(table, folder / "shards", origin, NumpyKernel(), quantize, ledger, PLENTY)


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[ChunkTable, PartitionStore]]:
    table, store = open_both(tmp_path)
    for shard in range(3):
        table.put_documents({10 * shard + n: document(10 * shard + n, 6, shard)[10 * shard + n] for n in range(10)})
    store.maintain()
    yield table, store
    store.close()
    table.close()


def assert_agree(table: ChunkTable, store: PartitionStore, document_ids: list[int] | None = None) -> None:
    vectors = queries(6)
    for here, there in zip(
        store.search(vectors, 12, document_ids), table.nearest(vectors, 12, document_ids), strict=True
    ):
        assert [row.score for row in here] == pytest.approx([row.score for row in there], abs=1e-3)
        assert len({row.row_id for row in here} & {row.row_id for row in there}) >= len(there) - 1
    store.check_integrity()


def test_both_find_the_same_through_all_changes(both: tuple[ChunkTable, PartitionStore]):
    table, store = both
    assert_agree(table, store)
    assert_agree(table, store, [3, 14, 25])
    table.delete_documents([1, 2, 3, 11])
    table.put_documents(document(12, 9, 2, "changed") | document(4, 2, 2, "changed"))
    assert_agree(table, store)
    table.put_documents(document(99, 5, 3))
    store.maintain()
    table.optimize()
    assert_agree(table, store)
    assert_agree(table, store, [4, 12, 99])


@pytest.mark.parametrize("ended", ["ordinarily", "by a kill"])
def test_both_agree_after_a_start(both: tuple[ChunkTable, PartitionStore], tmp_path: Path, ended: str):
    table, store = both
    table.delete_documents([1, 21])
    table.put_documents(document(12, 9, 2, "changed"))
    if ended == "ordinarily":
        store.close()
    again_table, again = open_both(tmp_path)
    assert not again._shards.snapshot().missing
    assert_agree(again_table, again)
    again.close()
    again_table.close()


@pytest.mark.expects_warnings
def test_what_partitions_say_of_rows_that_a_power_cut_took_does_not_count(
    both: tuple[ChunkTable, PartitionStore], tmp_path: Path
):
    table, store = both
    table.put_documents(document(40, 5, 3))
    store.close()
    table.close()
    data = tmp_path / "lancedb" / "chunks.lance" / "data"
    max(data.iterdir(), key=lambda file: file.stat().st_mtime_ns).write_bytes(b"")
    for _ in range(2):
        again_table, again = open_both(tmp_path)
        assert 40 not in again_table.document_ids()
        assert_agree(again_table, again)
        again.close()
        again_table.close()


def test_files_of_a_table_that_was_set_aside_are_not_used(both: tuple[ChunkTable, PartitionStore], tmp_path: Path):
    _, store = both
    store.close()
    (tmp_path / "lancedb").rename(tmp_path / "old")
    table, again = open_both(tmp_path)
    assert again.search(queries(1), 5) == [[]]
    assert list((tmp_path / "shards").glob("*.shard")) == []
    again.close()
    table.close()


def test_the_index_on_disk_finds_nearly_the_same_and_memory_all_again(
    both: tuple[ChunkTable, PartitionStore], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(table_module, "_MIN_ROWS_TO_INDEX", 100)
    table, store = both
    table.put_documents({id_: document(id_, 20, 2)[id_] for id_ in range(100, 120)})
    store.set_mode("on_disk")
    store.maintain()
    assert store.index_bytes == 0
    assert table.nearest(queries(1), 3, is_exact=False)
    found = store.search(queries(6), 10)
    exact = table.nearest(queries(6), 10)
    assert sum(len({*a} & {*b}) for a, b in zip(_ids(found), _ids(exact), strict=True)) >= 0.98 * 60
    table.put_documents(document(5, 4, 2, "written meanwhile"))
    store.set_mode("resident")
    store.maintain()
    assert_agree(table, store)


def _ids(found: list[list[object]]) -> list[list[str]]:
    return [[row.row_id for row in rows] for rows in found]  # type: ignore[attr-defined]


def test_searching_goes_on_while_everything_changes(
    both: tuple[ChunkTable, PartitionStore], monkeypatch: pytest.MonkeyPatch
):
    table, store = both
    # While the index lives on the disk, looking at every row keeps the answers comparable.
    monkeypatch.setattr(table_module, "_MIN_ROWS_TO_INDEX", 100)
    monkeypatch.setattr(reader_module, "_MIN_CANDIDATES", 10_000)
    monkeypatch.setattr(reader_module, "_NPROBES", 1000)
    stop, failures, wrong = threading.Event(), list[Exception](), list[object]()
    steady = set(range(5, 10))

    def search() -> None:
        vectors = queries(4)
        wanted = [{row.row_id for row in rows} for rows in table.nearest(vectors, 30, steady)]
        while not stop.is_set():
            try:
                found = store.search(vectors, 30, steady)
                store.set_budget_bytes(int(np.random.default_rng().integers(0, 2 * store.index_bytes + 1)))
            except Exception as error:  # noqa: BLE001 - told to the test
                failures.append(error)
                return
            wrong.extend(a for a, b in zip(found, wanted, strict=True) if {row.row_id for row in a} != b)

    store.start()
    searcher = threading.Thread(target=search)
    searcher.start()
    random, arrived = np.random.default_rng(1), 180
    for turn in range(40):
        id_ = int(random.integers(30, 60))
        if turn % 5 == 4:
            table.delete_documents([id_, int(random.integers(10, 30))])
        else:
            table.put_documents(document(id_, 15, arrived // 60, f"turn {turn}"))
            arrived += 15
        if turn % 15 == 14:
            table.optimize()
        if turn == 20:
            store.set_mode("on_disk")
        if turn == 25:
            store.set_mode("resident")
    stop.set()
    searcher.join(60)
    assert failures == []
    assert wrong == []
    store.maintain()
    assert_agree(table, store)
