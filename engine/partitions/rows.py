"""A chunk as it is stored, and as it is found again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ChunkRow:
    """A chunk with its vector; belongs to one document.

    `text` is shown and cited. `indexed_text` (such as heading and text) is for the word index; it is stored in its
    searchable form (searchable.py), and read back in that form.
    `content_key` identifies text, chunker and embedder: rows with the same key have equal vectors.
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
    """A chunk that one ranking found. `score` is BM25 or the cosine, comparable only within that ranking."""

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
    """A row that a search found, before its text is read; `score` is BM25 or the cosine."""

    row_id: str
    document_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """The cost of one search through the partitions, from which the cost model of retrieval learns.

    `num_loads` of `num_partitions` had to be read from the disk; `num_skipped` were left out as unlikely.
    `is_bounded`: the number of reads was limited.
    """

    num_loads: int
    num_queries: int
    num_partitions: int
    num_skipped: int
    seconds: float
    is_bounded: bool = False
