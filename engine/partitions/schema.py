"""The schema of the table `chunks`, and the conversion between our rows and Arrow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from lancedb.index import FTS, BTree, IvfRq

from engine.partitions.packed import HEX_CHARACTERS, Identities, Numbers, numbers
from engine.partitions.rows import ChunkRow, Hit
from engine.partitions.searchable import searchable
from engine.partitions.stop_words import STOP_WORDS

# To be raised when older rows can no longer be read or searched in the same way. Layout 1 had no `place`. The metadata
# of a schema cannot be changed later, so a table that was migrated from it still says 1 and has the column.
LAYOUT, LAYOUT_WITHOUT_PLACE = b"2", b"1"
IDENTITY_KEY, LAYOUT_KEY, TABLE_KEY = b"ragdoll.embedder", b"ragdoll.layout", b"ragdoll.table"
PLACE_COLUMN = "place"
# Metadata of the column `indexed_text`: the form of its texts. Without it they are unmodified.
FORM_KEY, FORM, FORM_IN_PART = b"ragdoll.form", b"2", b"2 in part"
# The SQL value for rows of a table that had no such column.
NO_PLACE = "''"

HIT_COLUMNS = ["row_id", "document_id", "page", "ordinal", "start", "end", "heading", "text", PLACE_COLUMN]
IDENTITY_COLUMNS = ["row_id", "document_id", "shard", "content_key"]
TEXT_COLUMN, HANGUL_COLUMN, VECTOR_COLUMN = "indexed_text", "text_ngram", "vector"

_HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")

INDICES: Mapping[str, BTree | FTS] = {
    "row_id": BTree(),
    "document_id": BTree(),
    "shard": BTree(),
    "content_key": BTree(),
    # ICU finds word boundaries in Chinese, Japanese and Thai, where the default tokenizer finds none.
    TEXT_COLUMN: FTS(base_tokenizer="icu", language="English", custom_stop_words=sorted(STOP_WORDS)),
    # Korean attaches particles to words; pairs of syllables find the word inside.
    HANGUL_COLUMN: FTS(
        base_tokenizer="ngram", ngram_min_length=2, ngram_max_length=2, stem=False, remove_stop_words=False
    ),
}


# It takes a tenth of the size of the vectors; its results are scored again with the vectors themselves.
VECTOR_INDEX = IvfRq(distance_type="dot", num_bits=1)


def chunk_schema(dimensions: int, identity: str, table_id: str = "") -> pa.Schema:
    """Returns the schema of `chunks`; its metadata has the embedder's identity and a unique id of the table."""
    return pa.schema(
        [
            pa.field("row_id", pa.string(), nullable=False),
            pa.field("document_id", pa.int64(), nullable=False),
            pa.field("content_key", pa.string(), nullable=False),
            pa.field("shard", pa.int32(), nullable=False),
            pa.field("page", pa.int32()),
            pa.field("ordinal", pa.int32(), nullable=False),
            pa.field("start", pa.int64(), nullable=False),
            pa.field("end", pa.int64(), nullable=False),
            pa.field("heading", pa.string(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field(TEXT_COLUMN, pa.string(), nullable=False, metadata={FORM_KEY: FORM}),
            pa.field(HANGUL_COLUMN, pa.string()),
            pa.field(VECTOR_COLUMN, pa.list_(pa.float32(), dimensions), nullable=False),
            pa.field(PLACE_COLUMN, pa.string(), nullable=False),
        ],
        metadata={IDENTITY_KEY: identity.encode(), LAYOUT_KEY: LAYOUT, TABLE_KEY: table_id.encode()},
    )


def has_hangul(text: str) -> bool:
    return _HANGUL.search(text) is not None


def storable(text: str) -> str:
    """Replaces lone surrogates one for one: Arrow is UTF-8, and offsets must not change."""
    return text.encode("utf-8", "replace").decode()


def to_arrow(rows: Sequence[ChunkRow], schema: pa.Schema) -> pa.Table:
    columns: dict[str, Any] = {
        name: [getattr(row, name) for row in rows]
        for name in ("row_id", "document_id", "content_key", "shard", "page", "ordinal", "start", "end")
    }
    for name in ("heading", "text", PLACE_COLUMN):
        columns[name] = [storable(getattr(row, name)) for row in rows]
    columns |= _indexed([searchable(storable(row.indexed_text)) for row in rows])
    columns[VECTOR_COLUMN] = _vector_array(rows, schema.field(VECTOR_COLUMN).type)
    return pa.table(columns, schema=schema)


def indexed(ids: Sequence[str], texts: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Returns an update of the word columns for the rows with these ids."""
    columns = {"row_id": ids, **_indexed(texts)}
    return pa.table(columns, schema=pa.schema([schema.field(name) for name in columns]))


def _indexed(texts: Sequence[str]) -> dict[str, Sequence[str | None]]:
    return {TEXT_COLUMN: texts, HANGUL_COLUMN: [text if has_hangul(text) else None for text in texts]}


def _vector_array(rows: Sequence[ChunkRow], column: pa.DataType) -> pa.Array:
    if wrong := [row.row_id for row in rows if row.vector.shape != (column.list_size,)]:
        raise ValueError(f"row {wrong[0]} has no vector of {column.list_size} numbers")
    flat = np.concatenate([row.vector for row in rows]) if rows else np.zeros(0)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(np.float32)), type=column)


def to_rows(table: pa.Table) -> list[ChunkRow]:
    vectors = to_vectors(table)
    plain = table.drop_columns([VECTOR_COLUMN, HANGUL_COLUMN]).to_pylist()
    return [ChunkRow(**fields, vector=vector) for fields, vector in zip(plain, vectors, strict=True)]


def to_identities(batch: pa.RecordBatch) -> Identities:
    return Identities(
        ids=_numbers(batch.column("row_id")),
        documents=batch.column("document_id").to_numpy(),
        shards=batch.column("shard").to_numpy(),
        keys=_numbers(batch.column("content_key")),
    )


def _numbers(column: pa.StringArray) -> Numbers:
    """Converts the first 16 characters of each entry to numbers. Raises ValueError if one has fewer."""
    if not len(column):
        return np.zeros(0, np.uint64)
    starts = pc.utf8_slice_codeunits(column, 0, HEX_CHARACTERS)
    if pc.min(pc.binary_length(starts)).as_py() != HEX_CHARACTERS:
        raise ValueError(f"an id has fewer than {HEX_CHARACTERS} characters")
    first = starts.offset * HEX_CHARACTERS
    characters = np.frombuffer(starts.buffers()[2], np.uint8)[first : first + len(starts) * HEX_CHARACTERS]
    return numbers(characters.reshape(len(starts), HEX_CHARACTERS))


def to_vectors(table: pa.Table | pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Copies the vector column from Arrow's buffers, as (n, d)."""
    column = table.column(VECTOR_COLUMN)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.array(column.flatten(), dtype=np.float32).reshape(len(column), column.type.list_size)


def to_hits(table: pa.Table, scores: Sequence[float]) -> list[Hit]:
    """Converts rows to hits, best first; ties are ordered by row id, so that results are deterministic."""
    found = [
        Hit(**fields, score=score) for fields, score in zip(table.select(HIT_COLUMNS).to_pylist(), scores, strict=True)
    ]
    return sorted(found, key=lambda hit: (-hit.score, hit.row_id))
