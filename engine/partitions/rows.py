"""A chunk as it is stored, and as it is found again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRow:
    """A chunk with its vector; belongs to one document.

    `text` is shown and cited, `indexed_text` (heading and text, say) is what the word index sees, stored as
    it is searched for (searchable.py), and read back like that.
    `content_key` stands for text, chunker and embedder: rows of one key have equal vectors.
    `vector` is unit length, float32, shape (d,).
    """

    row_id: str
    document_id: int
    content_key: str
    shard: int
    page: int | None
    ordinal: int
    start: int
    end: int
    heading: str
    text: str
    indexed_text: str
    vector: Vectors
    place: str = ""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that one ranking found. `score` compares within that ranking only: BM25, or the cosine."""

    row_id: str
    document_id: int
    page: int | None
    ordinal: int
    start: int
    end: int
    heading: str
    text: str
    score: float
    place: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A row that the vector search found, before anything else of it is read; `score` is the cosine."""

    row_id: str
    document_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one search through the partitions took: what the cost model of retrieval learns from.

    `num_loads` partitions had to be read first, of `num_partitions`; `num_skipped` were left out as unlikely.
    `is_bounded`: it might not read as many as it liked.
    """

    num_loads: int
    num_queries: int
    num_partitions: int
    num_skipped: int
    seconds: float
    is_bounded: bool = False
