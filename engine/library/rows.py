"""Rows: what a document's chunks become in the table, and by which keys rows and vectors are known.

A row belongs to one document, so its id is made of the document's id and the chunk's position. A vector belongs to a
text, so its key is made of the text and of everything that shapes the vector: equal texts are embedded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from engine.core import ReadDocument
from engine.library.chunker import indexed_text
from engine.partitions.rows import ChunkRow, Vectors

# Raise this when texts must be embedded again although they are the same.
CHUNKER_VERSION = 1
CHUNKS_PER_SHARD = 50_000


def row_id(document_id: int, ordinal: int) -> str:
    """Returns the id of a row: 16 hex characters."""
    return _hash(f"{document_id}:{ordinal}", digest_size=8)


def content_key(text: str, embedder: str) -> str:
    """Returns the key of the vector of an indexed text: 32 hex characters."""
    return _hash(f"{CHUNKER_VERSION}\0{embedder}\0{text}", digest_size=16)


def content_keys(read: ReadDocument, embedder: str) -> tuple[str, ...]:
    """Returns a key for each chunk, in order; chunks of equal text have the same one."""
    return tuple(content_key(indexed_text(chunk), embedder) for chunk in read.chunks)


def texts_by_key(read: ReadDocument, keys: tuple[str, ...]) -> dict[str, str]:
    """Returns the text to embed for each key."""
    return {key: indexed_text(chunk) for key, chunk in zip(keys, read.chunks, strict=True)}


def rows(
    document_id: int, read: ReadDocument, keys: tuple[str, ...], vectors: Mapping[str, Vectors], shard: int
) -> list[ChunkRow]:
    """Returns all rows of a document; `vectors` has one for each of its keys."""
    return [
        ChunkRow(
            row_id=row_id(document_id, chunk.ordinal),
            document_id=document_id,
            content_key=key,
            shard=shard,
            page=chunk.page,
            ordinal=chunk.ordinal,
            start=chunk.start,
            end=chunk.end,
            heading=chunk.heading,
            text=chunk.text,
            indexed_text=indexed_text(chunk),
            vector=vectors[key],
            place=chunk.place,
        )
        for chunk, key in zip(read.chunks, keys, strict=True)
    ]


def _hash(text: str, digest_size: int) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=digest_size).hexdigest()
