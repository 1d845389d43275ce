"""Stores of a whole engine that are open in a moment: all is real but the embedding model, whose vectors are hashes.

For tests that ask by the hundred, or start engine processes again and again, and where meaning does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from engine import stores
from engine.embedder import EmbedderSpec
from engine.embedder.model import AroundLoading
from engine.memory.ledger import Lease, Ledger
from engine.partitions.rows import Vectors

WEIGHT_BYTES = 2**20


class QuickEmbedder:
    """What an engine asks of `engine.embedder.Embedder`; texts that share words have vectors that are close."""

    tokenizer_file = None
    place = "memory"
    movable_bytes = 0
    description = "by hash"
    weights_name = "hashes"

    def __init__(
        self,
        spec: EmbedderSpec,
        _: object,
        ledger: Ledger,
        around_loading: AroundLoading = nullcontext,
        *__: object,
        **___: object,
    ) -> None:
        self.spec, self.identity, self.dimensions = spec, spec.identity, spec.dimensions
        self.is_english_only = spec.is_english_only
        self._ledger, self._around_loading = ledger, around_loading
        self._lease: Lease | None = None
        self._words: dict[str, Vectors] = {}

    def load(self) -> None:
        if self._lease is None:
            with self._around_loading():
                self._lease = self._ledger.take("embedder", self.weights_name, "ram", WEIGHT_BYTES)

    def unload(self) -> None:
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(text) // 4 for text in texts]

    def embed_documents(self, texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        return self._embed(texts)

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> Vectors:
        self.load()
        vectors = [self._vector(text) for text in texts]
        return np.stack(vectors) if vectors else np.zeros((0, self.dimensions), np.float32)

    def _vector(self, text: str) -> Vectors:
        total = sum((self._of_word(word) for word in text.casefold().split()), np.full(self.dimensions, 1e-3))
        unit: Vectors = (total / np.linalg.norm(total)).astype(np.float32)
        return unit

    def _of_word(self, word: str) -> Vectors:
        if word not in self._words:
            seed = int.from_bytes(hashlib.blake2b(word.strip(".,?!").encode(), digest_size=4).digest())
            self._words[word] = np.random.default_rng(seed).standard_normal(self.dimensions).astype(np.float32)
        return self._words[word]


def use_quick_stores(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Engines that are opened from now on have them; `set_attribute` is `setattr`, or a monkeypatch's."""
    set_attribute(stores, "Embedder", QuickEmbedder)
