"""The cross-encoder, for those who have one: reads question and passage together and scores how well they fit.

Better than any comparison of vectors, and slower by far, so it only reorders the best. Nothing is ever downloaded:
the settings name a folder, or a model that lies in Hugging Face's cache already.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.embedder import backends, spec
from engine.errors import EmbedderUnavailable
from engine.memory.garbage import settle
from engine.memory.heap import trim_heap
from engine.memory.ledger import Growth, Lease, Ledger

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_BATCH_SIZE = 8
_WAY_OUT = "Choose another one in the settings, or none."


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

    def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the question; higher is better, compares within one call.

        After `close` all are alike: a search that began before ends without it.

        Raises:
            EmbedderUnavailable: The model is not on this machine, or cannot be loaded.
        """
        if not texts:
            return []
        model = self._loaded()
        if model is None:
            return [0.0] * len(texts)
        pairs = [(question, text) for text in texts]
        # Its tokenizer serves one thread at a time; the embedder may have left this one a single core.
        with self._scoring:
            backends.set_threads(backends.default_threads())
            scores = model.predict(pairs, batch_size=_BATCH_SIZE, show_progress_bar=False, convert_to_numpy=True)
        # A model with several labels has the one that says "fits" last.
        return [float(score) for score in (scores if scores.ndim == 1 else scores[:, -1])]

    def close(self) -> None:
        """Gives the memory back for good. A second call does nothing."""
        with self._loading:
            self._model, self._is_closed = None, True
            if self._lease is not None:
                self._lease.release()
                self._beside.release()
                settle()
                trim_heap()
            self._lease = None

    def _loaded(self) -> CrossEncoder | None:
        with self._loading:
            if self._model is None and not self._is_closed:
                with (
                    self._ledger.growing("runtime", "torch and transformers"),
                    suppress(ImportError, OSError),  # told of below
                ):
                    backends.load_whole_libraries()
                try:
                    with self._ledger.growing("reranker", f"{self.name}, tokenizer and buffers") as self._beside:
                        self._model = _load(self.name)
                        self._lease = self._ledger.take("reranker", self.name, "ram", _num_bytes(self._model))
                except BaseException:
                    self._beside.release()
                    raise
                settle()
            return self._model


def _num_bytes(model: CrossEncoder) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


def _load(name: str) -> CrossEncoder:
    folder = spec.local_folder(name)
    try:
        from sentence_transformers import CrossEncoder

        model: CrossEncoder = CrossEncoder(str(folder), device="cpu", local_files_only=True)
        # In whichever format its weights were saved: few processors compute well in others.
        model.float()
    except Exception as error:  # the edge to libraries that raise what they like of a broken file
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise EmbedderUnavailable(f"The reranker {name!r} cannot be loaded: {first_line}", _WAY_OUT) from error
    return model
