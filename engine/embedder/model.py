"""The embedder at work: loaded once, run in the way that the self-test found fastest, shared by all who ask.

Loading takes seconds and freezes whoever imports torch, so it happens on a worker thread, once. Afterwards
batches of documents and of questions share the model through a turnstile, several at once where that is faster.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from engine.closing import close_all
from engine.config import EmbedderSettings
from engine.embedder import backends, trial
from engine.embedder.backends import BackendRefused, Model, Place, Vectors
from engine.embedder.setup import Setup, batches
from engine.embedder.spec import EmbedderSpec
from engine.embedder.turnstile import Turnstile
from engine.embedder.workers import at_once
from engine.errors import EmbedderUnavailable
from engine.memory.devices import torch_held_bytes
from engine.memory.garbage import settle
from engine.memory.heap import trim_heap
from engine.memory.ledger import Growth, Lease, Ledger

log = logging.getLogger(__name__)

BATCHES = "batches being computed"
# Questions of a search, whose vectors their passages are read with: a hundred kilobytes.
_REMEMBERED = 64
AroundLoading = Callable[[], AbstractContextManager[None]]


class Embedder:
    """Text → unit vectors of `spec.dimensions`. Usable from any thread; loads itself at the first text."""

    def __init__(
        self,
        spec: EmbedderSpec,
        settings: EmbedderSettings,
        ledger: Ledger,
        around_loading: AroundLoading = nullcontext,
        cache: Path | None = None,
    ) -> None:
        """Prepares it.

        Args:
            spec: Which model.
            settings: How it is to be run, where the user has said so.
            ledger: Is told of the weights.
            around_loading: Makes a context for the seconds that loading takes, so that they can be told of.
            cache: The folder that keeps what the self-test found; None keeps nothing.
        """
        self.spec = spec
        self._around_loading, self._cache = around_loading, cache
        self._settings = settings
        self._ledger = ledger
        # The same weights as often as batches are embedded at once; none before they are loaded.
        self._models: tuple[Model, ...] = ()
        self._setup = Setup()
        self._leases: list[Lease] = []
        # What it takes besides its weights.
        self._beside = Growth()
        self._place: Place = "memory"
        self._is_refused = False
        self._questions: Mapping[str, Vectors] = {}
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
        return bool(self._models)

    @property
    def setup(self) -> Setup | None:
        """How it is run; None before it is loaded."""
        return self._setup if self._models else None

    @property
    def description(self) -> str:
        """How it is run, in words for people; "" before it is loaded."""
        models = self._models
        if not models:
            return ""
        return " ".join([self._setup.describe(models[0].max_tokens) + ".", *self._setup.refusals]).removesuffix(".")

    @property
    def weights_name(self) -> str:
        """What the ledger calls its weights."""
        return f"{self.spec.name}, {self._setup.number_format}"

    @property
    def place(self) -> Place:
        return self._place

    @property
    def movable_bytes(self) -> int:
        """What of it a graphics card can take; 0 where there is none, it refused, or the model is not loaded."""
        models, setup = self._models, self._setup
        if not models or self._is_refused or setup.backend != "sentence-transformers" or not backends.has_card():
            return 0
        return models[0].num_bytes + len(models) * setup.batch_bytes

    def load(self) -> None:
        """Imports torch, reads the weights, chooses how to run them. Seconds; a second call returns at once.

        Raises:
            EmbedderUnavailable: The files cannot be loaded, or memory is short.
        """
        with self._loading:
            if self._models:
                return
            with self._around_loading():
                with self._ledger.growing("runtime", "the embedder's libraries"):
                    backends.load_libraries(self.spec)
                try:
                    with self._ledger.growing("embedder", f"{self.spec.name}, tokenizers and buffers") as self._beside:
                        models = self._chosen()
                except BaseException:
                    self._beside.release()
                    raise
            self._turnstile.num_places = len(models)
            self._models = models
            settle()

    def _chosen(self) -> tuple[Model, ...]:
        """How it is run from now on, and the model as often as that takes; the weights are in the ledger."""
        chosen = trial.choose(backends.load(self.spec), self.identity, self._settings, self._cache)
        models = chosen.model.for_workers(chosen.setup.num_workers)
        self._setup = chosen.setup
        self._enter(chosen.model)
        return models

    def move(self, to: Place) -> None:
        """Has it computed there from the next batch on; waits for the batches that are being computed.

        Where a card refuses it, it stays in memory, and nobody tries again.
        """
        with self._loading, self._turnstile.keep_out():
            if not self._models or to == self._place:
                return
            try:
                for model in self._models:
                    model.move(to)
            except BackendRefused as error:
                log.warning("the graphics card does not take the embedding model: %s", error)
                self._is_refused = True
                for model in self._models:
                    model.move("memory")
                return
            self._place = to
            self._leave()
            self._enter(self._models[0])

    def _enter(self, model: Model) -> None:
        """Has the ledger know the weights, wherever they are, and batches while they are here."""
        what, inside, batch_bytes = self.weights_name, self._turnstile, self._setup.batch_bytes
        if self._place == "card":
            self._leases.append(self._ledger.measure("embedder", what, "gpu", torch_held_bytes))
            return
        mapped_bytes = model.mapped_bytes
        in_memory = model.num_bytes - mapped_bytes
        if in_memory:
            self._leases.append(self._ledger.take("embedder", what, "ram", in_memory))
        if mapped_bytes:
            self._leases.append(self._ledger.take("embedder", what, "ram", mapped_bytes, is_mapped=True))
        if batch_bytes:
            self._leases.append(
                self._ledger.measure("embedder", BATCHES, "ram", lambda: inside.num_inside * batch_bytes)
            )

    def unload(self) -> None:
        """Gives the memory back; the next text loads the model again."""
        with self._loading, self._turnstile.keep_out():
            self._models, self._place = (), "memory"
            if self._leases:
                self._leave()
                close_all(self._beside.release, settle, trim_heap)

    def _leave(self) -> None:
        leases, self._leases = self._leases, []
        close_all(*(lease.release for lease in leases))

    def embed_documents(self, texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        """Vectors (n, d) of passages, in the order of `texts`.

        `is_urgent` is for sentences that a waiting question needs; otherwise questions go first.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        return self._embed(texts, is_question=False, is_urgent=is_urgent)

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Vectors (n, d) of questions, in the order of `texts`; goes before any waiting documents.

        The latest are remembered: what was searched for is read for right afterwards.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        known = self._questions
        if missing := [text for text in dict.fromkeys(texts) if text not in known]:
            fresh = self._embed(missing, is_question=True, is_urgent=True)
            # Copies, because a row of a batch would keep the whole batch alive.
            known = {**known, **{text: vector.copy() for text, vector in zip(missing, fresh, strict=True)}}
            # Replaced whole, because others may be reading it.
            self._questions = dict(list(known.items())[-_REMEMBERED:])
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, self.dimensions), np.float32)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Of each text, in tokens; a guess before the model is loaded. Texts of like length are embedded fastest."""
        models = self._models
        return models[0].lengths(texts) if models else backends.guessed_lengths(texts)

    def _embed(self, texts: Sequence[str], *, is_question: bool, is_urgent: bool) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        if not texts:
            return vectors
        self.load()

        def encode(batch: list[int]) -> None:
            vectors[batch] = self._encode([texts[index] for index in batch], is_question, is_urgent)

        at_once(self._setup.num_workers, encode, self._batches(texts))
        return vectors

    def _batches(self, texts: Sequence[str]) -> list[list[int]]:
        models = self._models
        max_tokens = models[0].max_tokens if models else self._setup.batch_tokens
        return batches(self.lengths(texts), self._setup, max_tokens)

    def _encode(self, texts: list[str], is_question: bool, is_urgent: bool) -> Vectors:
        self.load()
        with self._turnstile.pass_through(is_urgent=is_urgent) as place:
            models = self._models
            if place >= len(models):  # unloaded between load() and the turnstile
                raise EmbedderUnavailable("The embedding model was unloaded meanwhile.", "Please try again.")
            backends.set_threads(self._setup.num_threads)
            return models[place].encode(texts, is_question=is_question)
