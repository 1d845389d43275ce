"""Sentence vectors: what the reader has embedded is cached for a while, as questions return to the same passages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from engine.embedder import Embedder
from engine.memory.ledger import Ledger
from engine.partitions.rows import Vectors

MAX_SENTENCES = 8192
# The memory of a cached sentence besides its vector: the text as key, and the entry.
_ENTRY_BYTES = 600
_LEDGER_STEP_BYTES = 2**18
# The batch size for embedding ahead: larger batches gain nothing, and a user may be waiting.
_AT_ONCE = 16


class SentenceVectors:
    """The latest sentences and their vectors, for one model at a time. Used by the retrieval thread."""

    def __init__(self, ledger: Ledger, max_sentences: int = MAX_SENTENCES) -> None:
        self._max_sentences = max_sentences
        self._kept: OrderedDict[str, Vectors] = OrderedDict()
        self._identity = ""
        self._lease = ledger.take("retrieval", "vectors of sentences", "ram", 0)

    def of(self, embedder: Embedder, sentences: Sequence[str]) -> Vectors:
        """Returns vectors (n, d) of `sentences`, in order; only those that are not cached are embedded.

        Raises:
            EmbedderUnavailable: The embedding model cannot be loaded.
        """
        missing = self._missing(embedder, sentences)
        fresh = dict(zip(missing, embedder.embed_documents(missing, is_urgent=True), strict=True)) if missing else {}
        vectors = [fresh[sentence] if sentence in fresh else self._kept[sentence] for sentence in sentences]
        self._keep(dict(zip(sentences, vectors, strict=True)))
        return np.stack(vectors) if vectors else np.zeros((0, embedder.dimensions), dtype=np.float32)

    def embedded_ahead(self, embedder: Embedder, sentences: Sequence[str]) -> Iterator[None]:
        """Embeds sentences that are not cached; each yield is a place to let others go first. Raises as `of` does.

        Sentences of similar length are embedded together, because shorter ones are padded to the longest of a batch.
        """
        missing = self._missing(embedder, sentences)
        lengths = embedder.lengths(missing)
        by_length = sorted(range(len(missing)), key=lambda index: -lengths[index])
        for start in range(0, len(missing), _AT_ONCE):
            self.of(embedder, [missing[index] for index in by_length[start : start + _AT_ONCE]])
            yield

    def close(self) -> None:
        """Releases the memory. A second call does nothing."""
        self._kept.clear()
        self._lease.release()

    def _missing(self, embedder: Embedder, sentences: Sequence[str]) -> list[str]:
        """Returns the sentences to embed, each once; all of them if the model has changed."""
        if embedder.identity != self._identity:
            self._kept.clear()
            self._identity = embedder.identity
        return list(dict.fromkeys(sentence for sentence in sentences if sentence not in self._kept))

    def _keep(self, vectors: dict[str, Vectors]) -> None:
        for sentence, vector in vectors.items():
            # A copy, because a row of a batch would keep the whole batch alive.
            if sentence not in self._kept:
                self._kept[sentence] = vector.copy()
            self._kept.move_to_end(sentence)
        while len(self._kept) > self._max_sentences:
            self._kept.popitem(last=False)
        self._note()

    def _note(self) -> None:
        # All vectors have the same size, so the sum need not be computed for each question.
        each = next(iter(self._kept.values())).nbytes + _ENTRY_BYTES if self._kept else 0
        held = each * len(self._kept)
        if abs(held - self._lease.num_bytes) >= _LEDGER_STEP_BYTES:
            self._lease.resize(held)
