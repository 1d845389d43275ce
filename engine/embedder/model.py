"""The embedder at work: the one module that imports torch and sentence-transformers, and only when needed.

Loading takes seconds and freezes whoever imports torch, so it happens on a worker thread, once. Afterwards
batches of documents and of questions share the model through a turnstile.
"""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.config import EmbedderSettings
from engine.embedder.spec import EmbedderSpec
from engine.embedder.turnstile import Turnstile
from engine.errors import EmbedderUnavailable
from engine.memory.ledger import Lease, Ledger

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Vectors = NDArray[np.float32]
AroundLoading = Callable[[], AbstractContextManager[None]]

# What the start-up self-test embeds: two texts of a quarter of a chunk each.
_SAMPLE = ["the quick brown fox jumps over the lazy dog while seven wizards quietly judge my vow " * 4] * 2
_MIN_COSINE = 0.99


class Embedder:
    """Text → unit vectors of `spec.dimensions`. Usable from any thread; loads itself at the first text."""

    def __init__(
        self,
        spec: EmbedderSpec,
        settings: EmbedderSettings,
        ledger: Ledger,
        around_loading: AroundLoading = nullcontext,
    ) -> None:
        """`around_loading` makes a context for the seconds that loading takes, so that they can be told of."""
        self.spec = spec
        self._around_loading = around_loading
        self._settings = settings
        self._ledger = ledger
        self._model: SentenceTransformer | None = None
        self._lease: Lease | None = None
        self._loading = threading.Lock()
        self._turnstile = Turnstile()

    @property
    def identity(self) -> str:
        return self.spec.identity

    @property
    def dimensions(self) -> int:
        return self.spec.dimensions

    @property
    def tokenizer_file(self) -> Path | None:
        return self.spec.tokenizer_file

    @property
    def is_english_only(self) -> bool:
        return self.spec.is_english_only

    @property
    def is_loaded(self) -> bool:
        return self._model is not None

    def load(self) -> None:
        """Imports torch, reads the weights, chooses the number format. Seconds; a second call returns at once.

        Raises:
            EmbedderUnavailable: The files cannot be loaded, or memory is short.
        """
        with self._loading:
            if self._model is not None:
                return
            with self._around_loading():
                model = _faster_format(_load(self.spec, self._settings))
            self._lease = self._ledger.take("embedder", self._description(model), "ram", _num_bytes(model))
            self._model = model

    def unload(self) -> None:
        """Gives the memory back; the next text loads the model again."""
        with self._loading, self._turnstile.pass_through(is_urgent=True):
            self._model = None
            if self._lease is not None:
                self._lease.release()
            self._lease = None

    def embed_documents(self, texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        """Vectors (n, d) of passages, in the order of `texts`.

        `is_urgent` is for sentences that a waiting question needs; otherwise questions go first.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        return self._embed(texts, is_question=False, is_urgent=is_urgent)

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Vectors (n, d) of questions, in the order of `texts`; goes before any waiting documents.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        return self._embed(texts, is_question=True, is_urgent=True)

    def _embed(self, texts: Sequence[str], *, is_question: bool, is_urgent: bool) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        # Neighbours of equal length waste no padding: 36 % faster over 256 chunks and more.
        by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
        for start in range(0, len(by_length), self._settings.batch_size):
            batch = by_length[start : start + self._settings.batch_size]
            self.load()
            with self._turnstile.pass_through(is_urgent=is_urgent):
                vectors[batch] = self._encode([texts[index] for index in batch], is_question)
        return vectors

    def _encode(self, texts: list[str], is_question: bool) -> Vectors:
        model = self._model
        if model is None:  # unloaded between load() and the turnstile
            raise EmbedderUnavailable("The embedding model was unloaded meanwhile.", "Please try again.")
        return _encode(model, texts, is_question=is_question)

    def _description(self, model: SentenceTransformer) -> str:
        return f"{self.spec.name}, {str(model.dtype).removeprefix('torch.')}"


def _load(spec: EmbedderSpec, settings: EmbedderSettings) -> SentenceTransformer:
    # Read by huggingface_hub when it is imported: everything we load is on this machine.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import torch
        from sentence_transformers import SentenceTransformer
        from tqdm import tqdm  # type: ignore[import-untyped]
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        # Even a bar that is never shown starts a thread to watch over it.
        tqdm.monitor_interval = 0
        if settings.num_threads:
            torch.set_num_threads(settings.num_threads)
        model = SentenceTransformer(str(spec.folder), device="cpu", local_files_only=True)
    except (ImportError, OSError, ValueError, RuntimeError, MemoryError) as error:
        raise EmbedderUnavailable(
            f"The embedding model {spec.name!r} cannot be loaded: {_first_line(error)}",
            "Run ./packaging/bootstrap again, or choose another embedding model in the settings.",
        ) from error
    return model.eval()


def _faster_format(model: SentenceTransformer) -> SentenceTransformer:
    """The model in bfloat16 where this processor computes that faster and the vectors stay the same, else as it is."""
    import torch

    if not any(has for ability, has in torch.cpu.get_capabilities().items() if ability.endswith("bf16")):
        return model
    # An ability says nothing of speed: bfloat16 gained half on one processor and lost two thirds on another.
    half = copy.deepcopy(model).to(torch.bfloat16)
    for candidate in (model, half):
        _timed(candidate)  # the first call also prepares its kernels
    seconds, vectors = _timed(model)
    half_seconds, half_vectors = _timed(half)
    is_same = bool(np.all(np.sum(vectors * half_vectors, axis=1) >= _MIN_COSINE))
    return half if is_same and half_seconds < 0.9 * seconds else model


def _timed(model: SentenceTransformer) -> tuple[float, Vectors]:
    start = time.perf_counter()
    vectors = _encode(model, _SAMPLE, is_question=False)
    return time.perf_counter() - start, vectors


def _encode(model: SentenceTransformer, texts: list[str], *, is_question: bool) -> Vectors:
    encode = model.encode_query if is_question else model.encode_document
    vectors = np.asarray(
        encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True), dtype=np.float32
    )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(norms, np.finfo(np.float32).tiny)
    return unit


def _num_bytes(model: SentenceTransformer) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
