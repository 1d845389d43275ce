"""Tests for engine.partitions.partition: the sealed file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from engine.errors import Cancelled
from engine.partitions import partition as partition_module
from engine.partitions.buffers import Buffer
from engine.partitions.kernels import quantize
from engine.partitions.layout import Origin, PartitionDamaged
from engine.partitions.packed import Packed, packed
from engine.partitions.partition import Partition
from engine.partitions.writing import write_partition

ORIGIN = Origin("model@1", "table", 24)


def some_rows(count: int = 100, dimensions: int = 24) -> Packed:
    """Rows of a dozen documents, in the order in which they might arrive."""
    random = np.random.default_rng(3)
    vectors = random.standard_normal((count, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return packed(
        random.integers(0, 2**63, count, dtype=np.uint64),
        random.integers(10, 22, count),
        random.integers(0, 2**63, count, dtype=np.uint64),
        vectors,
        quantize,
    )


@pytest.fixture
def rows() -> Packed:
    return some_rows()


@pytest.fixture
def partition(tmp_path: Path, rows: Packed) -> Partition:
    write_partition(tmp_path / "000003.shard", rows, ORIGIN, 3, 77)
    return Partition.open(tmp_path / "000003.shard", ORIGIN)


def read(partition: Partition) -> Buffer:
    buffer = Buffer(partition.shape.block_bytes)
    partition.read_block(buffer, threading.Event())
    return buffer


def test_what_was_written_is_read(partition: Partition, rows: Packed):
    rows = rows.by_document()
    block = partition.block(read(partition))
    whole = partition.packed()
    for name in ("ids", "scales", "rows"):
        np.testing.assert_array_equal(getattr(block, name), getattr(rows, name))
    for name in Packed.__slots__:
        np.testing.assert_array_equal(getattr(whole, name), getattr(rows, name))
    ids, keys = partition.identities()
    np.testing.assert_array_equal(ids, rows.ids)
    np.testing.assert_array_equal(keys, rows.keys)
    assert (partition.number, partition.count, partition.header.table_version) == (3, 100, 77)
    assert partition.disk_bytes == partition.path.stat().st_size


def test_exact_rows_are_gathered(partition: Partition, rows: Packed):
    positions = np.array([0, 1, 7, 8, 9, 50, 98, 99])
    wanted = rows.by_document().exact[positions].astype(np.float32)
    np.testing.assert_array_equal(partition.exact(positions), wanted)
    partition.forget_pages()
    np.testing.assert_array_equal(partition.exact(positions), wanted)
    assert partition.exact(np.zeros(0, np.int64)).shape == (0, 24)


def test_slow_rows_are_announced(partition: Partition, rows: Packed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(partition_module, "_COLD_SECONDS_PER_ROW", -1.0)
    positions = np.arange(100)
    np.testing.assert_array_equal(partition.exact(positions), rows.by_document().exact.astype(np.float32))


def test_rows_are_known_by_their_documents(partition: Partition, rows: Packed):
    documents = rows.by_document().documents
    np.testing.assert_array_equal(partition.documents_of(np.arange(100)), documents)
    mask = partition.in_documents(np.array([12, 13, 4711]))
    assert mask is not None
    np.testing.assert_array_equal(mask, (documents == 12) | (documents == 13))
    assert partition.in_documents(np.array([4711])) is None


def test_no_vector_is_farther_from_the_centroid_than_the_radius(partition: Partition, rows: Packed):
    distances = np.linalg.norm(rows.exact.astype(np.float32) - partition.centroid, axis=1)
    assert partition.header.radius == pytest.approx(distances.max(), abs=2e-3)


def test_a_reader_of_the_old_file_reads_on_when_it_is_replaced(partition: Partition, rows: Packed):
    write_partition(partition.path, some_rows(5), ORIGIN, 3, 78)
    np.testing.assert_array_equal(partition.packed().ids, rows.by_document().ids)
    assert Partition.open(partition.path, ORIGIN).count == 5


@pytest.mark.parametrize(
    "origin", [Origin("model@2", "table", 24), Origin("model@1", "other", 24), Origin("model@1", "table", 12)]
)
def test_a_file_of_another_origin_is_refused(partition: Partition, origin: Origin):
    with pytest.raises(PartitionDamaged, match="belongs to another"):
        Partition.open(partition.path, origin)


@pytest.mark.parametrize("size", [0, 3, 16, 60, 4095, 4096, 5000, 9000, 17087])
def test_a_file_cut_anywhere_is_refused(partition: Partition, size: int):
    assert size < partition.disk_bytes
    os.truncate(partition.path, size)
    with pytest.raises(PartitionDamaged):
        Partition.open(partition.path, ORIGIN)


def test_every_changed_byte_is_noticed(partition: Partition):
    content = partition.path.read_bytes()
    path = partition.path.with_name("000004.shard")
    random = np.random.default_rng(1)
    used = [
        *range(60),
        *(partition._index_at + random.integers(0, partition.shape.index_bytes, 40)),
        *(partition._block_at + random.integers(0, partition.shape.block_bytes, 40)),
        *(partition._exact_at + random.integers(0, partition.shape.exact_bytes, 40)),
    ]
    for place in used:
        changed = bytearray(content)
        changed[place] ^= 0x41
        path.write_bytes(changed)
        with pytest.raises(PartitionDamaged):
            Partition.open(path, ORIGIN).packed()


def test_a_changed_block_is_noticed_when_it_is_first_read(partition: Partition):
    with partition.path.open("r+b") as file:
        file.seek(partition._block_at + 900)
        file.write(b"\xff\x00\xff")
    with pytest.raises(PartitionDamaged, match="has changed"):
        read(partition)


def test_an_error_of_the_disk_is_damage(partition: Partition, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", refuse)
    with pytest.raises(PartitionDamaged, match="Input/output error"):
        read(partition)


def test_what_the_disk_did_not_give_at_once_is_asked_for_again(
    partition: Partition, rows: Packed, monkeypatch: pytest.MonkeyPatch
):
    whole, failures = os.preadv, [OSError(5, "Input/output error")]

    def fail_once(*arguments: object) -> int:
        if failures:
            raise failures.pop()
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "preadv", fail_once)
    np.testing.assert_array_equal(partition.block(read(partition)).rows, rows.by_document().rows)
    failures.append(OSError(5, "Input/output error"))
    assert Partition.open(partition.path, ORIGIN).count == 100


def test_a_file_that_is_cut_short_is_not_asked_again(partition: Partition, monkeypatch: pytest.MonkeyPatch):
    whole, asked = os.preadv, list[int]()

    def counted(file: int, targets: list[memoryview], at: int) -> int:
        asked.append(at)
        return whole(file, targets, at)

    os.truncate(partition.path, partition._block_at)
    monkeypatch.setattr(os, "preadv", counted)
    with pytest.raises(PartitionDamaged, match="cut short"):
        read(partition)
    assert asked == [partition._block_at]


@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_exact_rows_are_not_looked_for_in_a_file_that_was_cut_short(partition: Partition, kept: float):
    """Looking would end the process."""
    os.truncate(partition.path, partition._exact_at + int(kept * partition.shape.exact_bytes))
    with pytest.raises(PartitionDamaged, match="cut short"):
        partition.exact(np.array([99]))


def test_a_system_without_positioned_reads_reads_alike(
    partition: Partition, rows: Packed, monkeypatch: pytest.MonkeyPatch
):
    for name in ("pread", "preadv"):
        monkeypatch.delattr(os, name)
    opened, wanted, wrong = Partition.open(partition.path, ORIGIN), rows.by_document().rows, list[int]()

    def read_often() -> None:
        wrong.extend(turn for turn in range(30) if not np.array_equal(opened.block(read(opened)).rows, wanted))

    threads = [threading.Thread(target=read_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    np.testing.assert_array_equal(opened.packed().exact, rows.by_document().exact)


def test_short_readings_are_continued(partition: Partition, rows: Packed, monkeypatch: pytest.MonkeyPatch):
    whole = os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, targets, at: whole(file, [targets[0][:100]], at))
    np.testing.assert_array_equal(partition.block(read(partition)).rows, rows.by_document().rows)


def test_a_reading_can_be_called_off(partition: Partition):
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        partition.read_block(Buffer(partition.shape.block_bytes), cancelled)


def test_a_file_that_could_not_be_written_leaves_the_old_one(
    partition: Partition, rows: Packed, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_partition(partition.path, some_rows(5), ORIGIN, 3, 78)
    assert Partition.open(partition.path, ORIGIN).count == len(rows)
    assert not list(partition.path.parent.glob("*.tmp"))
