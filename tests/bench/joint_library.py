"""A library whose index exceeds its memory budget: real documents, and many synthetic vectors beside them.

The vectors are seeded and clustered (vectors.py); they lie in the application's own table, spread over the real
documents. They are rarely found: the questions are about the documents, and lie near them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.catalog import Catalog, VectorTable
from engine.config import Home, MemorySettings
from engine.engine import Engine
from engine.library.rows import CHUNKS_PER_SHARD
from engine.memory.ledger import Ledger
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.opening import TABLE
from engine.partitions.schema import chunk_schema
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from tests.bench import vectors
from tests.bench.vectors import Vectors

# Beyond all numbers that real documents will ever have.
_FIRST_SHARD, _FIRST_ROW = 1_000, 2**62
_TEXT = "A passage of the bench."
_DONE = "synthetic vectors are in"


def joint_library(folder: Path, files: Sequence[Path], num_vectors: int) -> int:
    """Creates an engine's folders in `folder` with these documents and `num_vectors` more, at the first call.

    Returns:
        The bytes that the whole index takes in memory.
    """
    home = Home.under(folder)
    done = folder / _DONE
    if not done.exists():
        with Engine(home) as engine:
            engine.add(files)
            documents, _ = engine.documents(states=("indexed",))
        table = _active_table(home)
        # One more than fill whole shards: all vectors of the newest shard are in memory, whatever the budget.
        _add_vectors(home, table, np.array([document.document_id for document in documents]), num_vectors + 1)
        done.write_text(str(_write_shards(home, table)), encoding="utf-8")
    return int(done.read_text(encoding="utf-8"))


def _active_table(home: Home) -> VectorTable:
    catalog = Catalog.open(home.library)
    try:
        active = catalog.active_table()
    finally:
        catalog.close()
    assert active is not None
    return active


def _add_vectors(home: Home, active: VectorTable, documents: np.ndarray, num_vectors: int) -> None:
    import lancedb

    table = lancedb.connect(home.library / active.folder).open_table(TABLE)
    schema = chunk_schema(active.dimensions, active.identity)
    blocks = vectors.blocks(num_vectors, active.dimensions)
    table.add(pa.RecordBatchReader.from_batches(schema, batches(blocks, documents, schema)))


def batches(blocks: Iterator[Vectors], documents: np.ndarray, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields rows of the table for each block of vectors, assigned to the documents in turn."""
    start = 0
    for block in blocks:
        numbers = np.arange(start, start + len(block))
        names = [f"{_FIRST_ROW + number:016x}" for number in numbers.tolist()]
        zeros, empty = np.zeros(len(block), np.int64), [""] * len(block)
        columns: dict[str, Any] = {
            "row_id": names,
            "document_id": documents[numbers % len(documents)],
            "content_key": names,
            "shard": (_FIRST_SHARD + numbers // CHUNKS_PER_SHARD).astype(np.int32),
            "page": pa.nulls(len(block), pa.int32()),
            "ordinal": (_FIRST_SHARD + numbers // len(documents)).astype(np.int32),
            "start": zeros,
            "end": zeros,
            "text": [_TEXT] * len(block),
            "text_ngram": pa.nulls(len(block), pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), block.shape[1]),
        }
        yield pa.RecordBatch.from_arrays(
            [pa.array(columns.get(field.name, empty), field.type) for field in schema], schema=schema
        )
        start += len(block)


def _write_shards(home: Home, active: VectorTable) -> int:
    """Writes the partitions as the application does for a table without files; returns their bytes in memory."""
    ledger = Ledger()
    folder = home.library / active.folder
    table = ChunkTable.open(folder, active.dimensions, active.identity, MemorySettings(), ledger)
    try:
        origin = Origin(active.identity, table.table_id, active.dimensions)
        shards = home.library / "shards"
        store = PartitionStore(table, shards, origin, NumpyKernel(), quantize, ledger, budget_bytes=0)
        try:
            table.optimize()
            store.maintain()
            return sum(store.partition_bytes)
        finally:
            store.close()
    finally:
        table.close()
