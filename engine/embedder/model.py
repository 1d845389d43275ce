"""The embedder: light for questions, and run in the way that the self-test found fastest for many documents.

A plain BERT starts in numpy, which loads at once and needs little memory. Torch takes seconds and hundreds of megabytes
to load, so it is loaded once documents have taken about as long as loading takes, and if memory has room. Questions
stay with numpy, where they need not wait. Otherwise batches share the model through a turnstile, several at once if
that is faster.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import numpy as np

from engine.closing import close_all
from engine.config import MIB, EmbedderSettings
from engine.embedder import backends, trial
from engine.embedder.backends import BackendRefused, Model, Place, Vectors
from engine.embedder.bert_numpy import NumpyBert
from engine.embedder.prompts import in_words
from engine.embedder.setup import Setup, batches
from engine.embedder.spec import EmbedderSpec, found_again
from engine.embedder.trial import PutOff
from engine.embedder.turnstile import Turnstile
from engine.embedder.windows import parts_of, parts_of_questions
from engine.embedder.workers import at_once
from engine.errors import EmbedderUnavailable
from engine.giving_way import GivingWay
from engine.memory.devices import torch_held_bytes
from engine.memory.garbage import settle
from engine.memory.hardware import probe
from engine.memory.heap import trim_heap
from engine.memory.ledger import Growth, Lease, Ledger
from engine.own_cores import available_cores

log = logging.getLogger(__name__)

BATCHES = "batches being computed"
# Vectors of recent questions are kept, because reading the passages needs them again: a hundred kilobytes.
_REMEMBERED = 64
# How often a batch is tried if another thread unloads the model, or the graphics card fails.
_MOST_TRIES = 4
# Torch is loaded once documents have taken this long, which is about what loading takes; a few files never do.
WORTH_LOADING_SECONDS = 5.0
# The memory that torch needs, which is reserved before it is loaded.
COMING_BYTES = 256 * MIB
# The memory that must be free to load torch. With a streamed model it never is: evicting layers would cost answers more
# than documents gain.
ROOM_BYTES = 2 * COMING_BYTES
# The longest chunk, with special tokens: a model that reads this many tokens never truncates one.
MOST_CHUNK_TOKENS = 242
AroundLoading = Callable[[], AbstractContextManager[None]]


class Encoder(Protocol):
    """A loaded model, on any backend."""

    num_bytes: int

    @property
    def max_tokens(self) -> int: ...

    @property
    def mapped_bytes(self) -> int: ...

    def lengths(self, texts: Sequence[str]) -> list[int]: ...

    def encode(self, texts: list[str], *, is_question: bool) -> Vectors: ...


_Found = tuple[tuple[Encoder, ...], Setup, Growth]


class Embedder:
    """Converts texts to unit vectors of `spec.dimensions`. Usable from any thread; loads itself at the first text."""

    def __init__(
        self,
        spec: EmbedderSpec,
        settings: EmbedderSettings,
        ledger: Ledger,
        around_loading: AroundLoading = nullcontext,
        cache: Path | None = None,
        free_bytes: Callable[[], int] | None = None,
        giving_way: GivingWay | None = None,
    ) -> None:
        """Prepares it.

        Args:
            spec: Which model.
            settings: How to run it, as far as the user has set that.
            ledger: Records the weights.
            around_loading: Makes a context for the seconds that loading takes, so that they can be reported.
            cache: The folder for results of the self-test; None saves nothing.
            free_bytes: Returns the free main memory; None asks the system.
            giving_way: Says when documents may be embedded that no user waits for; None means at any time.
        """
        self.spec = spec
        self._around_loading, self._cache = around_loading, cache
        self._free_bytes = free_bytes or (lambda: probe(spec.folder).ram_free_bytes)
        self._settings = settings
        self._ledger = ledger
        self._giving_way = giving_way or GivingWay()
        # One model for each batch at once, all with the same weights; none before they are loaded.
        self._models: tuple[Encoder, ...] = ()
        # The numpy model for questions; None if questions and documents use the same model.
        self._asked: NumpyBert | None = None
        self._setup = Setup()
        self._leases: list[Lease] = []
        # Its memory besides the weights.
        self._beside: tuple[Growth, ...] = ()
        self._place: Place = "memory"
        self._is_refused = False
        # How long documents have taken without torch; -inf if torch cannot be loaded.
        self._light_seconds = 0.0
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
        """The setup that is in use; None before it is loaded."""
        return self._setup if self._models else None

    @property
    def description(self) -> str:
        """How it is run, in words for users; "" before it is loaded."""
        models = self._models
        if not models:
            return ""
        words = [self._setup.describe(models[0].max_tokens) + ".", *self._setup.refusals]
        if prompts := self.spec.prompts:
            words.append(in_words(prompts))
        return " ".join(words).removesuffix(".")

    @property
    def weights_name(self) -> str:
        """The name of its weights in the ledger."""
        return f"{self.spec.name}, {self._setup.number_format}"

    @property
    def place(self) -> Place:
        return self._place

    @property
    def movable_bytes(self) -> int:
        """The memory it would need on a graphics card; 0 without a card, if that refused, or before it is loaded."""
        models, setup = self._movable, self._setup
        if not models or self._is_refused or setup.backend != "sentence-transformers" or not backends.has_card():
            return 0
        return models[0].num_bytes + len(models) * setup.batch_bytes

    @property
    def _movable(self) -> tuple[Model, ...]:
        """The models that torch runs."""
        return tuple(model for model in self._models if isinstance(model, Model))

    def load(self) -> None:
        """Reads the weights; a second call returns at once.

        For a model that is not a plain BERT, torch is imported and the self-test runs, which takes seconds.

        Raises:
            EmbedderUnavailable: The files cannot be loaded or are gone, or memory is short.
        """
        if self._models:
            # Before the lock, so that no caller waits while torch is loaded to replace it.
            return
        if self.spec.is_gone:
            self.spec = found_again(self.spec)
        with self._loading:
            if self._models:
                return
            with self._around_loading():
                found = self._light() or self._whole()
            self._begin(*found)
            settle()

    def _light(self) -> _Found | None:
        """Loads the model without torch, one batch per core; None if it needs torch, or the settings set a backend."""
        settings = self._settings
        if settings.backend or settings.number_format:
            return None
        with self._growing("embedder", self._beside_name) as beside:
            bert = backends.load_light(self.spec)
        if bert is None:
            beside.release()
            return None
        self._asked = bert
        setup = bert.setup(settings.num_threads or available_cores(), settings.batch_size)
        return (bert,) * setup.num_workers, setup, beside

    def _whole(self, *, gives_way: bool = False) -> _Found:
        """Loads the model with torch, in the setup that the self-test finds fastest.

        Raises:
            PutOff: `gives_way` is set, and a user waits for an answer.
        """
        with self._growing("runtime", "the embedder's libraries"):
            backends.load_libraries(self.spec)
        somebody_waits = (lambda: not self._giving_way.is_free) if gives_way else trial.nobody_waits
        beside = Growth()
        try:
            # Weights get entries of their own (`_enter`), and must not be counted as growth as well.
            with ExitStack() as weights, self._growing("embedder", self._beside_name) as beside:
                chosen = trial.choose(
                    backends.load(self.spec), self.identity, self._settings, self._cache, somebody_waits=somebody_waits
                )
                models = chosen.model.for_workers(chosen.setup.num_workers)
                in_memory = models[0].num_bytes - models[0].mapped_bytes
                weights.callback(self._ledger.take("embedder", "weights on trial", "ram", in_memory).release)
            return models, chosen.setup, beside
        except BaseException:
            beside.release()
            raise

    @property
    def _beside_name(self) -> str:
        return f"{self.spec.name}, tokenizers and buffers"

    @contextmanager
    def _growing(self, owner: str, what: str) -> Iterator[Growth]:
        """Measures growth between two moments without running batches, whose memory the ledger estimates separately."""
        with ExitStack() as stack:
            with self._turnstile.keep_out():
                growth = stack.enter_context(self._ledger.growing(owner, what))
            yield growth
            with self._turnstile.keep_out():
                stack.close()

    def _begin(self, models: tuple[Encoder, ...], setup: Setup, beside: Growth) -> None:
        """Starts using these models; the caller ensures that no batch is running."""
        self._setup, self._beside = setup, (*self._beside, beside)
        self._enter(models[0])
        self._models = models
        self._turnstile.num_places = len(models)

    def _load_for_documents(self) -> None:
        """Switches to torch once documents have taken long enough; other threads continue meanwhile."""
        if self._light_seconds < WORTH_LOADING_SECONDS or not self._giving_way.is_free:
            return
        if not self._loading.acquire(blocking=False):
            return
        try:
            if not self._models or self._setup.backend != "numpy":
                return
            if not self._has_room():
                # Checked again after the same time.
                self._light_seconds = 0.0
                return
            self._replace_by_whole()
        finally:
            self._loading.release()

    def _has_room(self) -> bool:
        try:
            return self._free_bytes() >= ROOM_BYTES
        except OSError as error:
            # Its folder is gone, so torch would find nothing to load; the loaded model continues to work.
            log.info("the embedding model goes on without torch: %s", error)
            return False

    def _replace_by_whole(self) -> None:
        before_bytes = self._held_bytes()
        try:
            with (
                self._around_loading(),
                self._ledger.promised("ram", lambda: COMING_BYTES - self._held_bytes() + before_bytes),
            ):
                found = self._whole(gives_way=True)
        except PutOff:
            log.info("torch is loaded for documents when the question that came meanwhile is answered")
            return
        except Exception as error:  # noqa: BLE001 - whatever libraries raise, the numpy model continues to work
            log.warning("the embedding model goes on without torch: %s", error)
            self._light_seconds = float("-inf")
            return
        with self._turnstile.keep_out():
            self._leave()
            self._begin(*found)
        settle()

    def _held_bytes(self) -> int:
        """Returns the memory that libraries and embedding models use."""
        return sum(self._ledger.held_bytes("ram", owner, is_mapped=False) for owner in ("runtime", "embedder"))

    def move(self, to: Place) -> None:
        """Moves it for the next batches; waits for those that are running.

        If a card refuses it, it stays in main memory, and the card is not tried again.
        """
        with self._loading, self._turnstile.keep_out():
            if not self._movable or to == self._place or (to == "card" and self._is_refused):
                return
            try:
                for model in self._movable:
                    model.move(to)
            except (BackendRefused, RuntimeError) as error:
                log.warning("the graphics card does not take the embedding model: %s", error)
                self._is_refused = True
                self._come_back()
                return
            self._place = to
            self._leave()
            self._enter(self._models[0])

    def _come_back(self) -> None:
        """Moves it back from a card that failed; if that fails as well, it is loaded again at the next text."""
        try:
            for model in self._movable:
                model.move("memory")
        except (BackendRefused, RuntimeError) as error:
            log.info("what lay on the graphics card is lost: %s", error)
            self._let_go()
            return
        if self._place == "card":
            self._place = "memory"
            self._leave()
            self._enter(self._models[0])

    def _give_card_up(self, reason: str) -> None:
        """Moves it off a card that failed during a batch. The card is not tried again."""
        with self._loading, self._turnstile.keep_out():
            if self._place == "card":
                log.warning("the graphics card does not compute the embedding model any more: %s", reason)
                self._is_refused = True
                self._come_back()

    def _enter(self, model: Encoder) -> None:
        """Records the weights in the ledger, and the memory of batches if it runs in main memory."""
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
        """Releases the memory; the next text loads the model again."""
        with self._loading, self._turnstile.keep_out():
            self._let_go()

    def _let_go(self) -> None:
        was_on_card = self._place == "card"
        self._models, self._asked, self._place, self._light_seconds = (), None, "memory", 0.0
        if self._leases:
            self._leave()
            close_all(*(growth.release for growth in self._beside), settle, trim_heap)
            self._beside = ()
        if was_on_card:
            # torch caches the memory of its tensors there.
            backends.empty_card()

    def _leave(self) -> None:
        leases, self._leases = self._leases, []
        close_all(*(lease.release for lease in leases))

    def embed_documents(self, texts: Sequence[str], *, is_urgent: bool = False) -> Vectors:
        """Returns vectors (n, d) of passages, in the order of `texts`.

        `is_urgent` is for sentences that a waiting question needs; otherwise questions go first.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        self.load()
        models = self._models
        if not texts or not models or models[0].max_tokens >= MOST_CHUNK_TOKENS:
            return self._embed(texts, is_question=False, is_urgent=is_urgent)
        return self._embed_parts(models[0], texts, is_urgent=is_urgent)

    def embed_whole(self, texts: Sequence[str]) -> Vectors:
        """Like `embed_documents`, for texts longer than chunks: returns the mean of the parts of a long text.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        self.load()
        models = self._models
        if not texts or not models:  # unloaded meanwhile
            return self._embed(texts, is_question=False, is_urgent=False)
        return self._embed_parts(models[0], texts, is_urgent=False)

    def _embed_parts(self, model: Encoder, texts: Sequence[str], *, is_urgent: bool) -> Vectors:
        parts = parts_of(texts, model.lengths, model.max_tokens)
        return parts.joined(self._embed(parts.texts, is_question=False, is_urgent=is_urgent), len(texts))

    def embed_questions(self, texts: Sequence[str]) -> Vectors:
        """Returns vectors (n, d) of questions, in the order of `texts`; they go before waiting documents.

        The latest are cached, because reading the found passages needs them again.

        Raises:
            EmbedderUnavailable: The model cannot be loaded.
        """
        known = self._questions
        if missing := [text for text in dict.fromkeys(texts) if text not in known]:
            fresh = self._embed_questions(missing)
            # Copies, because a row of a batch would keep the whole batch alive.
            known = {**known, **{text: vector.copy() for text, vector in zip(missing, fresh, strict=True)}}
            # Replaced whole, because others may be reading it.
            self._questions = dict(list(known.items())[-_REMEMBERED:])
        return np.stack([known[text] for text in texts]) if texts else np.zeros((0, self.dimensions), np.float32)

    def _embed_questions(self, texts: Sequence[str]) -> Vectors:
        self.load()
        models = self._models
        if not models:  # unloaded meanwhile
            return self._embed(texts, is_question=True, is_urgent=True)
        parts = parts_of_questions(texts, models[0].lengths, models[0].max_tokens)
        return parts.joined(self._embed(parts.texts, is_question=True, is_urgent=True), len(texts))

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Returns the length of each text in tokens; an estimate before the model is loaded."""
        models = self._models
        return models[0].lengths(texts) if models else backends.guessed_lengths(texts)

    def _embed(self, texts: Sequence[str], *, is_question: bool, is_urgent: bool) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        if not texts:
            return vectors
        self.load()
        num_workers = self._setup.num_workers

        def encode(batch: list[int]) -> None:
            with nullcontext() if is_urgent else self._giving_way.batch():
                begun = time.perf_counter()
                vectors[batch] = self._encode([texts[index] for index in batch], is_question, is_urgent)
                seconds = time.perf_counter() - begun
            if not is_urgent and self._setup.backend == "numpy":
                self._light_seconds += seconds / num_workers
                self._load_for_documents()

        at_once(num_workers, encode, self._batches(texts))
        return vectors

    def _batches(self, texts: Sequence[str]) -> list[list[int]]:
        models = self._models
        max_tokens = models[0].max_tokens if models else self._setup.batch_tokens
        return batches(self.lengths(texts), self._setup, max_tokens)

    def _encode(self, texts: list[str], is_question: bool, is_urgent: bool) -> Vectors:
        for _ in range(_MOST_TRIES):
            self.load()
            asked = self._asked
            if is_question and asked is not None:
                return asked.encode(texts, is_question=True)
            with self._turnstile.pass_through(is_urgent=is_urgent) as place:
                models = self._models
                if place >= len(models):  # unloaded since `load`, for example by a worker that gives the card up
                    continue
                model = models[place]
                if isinstance(model, Model):
                    backends.set_threads(self._setup.num_threads)
                try:
                    return model.encode(texts, is_question=is_question)
                except RuntimeError as error:  # torch raises it for everything that a card refuses
                    if self._place != "card":
                        raise
                    reason = backends.first_line(error)
            self._give_card_up(reason)
        raise EmbedderUnavailable("The embedding model was unloaded meanwhile.", "Please try again.")
