"""A table in memory, and stores over it: partitions without LanceDB, with shards of a few rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.library.rows import row_id
from engine.memory.ledger import Ledger
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.packed import Identities, number
from engine.partitions.rows import ChunkRow, Found, Vectors
from engine.partitions.store import IndexMode, PartitionStore
from engine.partitions.table import Follower
from tests.helpers.chunk_rows import DIMENSIONS, IDENTITY, chunk_row

ORIGIN = Origin(IDENTITY, "table-1", DIMENSIONS)
PLENTY = 2**40


class FakeTable:
    """Rows in a dictionary, with the promises of `ChunkTable`: what is written is there, then followers hear of it."""

    table_id = ORIGIN.table_id

    def __init__(self) -> None:
        self.rows: dict[str, ChunkRow] = {}
        self.version = 1
        self.followers: list[Follower] = []
        self.asked_for: list[Collection[int] | None] = []
        self.num_readings = 0
        self.has_vector_index = False

    def put_documents(self, documents: Mapping[int, Sequence[ChunkRow]]) -> None:
        self.rows = {id_: row for id_, row in self.rows.items() if row.document_id not in documents}
        self.rows |= {row.row_id: row for rows in documents.values() for row in rows}
        self.version += 1
        for follower in self.followers:
            follower.put(documents)

    def delete_documents(self, document_ids: Collection[int]) -> None:
        self.rows = {id_: row for id_, row in self.rows.items() if row.document_id not in document_ids}
        self.version += 1
        for follower in self.followers:
            follower.delete(document_ids)

    def optimize(self) -> None:
        self.version += 1
        for follower in self.followers:
            follower.optimized()

    def follow(self, follower: Follower) -> None:
        self.followers.append(follower)

    def identities(self) -> Iterator[Identities]:
        self.num_readings += 1
        rows = list(self.rows.values())
        for start in range(0, len(rows), 7):
            yield _identities(rows[start : start + 7])

    def vectors_of_shard(self, shard: int) -> Iterator[tuple[Identities, Vectors]]:
        rows = [row for row in self.rows.values() if row.shard == shard]
        for start in range(0, len(rows), 7):
            portion = rows[start : start + 7]
            yield _identities(portion), np.stack([row.vector for row in portion])

    def nearest(
        self,
        vectors: Vectors,
        limit: int,
        document_ids: Collection[int] | None = None,
        shards: Collection[int] | None = None,
        *,
        is_exact: bool = True,
    ) -> list[list[Found]]:
        self.asked_for.append(shards)
        return [exact(self.rows.values(), vector, limit, document_ids, shards) for vector in vectors]

    def index_vectors(self) -> None:
        self.has_vector_index = True

    def drop_vector_index(self) -> None:
        self.has_vector_index = False


def exact(
    rows: Collection[ChunkRow],
    vector: Vectors,
    limit: int,
    document_ids: Collection[int] | None = None,
    shards: Collection[int] | None = None,
) -> list[Found]:
    """What every search should find."""
    found = [
        Found(row.row_id, row.document_id, float(row.vector @ vector))
        for row in rows
        if (document_ids is None or row.document_id in document_ids) and (shards is None or row.shard in shards)
    ]
    return sorted(found, key=lambda row: (-row.score, row.row_id))[:limit]


def document(document_id: int, num_rows: int, shard: int, words: str = "row") -> dict[int, list[ChunkRow]]:
    """A document's rows, as they are put."""
    return {document_id: [replace(_row(document_id, ordinal, words), shard=shard) for ordinal in range(num_rows)]}


def filled_table(num_shards: int, documents_per_shard: int = 8, rows_per_document: int = 5) -> FakeTable:
    """Shards 0 … num_shards − 1; the last one is open."""
    table = FakeTable()
    for place in range(num_shards * documents_per_shard):
        table.put_documents(document(place + 1, rows_per_document, place // documents_per_shard))
    return table


def open_store(
    table: FakeTable,
    folder: Path,
    ledger: Ledger | None = None,
    budget_bytes: int = PLENTY,
    mode: IndexMode = "resident",
    origin: Origin = ORIGIN,
) -> PartitionStore:
    """A store without its thread: files are written when the test says `maintain`."""
    table.followers.clear()
    return PartitionStore(table, folder, origin, NumpyKernel(), quantize, ledger or Ledger(), budget_bytes, mode)


def queries(count: int, seed: int = 0) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSIONS)).astype(np.float32)
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def assert_finds_what_the_table_has(
    store: PartitionStore, table: FakeTable, limit: int = 10, document_ids: Collection[int] | None = None
) -> None:
    """Scores are those of rows rounded to float16, so neighbours that are as good as equal may change places."""
    vectors = queries(5, seed=len(table.rows))
    for vector, found in zip(vectors, store.search(vectors, limit, document_ids), strict=True):
        wanted = exact(table.rows.values(), vector, limit, document_ids)
        rows = [table.rows[row.row_id] for row in found]
        assert [row.score for row in found] == pytest.approx([row.score for row in wanted], abs=1e-3)
        assert [row.score for row in found] == pytest.approx([float(row.vector @ vector) for row in rows], abs=1e-3)
        assert [row.document_id for row in found] == [row.document_id for row in rows]
        assert len({row.row_id for row in found}) == len(found)


@cache
def _row(document_id: int, ordinal: int, words: str) -> ChunkRow:
    row = chunk_row(document_id, ordinal, f"{words} {document_id} number{ordinal}")
    return replace(row, row_id=row_id(document_id, ordinal))


def _identities(rows: Sequence[ChunkRow]) -> Identities:
    return Identities(
        np.array([number(row.row_id) for row in rows], np.uint64),
        np.array([row.document_id for row in rows], np.int64),
        np.array([row.shard for row in rows], np.int32),
        np.array([number(row.content_key) for row in rows], np.uint64),
    )
