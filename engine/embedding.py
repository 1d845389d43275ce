"""Vectors for texts that callers supply: made as those of documents are, on a thread that no other work waits for.

They give way to questions as indexing does, which means pauses of seconds; on a thread of searches, or among
those that requests share, other work would pause with them.
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
    """What is known of a model before anything is embedded."""

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
    """One thread, which starts with the first texts and serves requests in order. From any thread."""

    def __init__(self, open_stores: Callable[[], Stores]) -> None:
        self._open_stores = open_stores
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedding")

    def embed(self, texts: Sequence[str]) -> Future[Embedded]:
        """Returns a future of the vectors of texts of any length; if it is cancelled in time, they are not computed.

        The future raises EmbedderUnavailable where the model cannot be loaded.

        Raises:
            RagdollError: The engine is closing.
        """
        try:
            return self._thread.submit(self._embedded, tuple(texts))
        except RuntimeError as error:  # shut down
            raise RagdollError("Ragdoll is closing.") from error

    def stop(self) -> None:
        """Ends the thread after the current texts; waiting ones are cancelled. A second call does nothing."""
        self._thread.shutdown(cancel_futures=True)

    def _embedded(self, texts: Sequence[str]) -> Embedded:
        # Kept until the end: what is no longer used is closed after a move to another model.
        stores = self._open_stores()
        vectors = stores.embedder.embed_whole(texts)
        embedder = stores.embedder
        return Embedded(vectors, sum(embedder.lengths(texts)), embedder.spec.name, embedder.identity)
