"""Tests for engine.partitions.residency and the sweep through it: which partitions are in memory, to the byte."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

from engine.errors import Cancelled
from engine.memory.ledger import Ledger
from engine.partitions.buffers import Buffer
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.packed import packed
from engine.partitions.partition import Partition
from engine.partitions.prefetcher import Prefetcher
from engine.partitions.residency import Residency
from engine.partitions.rows import Vectors
from engine.partitions.snapshot import Sealed, Snapshot
from engine.partitions.sweep import Sweeper
from engine.partitions.writing import write_partition

DIMENSIONS = 128
ORIGIN = Origin("model@1", "table", DIMENSIONS)
ROWS = 20_000
PLENTY = 2**40


def unit_vectors(count: int, seed: int) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory) -> list[Partition]:
    """Six files of 2.8 MB; documents 0–9 are in the first, and so on."""
    folder, opened = tmp_path_factory.mktemp("shards"), []
    for number in range(6):
        ids = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.uint64)
        documents = number * 10 + np.arange(ROWS) // (ROWS // 10)
        write_partition(
            path := folder / f"{number:06d}.shard",
            packed(ids, documents, ids, unit_vectors(ROWS, number), quantize),
            ORIGIN,
            number,
            1,
        )
        opened.append(Partition.open(path, ORIGIN))
    return opened


@pytest.fixture
def snapshot(partitions: list[Partition]) -> Snapshot:
    return Snapshot(tuple(Sealed(partition, None) for partition in partitions), (), ())


@pytest.fixture
def prefetcher() -> Iterator[Prefetcher]:
    started = Prefetcher()
    yield started
    started.close()


@pytest.fixture
def residency() -> Residency:
    return Residency(Ledger())


@pytest.fixture
def sweeper(prefetcher: Prefetcher, residency: Residency) -> Iterator[Sweeper]:
    sweeper = Sweeper(NumpyKernel(), prefetcher, residency)
    yield sweeper
    sweeper.close()


def rss() -> int:
    return int(psutil.Process().memory_info().rss)


def test_memory_follows_the_ledger_and_goes_back_to_the_system(
    sweeper: Sweeper, residency: Residency, snapshot: Snapshot
):
    residency.budget_bytes = 0
    sweeper.sweep(snapshot, unit_vectors(4, 99), 10)
    before, residency.budget_bytes = rss(), PLENTY
    sweeper.sweep(snapshot, unit_vectors(4, 99), 10)
    taken = residency.num_bytes
    assert taken == sum(sealed.partition.shape.block_bytes for sealed in snapshot.sealed)
    assert residency._ledger.held_bytes("ram", "index") == taken
    assert rss() - before == pytest.approx(taken, rel=0.1)
    full, residency.budget_bytes = rss(), taken // 2
    residency.fit()
    assert full - rss() == pytest.approx(taken / 2, rel=0.1)
    residency.clear()
    assert full - rss() == pytest.approx(taken, rel=0.1)
    assert residency._ledger.spans() == ()


def test_a_smaller_partition_in_a_larger_buffer_gives_the_rest_back():
    before = rss()
    buffer = Buffer(2**24)
    buffer.array(0, (2**24,), np.uint8)[:] = 1
    assert rss() - before == pytest.approx(2**24, rel=0.1)
    buffer.trim(2**22)
    assert rss() - before == pytest.approx(2**22, rel=0.3)
    assert buffer.array(0, (2**22,), np.uint8).all()


@pytest.mark.parametrize("num_resident", [0, 1, 2, 4])
def test_a_cold_partition_is_read_while_another_is_searched(
    sweeper: Sweeper, residency: Residency, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, num_resident: int
):
    """With room for two there is one being searched and one, the spare, being filled; never more than the budget."""
    block_bytes = snapshot.sealed[0].partition.shape.block_bytes
    residency.budget_bytes = num_resident * block_bytes
    most, overlaps = [0], [0]
    scan = NumpyKernel.scan

    def watched(*args: object) -> object:
        held = [span.state for span in residency._ledger.spans("ram")]
        most[0] = max(most[0], len(held))
        overlaps[0] += "loading" in held
        return scan(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(NumpyKernel, "scan", watched)
    sweeper.sweep(snapshot, unit_vectors(4, 1), 10)
    assert most[0] == max(1, num_resident)
    assert overlaps[0] == (5 if num_resident >= 2 else 0)
    assert len(residency.numbers) == num_resident


def test_a_search_that_fails_leaves_nothing_half_read(
    sweeper: Sweeper, residency: Residency, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
):
    residency.budget_bytes = 3 * snapshot.sealed[0].partition.shape.block_bytes
    wanted = sweeper.sweep(snapshot, unit_vectors(4, 1), 10).found
    calls, scan = [0], NumpyKernel.scan

    def failing(*args: object) -> object:
        calls[0] += 1
        if calls[0] == 3:
            raise MemoryError
        return scan(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(NumpyKernel, "scan", failing)
        with pytest.raises(MemoryError):
            sweeper.sweep(snapshot, unit_vectors(4, 1), 10)
    assert {span.state for span in residency._ledger.spans()} == {"resident"}
    assert sweeper.sweep(snapshot, unit_vectors(4, 1), 10).found == wanted


def test_partitions_that_were_replaced_are_let_go(sweeper: Sweeper, residency: Residency, snapshot: Snapshot):
    residency.budget_bytes = PLENTY
    sweeper.sweep(snapshot, unit_vectors(1, 1), 10)
    replaced = Partition.open(snapshot.sealed[0].partition.path, ORIGIN)
    now = Snapshot((Sealed(replaced, None), *snapshot.sealed[2:]), (), ())
    assert sweeper.sweep(now, unit_vectors(1, 1), 10).num_loads == 1
    assert sorted(residency.numbers) == [0, 2, 3, 4, 5]


def test_a_reading_that_is_called_off_leaves_the_buffer_alone(prefetcher: Prefetcher, partitions: list[Partition]):
    buffer = Buffer(partitions[0].shape.block_bytes)
    reading = prefetcher.read(partial(partitions[0].read_block, buffer))
    reading.cancel()
    reading.cancel()
    before = bytes(buffer.bytes[:1000])
    prefetcher.read(partial(partitions[0].read_block, Buffer(partitions[0].shape.block_bytes))).wait()
    assert bytes(buffer.bytes[:1000]) == before


def test_a_reading_ends_between_two_pieces(partitions: list[Partition]):
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        partitions[0].read_block(Buffer(partitions[0].shape.block_bytes), cancelled)


@pytest.mark.parametrize("documents", [None, [3, 4, 25], list(range(55))])
def test_int8_and_rescoring_find_the_true_neighbours(
    sweeper: Sweeper, residency: Residency, snapshot: Snapshot, documents: list[int] | None
):
    residency.budget_bytes = PLENTY
    queries = unit_vectors(8, 5)
    wanted = None if documents is None else np.array(documents)
    rows = np.concatenate([unit_vectors(ROWS, number) for number in range(6)])
    cosines = queries @ rows.T
    if documents is not None:
        cosines[:, ~np.isin(np.arange(6 * ROWS) // (ROWS // 10), documents)] = -1
    truth = np.argsort(-cosines, axis=1)[:, :10]
    found = sweeper.sweep(snapshot, queries, 10, wanted).found
    shared = sum(
        len({int(row.row_id, 16) for row in line} & set(best)) for line, best in zip(found, truth.tolist(), strict=True)
    )
    assert shared >= 79
    assert all(row.document_id == int(row.row_id, 16) // (ROWS // 10) for line in found for row in line)


def test_cold_partitions_that_cannot_matter_are_passed_over(
    prefetcher: Prefetcher, residency: Residency, tmp_path: Path
):
    """Four partitions, each about one direction: a question about one needs no other."""
    random, sealed = np.random.default_rng(2), []
    directions = np.linalg.qr(random.standard_normal((DIMENSIONS, 4)))[0].T.astype(np.float32)
    for number, direction in enumerate(directions):
        vectors = direction + 0.02 * random.standard_normal((500, DIMENSIONS)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        ids = np.arange(number * 500, number * 500 + 500, dtype=np.uint64)
        path = tmp_path / f"{number:06d}.shard"
        write_partition(path, packed(ids, ids.astype(np.int64), ids, vectors, quantize), ORIGIN, number, 1)
        sealed.append(Sealed(Partition.open(path, ORIGIN), None))
    sweeper, snapshot = Sweeper(NumpyKernel(), prefetcher, residency), Snapshot(tuple(sealed), (), ())
    residency.budget_bytes = sealed[0].partition.shape.block_bytes
    whole = sweeper.sweep(snapshot, directions[:1], 10)
    sweeper.sweep(Snapshot(tuple(sealed[:1]), (), ()), directions[:1], 10)
    lossless = sweeper.sweep(snapshot, directions[:1], 10, cold_slack=1.0)
    assert (whole.num_skipped, lossless.num_skipped, lossless.found) == (0, 3, whole.found)
    together = sweeper.sweep(snapshot, directions[:2], 10, cold_slack=0.0)
    assert together.num_skipped == 0
