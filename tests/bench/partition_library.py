"""A library of vectors only: LanceDB's table and the partitions beside it, as in the application.

Rows are added in bulk, because indexing is not what is measured. The store itself creates the partitions, as it does
when it finds a table without partition files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from engine.config import MemorySettings
from engine.library.rows import CHUNKS_PER_SHARD
from engine.memory.ledger import Ledger
from engine.partitions.kernels import NumpyKernel, quantize
from engine.partitions.layout import Origin
from engine.partitions.opening import TABLE
from engine.partitions.rows import Found
from engine.partitions.schema import chunk_schema
from engine.partitions.store import PartitionStore
from engine.partitions.table import ChunkTable
from tests.bench.vectors import Vectors

IDENTITY = "bench@1"
# The newest rows are always in memory; this many have arrived since the last full shard.
TAIL_ROWS = 1_000
_ROWS_PER_DOCUMENT = 50
_ROWS_AT_ONCE = 50_000


def write_table(folder: Path, vectors: Vectors) -> None:
    """Creates the application's table in `folder`; row `i` is named `i`."""
    import lancedb

    ledger, dimensions = Ledger(), vectors.shape[1]
    ChunkTable.open(folder, dimensions, IDENTITY, MemorySettings(), ledger).close()
    table = lancedb.connect(folder).open_table(TABLE)
    schema = chunk_schema(dimensions, IDENTITY)
    table.add(pa.RecordBatchReader.from_batches(schema, _batches(vectors, schema)))
    filled = ChunkTable.open(folder, dimensions, IDENTITY, MemorySettings(), ledger)
    filled.optimize()
    filled.close()


@contextmanager
def open_store(folder: Path, dimensions: int, ledger: Ledger) -> Iterator[PartitionStore]:
    """Yields the store over that table, with all partitions written and none resident."""
    table = ChunkTable.open(folder, dimensions, IDENTITY, MemorySettings(), ledger)
    origin = Origin(IDENTITY, table.table_id, dimensions)
    store = PartitionStore(table, folder / "shards", origin, NumpyKernel(), quantize, ledger, budget_bytes=0)
    try:
        store.maintain()
        yield store
    finally:
        store.close()
        table.close()


def row_numbers(found: list[list[Found]], limit: int) -> np.ndarray:
    """Returns the rows found as (q, limit), padded with −1."""
    lines = [[int(row.row_id, 16) for row in line] for line in found]
    return np.array([line + [-1] * (limit - len(line)) for line in lines], np.int64).reshape(len(found), limit)


def _batches(vectors: Vectors, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    sealed = max(0, len(vectors) - TAIL_ROWS)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        numbers = np.arange(start, min(start + _ROWS_AT_ONCE, len(vectors)))
        shards = np.where(numbers < sealed, numbers // CHUNKS_PER_SHARD, len(vectors) // CHUNKS_PER_SHARD + 1)
        names = [f"{number:016x}" for number in numbers.tolist()]
        zeros, empty = np.zeros(len(numbers), np.int64), [""] * len(numbers)
        columns: dict[str, Any] = {
            "row_id": names,
            "document_id": numbers // _ROWS_PER_DOCUMENT,
            "content_key": names,
            "shard": shards.astype(np.int32),
            "page": pa.nulls(len(numbers), pa.int32()),
            "ordinal": (numbers % _ROWS_PER_DOCUMENT).astype(np.int32),
            "start": zeros,
            "end": zeros,
            "text_ngram": pa.nulls(len(numbers), pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors[numbers].ravel()), vectors.shape[1]),
        }
        arrays = [pa.array(columns.get(field.name, empty), field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
