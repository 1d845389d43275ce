"""Vectors for whoever brings texts of their own: made as documents' are, on a thread that nobody else waits for.

They give way to questions as indexing does, so one who gives way rests for seconds; on a thread of searches, or among
those that requests share, others would rest with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import RagdollError
from engine.stores import Stores


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """What there is to know of one before anything is embedded."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """Unit vectors (n, d) of texts, how many tokens those are in all, and by which model.

    Vectors of one `model_identity` may be compared.
    """

    vectors: NDArray[np.float32]
    num_tokens: int
    model: str
    model_identity: str


class Embedding:
    """One thread, which begins with the first texts; who asks first has them first. From any thread."""

    def __init__(self, open_stores: Callable[[], Stores]) -> None:
        self._open_stores = open_stores
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedding")

    def embed(self, texts: Sequence[str]) -> Future[Embedded]:
        """Vectors of texts of any length, to be had later; cancelled before it is their turn, they are not made.

        The future raises EmbedderUnavailable where the model cannot be loaded.

        Raises:
            RagdollError: The engine is closing.
        """
        try:
            return self._thread.submit(self._embedded, tuple(texts))
        except RuntimeError as error:  # shut down
            raise RagdollError("Ragdoll is closing.") from error

    def stop(self) -> None:
        """Ends the thread after the texts that it is at; those that wait are cancelled. A second call does nothing."""
        self._thread.shutdown(cancel_futures=True)

    def _embedded(self, texts: Sequence[str]) -> Embedded:
        # Kept until the end: what nobody uses any more is closed after a move to another model.
        stores = self._open_stores()
        vectors = stores.embedder.embed_whole(texts)
        embedder = stores.embedder
        return Embedded(vectors, sum(embedder.lengths(texts)), embedder.spec.name, embedder.identity)
