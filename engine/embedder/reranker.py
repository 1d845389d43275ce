"""The cross-encoder, for those who have one: reads question and passage together and scores how well they fit.

Better than any comparison of vectors, and slower by far, so it only reorders the best. Nothing is downloaded here: the
settings name a folder, which getting_rerankers.py may have filled, or a model that lies in Hugging Face's cache.
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
# What the libraries bring where they are not there yet, as for an embedding model; and the tokenizer, with what a batch
# takes while it is computed.
_LIBRARIES_BYTES, _BESIDE_BYTES = 256 * MIB, 96 * MIB
_WAY_OUT = "Choose another one in the settings, or none."


def wanted_bytes(spec: RerankerSpec) -> int:
    """What loading it takes of main memory, about."""
    libraries = 0 if _LIBRARY in sys.modules else _LIBRARIES_BYTES
    return spec.num_bytes + _BESIDE_BYTES + libraries


class CrossEncoderReranker:
    """A model by its name or folder. Loads itself at the first question; used by those who search."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self._ledger = ledger
        self._model: CrossEncoder | None = None
        self._lease: Lease | None = None
        # What it takes besides its weights.
        self._beside = Growth()
        self._loading, self._scoring = threading.Lock(), threading.Lock()
        self._is_closed = False

    @property
    def is_loaded(self) -> bool:
        return self._model is not None

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the question; higher is better, compares within one call.

        After `close` all are alike: a search that began before ends without it.

        Raises:
            EmbedderUnavailable: The model is not on this machine, cannot be loaded, or does not read these.
        """
        if not texts:
            return []
        model = self._loaded()
        if model is None:
            return [0.0] * len(texts)
        # Its tokenizer serves one thread at a time; the embedder may have left this one a single core.
        with self._scoring:
            backends.set_threads(backends.default_threads())
            return _scores(model, self.name, question, texts)

    def load(self) -> None:
        """Reads the weights; a second call returns at once. Raises EmbedderUnavailable."""
        self._loaded()

    def unload(self) -> None:
        """Gives the memory back; the next question loads it again."""
        with self._loading:
            self._let_go()

    def close(self) -> None:
        """Gives the memory back for good. A second call does nothing.

        Waits for no load: where it is just being loaded, whoever loads it gives it back.
        """
        self._is_closed = True
        # Whoever has the lock looks at this once it is free again.
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
                    suppress(ImportError, OSError),  # told of below
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
    """Loads it and has it read a pair, once, in whichever process this is.

    Raises:
        EmbedderUnavailable: It cannot be loaded, or its figures say nothing.
    """
    backends.load_whole_libraries()
    scores = _scores(_load(spec), spec.name, "Who pays for repairs?", ["The landlord pays for repairs.", "A recipe."])
    if not all(map(math.isfinite, scores)):
        raise EmbedderUnavailable("what it says of two texts is no number.", "")


def _scores(model: CrossEncoder, name: str, question: str, texts: Sequence[str]) -> list[float]:
    pairs = [(question, text) for text in texts]
    try:
        scores = model.predict(pairs, batch_size=_BATCH_SIZE, show_progress_bar=False, convert_to_numpy=True)
    except Exception as error:  # the edge to libraries that raise what they like of a model that contradicts itself
        reason = backends.first_line(error)
        raise EmbedderUnavailable(f"The reranker {name!r} cannot be used: {reason}", _WAY_OUT) from error
    # A model with several labels has the one that says "fits" last.
    return [float(score) for score in (scores if scores.ndim == 1 else scores[:, -1])]


def _load(spec: RerankerSpec) -> CrossEncoder:
    try:
        from sentence_transformers import CrossEncoder
        from tqdm import tqdm  # type: ignore[import-untyped]

        # Even a bar that is never shown starts a thread to watch over it.
        tqdm.monitor_interval = 0
        model: CrossEncoder = CrossEncoder(str(spec.folder), device="cpu", local_files_only=True)
        # In whichever format its weights were saved: few processors compute well in others.
        model.float()
    except Exception as error:  # the edge to libraries that raise what they like of a broken file
        reason = backends.first_line(error)
        raise EmbedderUnavailable(f"The reranker {spec.name!r} cannot be loaded: {reason}", _WAY_OUT) from error
    return model
