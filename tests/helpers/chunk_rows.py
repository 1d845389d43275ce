"""Chunks and an embedder for tests where meaning does not matter: a text's vector is a hash of its words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from engine.partitions.rows import ChunkRow, Hit, Vectors

DIMENSIONS = 16
IDENTITY = "hash@1"


class HashEmbedder:
    """Texts that share words get vectors that are close; same interface as the real one, no torch."""

    identity = IDENTITY
    dimensions = DIMENSIONS
    tokenizer_file = None

    def __init__(self, *, is_english_only: bool = True) -> None:
        self.is_english_only = is_english_only
        self.texts: list[str] = []

    def load(self) -> None:
        """Nothing to load."""

    def unload(self) -> None:
        """Nothing to unload."""

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def embed_documents(self, texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        return self._embed(texts)

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return np.stack([hashed(text) for text in texts]) if texts else np.zeros((0, DIMENSIONS), np.float32)


def hashed(text: str) -> Vectors:
    """A unit vector: the sum of one random direction per word."""
    total = np.full(DIMENSIONS, 1e-3, dtype=np.float32)
    for word in text.casefold().split():
        seed = int.from_bytes(hashlib.sha256(word.strip(".,?!").encode("utf-8", "surrogatepass")).digest()[:8], "big")
        total += np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    unit: Vectors = (total / np.linalg.norm(total)).astype(np.float32)
    return unit


def chunk_row(document_id: int, ordinal: int, text: str, *, page: int | None = None, start: int = 0) -> ChunkRow:
    return ChunkRow(
        row_id=f"{document_id}-{ordinal}",
        document_id=document_id,
        content_key=hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
        shard=0,
        page=page,
        ordinal=ordinal,
        start=start,
        end=start + len(text),
        heading="",
        text=text,
        indexed_text=text,
        vector=hashed(text),
    )


def hit(row_id: str, text: str, *, document_id: int = 1, start: int = 0, page: int | None = None) -> Hit:
    return Hit(row_id, document_id, page, 0, start, start + len(text), "", text, 1.0)
