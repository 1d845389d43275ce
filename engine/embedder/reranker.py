"""The cross-encoder, for those who have one: reads question and passage together and scores how well they fit.

It is better than comparing vectors, but much slower, so it only reorders the best passages. Nothing is downloaded here:
the settings name a folder, which getting_rerankers.py may have filled, or a model in Hugging Face's cache.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.config import MIB
from engine.embedder import backends
from engine.embedder.backends import num_bytes_of
from engine.embedder.reranker_spec import RerankerSpec, resolve
from engine.errors import EmbedderUnavailable
from engine.memory.garbage import settle
from engine.memory.heap import trim_heap
from engine.memory.ledger import Growth, Lease, Ledger

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_BATCH_SIZE = 8
_LIBRARY = "sentence_transformers"
# The memory of the libraries if they are not loaded yet; and of the tokenizer and a running batch.
_LIBRARIES_BYTES, _BESIDE_BYTES = 256 * MIB, 96 * MIB
_WAY_OUT = "Choose another one in the settings, or none."


def wanted_bytes(spec: RerankerSpec) -> int:
    """Estimates the main memory that loading it takes."""
    libraries = 0 if _LIBRARY in sys.modules else _LIBRARIES_BYTES
    return spec.num_bytes + _BESIDE_BYTES + libraries


class CrossEncoderReranker:
    """A model by its name or folder. Loads itself at the first question; used by threads that search."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self._ledger = ledger
        self._model: CrossEncoder | None = None
        self._lease: Lease | None = None
        # Its memory besides the weights.
        self._beside = Growth()
        self._loading, self._scoring = threading.Lock(), threading.Lock()
        self._is_closed = False

    @property
    def is_loaded(self) -> bool:
        return self._model is not None

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Scores how well each text answers the question; higher is better, comparable within one call only.

        After `close` all scores are 0, so that a search in progress finishes without it.

        Raises:
            EmbedderUnavailable: The model is not on this machine, cannot be loaded, or fails on these texts.
        """
        if not texts:
            return []
        model = self._loaded()
        if model is None:
            return [0.0] * len(texts)
        # Its tokenizer is not thread-safe; the embedder may have limited this thread to a single core.
        with self._scoring:
            backends.set_threads(backends.default_threads())
            return _scores(model, self.name, question, texts)

    def load(self) -> None:
        """Reads the weights; a second call returns at once. Raises EmbedderUnavailable."""
        self._loaded()

    def unload(self) -> None:
        """Releases the memory; the next question loads it again."""
        with self._loading:
            self._let_go()

    def close(self) -> None:
        """Releases the memory, and prevents loading. A second call does nothing.

        Does not wait for a load in progress: the loading thread releases the memory itself.
        """
        self._is_closed = True
        # A thread that holds the lock checks the flag after releasing it.
        if self._loading.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._loading.release()

    def _let_go(self) -> None:
        self._model = None
        if self._lease is not None:
            self._lease.release()
            self._beside.release()
            settle()
            trim_heap()
        self._lease = None

    def _loaded(self) -> CrossEncoder | None:
        with self._loading:
            if self._model is None and not self._is_closed:
                spec = resolve(self.name)
                with (
                    self._ledger.growing("runtime", "torch and transformers"),
                    suppress(ImportError, OSError),  # reported below
                ):
                    backends.load_whole_libraries()
                try:
                    with self._ledger.growing("reranker", f"{spec.name}, tokenizer and buffers") as self._beside:
                        self._model = _load(spec)
                        self._lease = self._ledger.take("reranker", spec.name, "ram", num_bytes_of(self._model))
                except BaseException:
                    self._beside.release()
                    raise
                settle()
            model = self._model
        if self._is_closed:
            self.close()
            return None
        return model


def check(spec: RerankerSpec) -> None:
    """Loads it and scores a pair of texts once, to check that it works.

    Raises:
        EmbedderUnavailable: It cannot be loaded, or its scores are not finite.
    """
    backends.load_whole_libraries()
    scores = _scores(_load(spec), spec.name, "Who pays for repairs?", ["The landlord pays for repairs.", "A recipe."])
    if not all(map(math.isfinite, scores)):
        raise EmbedderUnavailable("what it says of two texts is no number.", "")


def _scores(model: CrossEncoder, name: str, question: str, texts: Sequence[str]) -> list[float]:
    pairs = [(question, text) for text in texts]
    try:
        scores = model.predict(pairs, batch_size=_BATCH_SIZE, show_progress_bar=False, convert_to_numpy=True)
    except Exception as error:  # the edge to libraries, which may raise anything for an inconsistent model
        reason = backends.first_line(error)
        raise EmbedderUnavailable(f"The reranker {name!r} cannot be used: {reason}", _WAY_OUT) from error
    # In a model with several labels, the last one means "fits".
    return [float(score) for score in (scores if scores.ndim == 1 else scores[:, -1])]


def _load(spec: RerankerSpec) -> CrossEncoder:
    try:
        from sentence_transformers import CrossEncoder
        from tqdm import tqdm  # type: ignore[import-untyped]

        # Even a progress bar that is never shown starts a monitor thread.
        tqdm.monitor_interval = 0
        model: CrossEncoder = CrossEncoder(str(spec.folder), device="cpu", local_files_only=True)
        # Other formats in which weights may be saved are slow on most processors.
        model.float()
    except Exception as error:  # the edge to libraries, which may raise anything for a broken file
        reason = backends.first_line(error)
        raise EmbedderUnavailable(f"The reranker {spec.name!r} cannot be loaded: {reason}", _WAY_OUT) from error
    return model
