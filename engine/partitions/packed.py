"""Packed rows: chunks as the columns a partition is made of, small enough to keep and ready to be scanned.

A row id has 16 hexadecimal characters, so it is stored as a number. A row's key is the first half of its `content_key`:
rows with the same key have equal vectors, so id and key together tell whether a row is still the one in LanceDB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.partitions.rows import ChunkRow, Vectors

Numbers = NDArray[np.uint64]
Documents = NDArray[np.int64]
Mask = NDArray[np.bool_]
# (n, d) unit vectors → (n, d) int8 rows and (n,) float32 scales, so that row × scale is about the vector.
Quantize = Callable[[Vectors], tuple[NDArray[np.int8], NDArray[np.float32]]]

HEX_CHARACTERS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """n rows of d numbers, column by column; all arrays have n entries. `exact` (float16) is for rescoring."""

    ids: Numbers
    documents: Documents
    keys: Numbers
    scales: NDArray[np.float32]
    rows: NDArray[np.int8]
    exact: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_bytes(self) -> int:
        return sum(getattr(self, column.name).nbytes for column in fields(self))

    def take(self, where: Any) -> Packed:
        """Returns the rows at `where`: a mask, a slice, or positions."""
        return Packed(*(getattr(self, column.name)[where] for column in fields(self)))

    def by_document(self) -> Packed:
        """Returns the same rows, sorted by document."""
        if np.all(self.documents[:-1] <= self.documents[1:]):
            return self
        return self.take(np.argsort(self.documents, kind="stable"))


@dataclass(frozen=True, slots=True, eq=False)
class Identities:
    """What identifies rows of the table: n entries each. `shards` are the shard numbers they were written with."""

    ids: Numbers
    documents: Documents
    shards: NDArray[np.int32]
    keys: Numbers

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, where: Any) -> Identities:
        return Identities(self.ids[where], self.documents[where], self.shards[where], self.keys[where])

    @classmethod
    def joined(cls, parts: Sequence[Identities]) -> Identities:
        """Concatenates one or more of them."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))


def empty(dimensions: int) -> Packed:
    return Packed(
        np.zeros(0, np.uint64),
        np.zeros(0, np.int64),
        np.zeros(0, np.uint64),
        np.zeros(0, np.float32),
        np.zeros((0, dimensions), np.int8),
        np.zeros((0, dimensions), np.float16),
    )


def packed(ids: Numbers, documents: Documents, keys: Numbers, vectors: Vectors, quantize: Quantize) -> Packed:
    """Packs rows with their (n, d) float32 vectors."""
    rows, scales = quantize(vectors)
    return Packed(ids, documents, keys, scales, rows, vectors.astype(np.float16))


def packed_chunks(chunks: Sequence[ChunkRow], quantize: Quantize) -> Packed:
    """Packs one or more chunks as they were written to the table."""
    return packed(
        np.array([number(chunk.row_id) for chunk in chunks], np.uint64),
        np.array([chunk.document_id for chunk in chunks], np.int64),
        np.array([number(chunk.content_key) for chunk in chunks], np.uint64),
        np.stack([chunk.vector for chunk in chunks]),
        quantize,
    )


def joined(parts: Sequence[Packed]) -> Packed:
    """Concatenates one or more of them."""
    if len(parts) == 1:
        return parts[0]
    return Packed(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(Packed)))


def number(name: str) -> int:
    """Converts the first 16 hex characters of a row id or content key to a number. Raises ValueError."""
    if len(name) < HEX_CHARACTERS:
        raise ValueError(f"{name!r} has fewer than {HEX_CHARACTERS} characters")
    return int(name[:HEX_CHARACTERS], 16)


def row_id(number: int) -> str:
    """Converts a number back to the row id."""
    return f"{number:0{HEX_CHARACTERS}x}"


def numbers(characters: NDArray[np.uint8]) -> Numbers:
    """Converts (n, 16) lower-case hexadecimal characters to n numbers."""
    digits = np.where(characters >= ord("a"), characters - (ord("a") - 10), characters - ord("0")).astype(np.uint64)
    spelled = np.zeros(len(characters), np.uint64)
    for place in range(HEX_CHARACTERS):
        spelled = (spelled << np.uint64(4)) | digits[:, place]
    return spelled
