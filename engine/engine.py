"""Engine: builds the parts, joins them by queues, and answers for every question until it has ended.

    with Engine.open() as engine:
        engine.add(["~/Documents"])
        print(engine.ask("What notice period applies to my flat?").text)

One engine holds a data folder at a time. Calls are safe from any thread; events come on the engine's threads.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import filelock

from engine.catalog import Catalog
from engine.config import EmbedderSettings, Home, Settings, SettingsStore
from engine.core import (
    DEFAULT_COLLECTION,
    Answer,
    Collection,
    Document,
    DocumentState,
    Evidence,
    Filters,
    PageView,
    Question,
    Span,
)
from engine.embedder import resolve
from engine.embedder.reranker import CrossEncoderReranker
from engine.errors import BadRequest, GenerationError, LibraryHeld, NothingThere, RagdollError
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    Event,
    IndexFinished,
    Publish,
)
from engine.generation.loader import ModelLoader
from engine.generation.worker import GenerationWorker, UseModel
from engine.inflight import QuestionInFlight
from engine.library.parsers.pool import ParserPool
from engine.library.reserve import Reserve
from engine.library.watcher import Watcher
from engine.library.worker import IndexJob, IndexWorker
from engine.memory.hardware import probe
from engine.memory.ledger import Ledger
from engine.memory.snapshot import SnapshotTicker, take_snapshot
from engine.models import shelf
from engine.models.gguf import read_shape
from engine.phases import Phases
from engine.protocol import EmbedderState, Folder, MemoryReply, ModelEntry
from engine.questions import OpenQuestions
from engine.retrieval.batching import SweepCosts
from engine.retrieval.joining import Room
from engine.retrieval.reader import extractive_answer
from engine.retrieval.search import ANYWHERE, Searcher
from engine.retrieval.sentence_vectors import SentenceVectors
from engine.retrieval.worker import RetrievalWorker
from engine.stores import StoresOpener

log = logging.getLogger(__name__)


class Engine:
    """The library and its answers. Make it with `open` (or hand in a listener, as the host does) and close it."""

    def __init__(
        self, home: Home, listener: Publish | None = None, *, warm: bool = False, watches: bool = False
    ) -> None:
        """Takes the data folder and starts the workers; nothing heavy is loaded yet.

        Args:
            home: Our folders.
            listener: Called with every event, on the thread where it happens.
            warm: Load libraries and the chosen model in the background now, and go on with interrupted indexing.
            watches: Keep linked folders in step from now on, beginning with what changed since the last time.

        Raises:
            LibraryHeld: Another Ragdoll process has the folder.
            CatalogBroken: The catalogue cannot be opened.
            DiskFull: There is no room for the little that a start needs.
        """
        home.create()
        self.home = home
        self._listeners: list[Publish] = [listener] if listener else []
        self._lock_file = _hold(home)
        try:
            self._settings = SettingsStore(home.settings_file)
            self.ledger = Ledger(self._note_change)
            self._questions = OpenQuestions()
            # The chosen model in the settings and the one in use change together.
            self._choosing = threading.RLock()
            self._ticker: SnapshotTicker | None = None
            self._reserve = Reserve(home.library, self.settings.library.reserve_bytes)
            self._catalog = self._reserve.lent(lambda: Catalog.open(home.library))
            self._build()
        except BaseException:
            self._lock_file.release()
            raise
        self._start(warm, watches)

    @classmethod
    def open(cls, home: Path | None = None) -> Engine:
        """An engine on `home`, or on the user's own data folder. Raises as the constructor does."""
        return cls(Home.under(home) if home else Home.find())

    def _build(self) -> None:
        library = self.settings.library
        takes, recognised = (library.parse_seconds, library.parse_memory_bytes), self.home.cache / "ocr"
        self._pool = ParserPool(library.parser_processes, *takes, recognised)
        self._viewer = ParserPool(1, *takes, recognised)
        phases = Phases(self._publish)
        self._stores = StoresOpener(self.home, self._catalog, lambda: self.settings, self.ledger, phases)
        self._loader = ModelLoader(lambda: self.settings, self.home.data, self.ledger, self._publish, phases=phases)
        self._generation = GenerationWorker(self._loader, self._known_documents, extractive_answer, self._publish)
        self._sweep_costs = SweepCosts()
        self._reranker: CrossEncoderReranker | None = None
        self._retrieval = RetrievalWorker(
            self._open_searcher,
            self._generation.submit,
            self._publish,
            self._cancelled,
            self._failed,
            SentenceVectors(self.ledger),
            self._sweep_costs.batch_size,
        )
        self._indexer = IndexWorker(
            self._catalog,
            self._pool,
            self._stores,
            lambda: self.settings,
            self._publish,
            moving=self._stores,
            reserve=self._reserve,
        )
        self._watcher = Watcher(
            self._catalog.roots,
            lambda: self.settings.library,
            self._indexer.refresh,
            lambda: self._indexer.rescan(is_unasked=True),
            every_second=self._indexer.go_on_if_there_is_room,
        )

    def _start(self, warm: bool, watches: bool) -> None:
        self._generation.start()
        self._retrieval.start()
        self._indexer.start(resume=warm)
        if watches:
            self._reserve.hold()
            self._watcher.start()
        if warm:
            self._retrieval.warm_up()
        if self.settings.models.current:
            self._generation.use(UseModel(Path(self.settings.models.current), is_urgent=warm))

    def close(self) -> None:
        """Cancels what runs, stops the workers, gives everything back. A second call does nothing."""
        for in_flight in self._questions.all():
            in_flight.cancelled.set()
        self._watcher.stop()
        self._indexer.stop()
        self._retrieval.stop()
        self._reranker_named("")
        self._generation.stop()
        if self._ticker is not None:
            self._ticker.stop()
        self._stores.close()
        self._pool.close()
        self._viewer.close()
        self._catalog.close()
        self._lock_file.release()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        """Calls `listener` with every event from now on; the returned function ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- settings ---

    @property
    def settings(self) -> Settings:
        return self._settings.settings

    def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Applies and saves changes by dotted name. Another embedding model begins to move the library to it.

        Raises:
            BadRequest: A name or a value is none; then nothing has changed.
            EmbedderUnavailable: The embedding model is not on this computer; likewise.
        """
        if "embedder.model" in changes:
            resolve(EmbedderSettings(model=str(changes["embedder.model"])))
        settings = self._settings.change(changes)
        self._stores.apply_settings()
        if "embedder.model" in changes:
            self._indexer.consider_move()
        self._watcher.wake()
        return settings

    # --- library ---

    def add(self, paths: Sequence[str | Path], collection: str = DEFAULT_COLLECTION) -> IndexFinished:
        """Indexes folders and files and waits for it.

        Raises:
            NothingThere: A path does not exist.
            LibraryError: Something that concerns all files (disk full, embedder missing); what is done stays.
        """
        return self.start_adding([str(path) for path in paths], collection).wait()

    def start_adding(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Queues the same; progress and end come as events."""
        job = self._indexer.add([_absolute(path) for path in paths], collection)
        self._watcher.wake()
        return job

    def start_rescan(self) -> IndexJob:
        """Looks at all linked folders for what is new, changed or gone."""
        return self._indexer.rescan()

    def folders(self) -> tuple[Folder, ...]:
        """The linked folders and files, and how each stands."""
        return tuple(
            Folder(
                path=linked.root.path,
                collection=linked.root.collection,
                absence=linked.root.absence,
                is_watched=self._watcher.is_watched(linked.root),
                num_documents=linked.num_documents,
                num_gone=linked.num_gone,
            )
            for linked in self._catalog.linked_folders()
        )

    def settle_gone(self, folder: str, *, remove: bool) -> int:
        """Decides about the documents of a folder that went missing at once: removed, or kept as they were read.

        Returns:
            How many were removed.

        Raises:
            NothingThere: No document of the folder waits for a decision.
        """
        return self._indexer.settle_gone(_absolute(folder), remove=remove)

    def start_reindexing(self, paths: Sequence[str]) -> IndexJob:
        """Reads these documents again, also failed ones."""
        return self._indexer.reindex([_absolute(path) for path in paths])

    def unlock(self, paths: Sequence[str | Path], password: str, *, remember: bool = False) -> IndexFinished:
        """Reads with a password what needs one at or below these paths, and waits for it.

        Raises:
            BadRequest: The password is empty.
            NothingThere: No document there needs a password.
            LibraryError: As `add`.
        """
        return self.start_unlocking([str(path) for path in paths], password, remember=remember).wait()

    def start_unlocking(self, paths: Sequence[str], password: str, *, remember: bool = False) -> IndexJob:
        """Queues the same. Unless it is remembered, the password is held until the engine closes, and not written."""
        return self._indexer.unlock([_absolute(path) for path in paths], password, remember=remember)

    def prioritise(self, paths: Sequence[str | Path]) -> IndexFinished | None:
        """Reads what waits at or below these paths before all else, and waits for it.

        None when nothing was left to do here: nothing waits there, or the running job reads it next.

        Raises:
            NothingThere: Nothing of the library lies at one of the paths.
            LibraryError: As `add`.
        """
        job = self.start_prioritising([str(path) for path in paths])
        return job.wait() if job is not None else None

    def embedder(self) -> EmbedderState:
        """The embedding model at work, and how far the library has moved to another one."""
        return self._stores.state()

    def start_prioritising(self, paths: Sequence[str]) -> IndexJob | None:
        """Has it read next; the job that does it, or None as above. Raises NothingThere as above."""
        return self._indexer.prioritise([_absolute(path) for path in paths])

    def remove(self, paths: Sequence[str | Path]) -> int:
        """Takes documents out of the library; returns how many. Raises NothingThere for what is not in it."""
        removed = self._indexer.remove([_absolute(str(path)) for path in paths])
        self._watcher.wake()
        return removed

    def pause_indexing(self) -> None:
        self._indexer.pause()

    def resume_indexing(self) -> None:
        self._indexer.resume()

    def cancel_indexing(self) -> None:
        self._indexer.cancel()

    def collections(self) -> tuple[Collection, ...]:
        return self._catalog.collections()

    def documents(
        self,
        collection: str | None = None,
        states: Sequence[DocumentState] = (),
        offset: int = 0,
        limit: int = 500,
        name: str = "",
        document_ids: Sequence[int] | None = None,
    ) -> tuple[tuple[Document, ...], int]:
        """One page of documents ordered by path, and how many there are in all; `name` is looked for in their paths."""
        return self._catalog.documents(collection, states, offset, limit, name, document_ids)

    def documents_by_state(
        self, collection: str | None = None, name: str = "", document_ids: Sequence[int] | None = None
    ) -> dict[str, int]:
        """How many documents are in each state, of those that `documents` would give."""
        return self._catalog.documents_by_state(collection, name, document_ids)

    def document(self, document_id: int) -> Document:
        """Raises NothingThere when it has been removed."""
        document = self._catalog.document(document_id)
        if document is None:
            raise NothingThere("This document is no longer in the library.")
        return document

    def page(self, document_id: int, page: int | None, start: int, end: int, width_px: int = 900) -> PageView:
        """A page with a passage marked, for the viewer; read anew from the file."""
        path = self.document(document_id).path
        passwords = self._catalog.passwords_of(document_id)
        languages = self.settings.library.ocr_languages
        return self._viewer.page(path, page, start, end, width_px, passwords, languages)

    def disk_bytes(self) -> int:
        """What the library takes on disk."""
        # os.walk passes over folders that vanish meanwhile; LanceDB replaces its files while it indexes.
        walk = os.walk(self.home.library)
        return sum(_file_bytes(os.path.join(folder, name)) for folder, _, names in walk for name in names)

    # --- questions ---

    def submit(self, question: Question) -> None:
        """Queues a question; its life comes as events and ends in finished, cancelled or failed.

        Raises:
            BadRequest: Empty text, a date that is none, or the id of a question that is still open.
            NothingThere: There is no such collection.
        """
        if not question.text.strip():
            raise BadRequest("The question is empty.")
        self._check_scope(question.collection, question.filters)
        in_flight = QuestionInFlight(question)
        self._questions.add(in_flight)
        self._retrieval.submit(in_flight)

    def cancel(self, question_id: str) -> None:
        """Stops a question soon; harmless when it has ended."""
        self._questions.cancel(question_id)

    def ask(self, text: str, **options: Any) -> Answer:
        """Asks and waits. `options` are fields of Question (collection, transcript, sampling …).

        Raises:
            RagdollError: Why it failed.
        """
        return self.ask_many([text], **options)[0].answer

    def ask_many(self, texts: Sequence[str], **options: Any) -> list[AnswerFinished]:
        """Asks all at once and waits for all; answers in the order of the texts. Raises the first failure."""
        return [_finished(end) for end in self.ask_each(texts, **options)]

    def ask_each(self, texts: Sequence[str], **options: Any) -> list[AnswerEnded]:
        """As `ask_many`, but raises nothing: how each question ended, in the order of the texts."""
        options.setdefault("sampling", self.settings.generation.sampling())
        questions = [Question(question_id=uuid4().hex, text=text, **options) for text in texts]
        with _Waiting(self, {question.question_id for question in questions}) as waiting:
            for question in questions:
                try:
                    self.submit(question)
                except RagdollError as error:
                    waiting.take(AnswerFailed(question.question_id, error))
            ends = waiting.wait()
        return [ends[question.question_id] for question in questions]

    def search(self, query: str, top_k: int, collection: str | None = None, filters: Filters = ANYWHERE) -> Evidence:
        """Passages for one query. Raises as `search_many` does."""
        return self.search_many([query], top_k, collection, filters)[0]

    def search_many(
        self, queries: Sequence[str], top_k: int, collection: str | None = None, filters: Filters = ANYWHERE
    ) -> list[Evidence]:
        """Passages for many queries at once: one sweep costs little more than one query.

        Raises:
            NothingThere: There is no such collection, or nothing of the library at a path of the filters.
            BadRequest: A date of the filters is none.
        """
        self._check_scope(collection, filters)
        return self._retrieval.search(queries, top_k, collection, filters)

    # --- models and memory ---

    def models(self) -> tuple[ModelEntry, ...]:
        hardware = probe(self.home.data, self._loader.devices)
        return tuple(shelf.entry(Path(path), self.settings, hardware) for path in self.settings.models.known)

    def add_model(self, path: Path) -> ModelEntry:
        """Puts a GGUF file on the shelf. Raises ModelError when it cannot be used."""
        path = path.expanduser().absolute()
        read_shape(path)
        with self._choosing:
            self.change_settings({"models.known": shelf.with_model(self.settings.models.known, path)})
        return shelf.entry(path, self.settings, probe(self.home.data, self._loader.devices))

    def forget_model(self, path: Path) -> None:
        """Takes it off the shelf; the file stays where it is."""
        with self._choosing:
            if self.settings.models.current == str(path):
                self.use_model(None)
            self.change_settings({"models.known": shelf.without_model(self.settings.models.known, path)})

    def use_model(self, path: Path | None, n_gpu_layers: int | None = None, *, remember: bool = True) -> None:
        """Answers with this model from the next question on; None means with quotes only.

        Raises:
            ModelError: The file cannot be used (that it also loads comes as ModelStateChanged).
        """
        if path is not None:
            path = path.expanduser().absolute()
            read_shape(path)
        with self._choosing:
            if remember:
                known = self.settings.models.known
                known = known if path is None else shelf.with_model(known, path)
                self.change_settings({"models.current": str(path or ""), "models.known": known})
            self._generation.use(UseModel(path, n_gpu_layers))

    def choose_model(self, name: str) -> None:
        """Uses a model by its file, its name among the known ones, or "none". Raises ModelError."""
        if name == "none":
            self.use_model(None)
        else:
            self.use_model(shelf.named(self.settings.models.known, name) or Path(name))

    def memory(self) -> MemoryReply:
        """Who holds what, now."""
        hardware = probe(self.home.data, self._loader.devices)
        return take_snapshot(self.ledger, hardware, self._counters(), self._told(), self._children())

    def start_ticker(self, publish: Callable[[MemoryReply], None]) -> None:
        """Hands a snapshot to `publish` when something changed (at most ten a second), and once a second."""
        self._ticker = SnapshotTicker(self.memory, publish)
        self._ticker.start()

    # --- inside ---

    def _check_scope(self, collection: str | None, filters: Filters) -> None:
        if collection is not None or filters != ANYWHERE:
            self._catalog.extent(collection, filters)
        for path in filters.paths:
            if not self._catalog.extent(None, Filters(paths=(path,))).files:
                raise NothingThere(f"Nothing at {path} is in the library.", "The library page lists what is.")

    def _publish(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and not self._questions.end(event):
            log.warning("question %s ended twice", event.question_id)
            return
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # It runs on a worker's thread, which must live on, or later questions would never end.
                log.exception("a listener failed at %s", type(event).__name__)

    def _cancelled(self, in_flight: QuestionInFlight) -> None:
        self._publish(AnswerCancelled(in_flight.question.question_id))

    def _failed(self, in_flight: QuestionInFlight, error: RagdollError) -> None:
        self._publish(AnswerFailed(in_flight.question.question_id, error))

    def _known_documents(self, document_ids: AnyCollection[int]) -> AnyCollection[int]:
        return self._catalog.paths_of(document_ids).keys()

    def _open_searcher(self) -> Searcher:
        stores = self._stores()
        stores.index.on_sweep = self._sweep_costs.note
        settings = self.settings
        return Searcher(
            stores.table,
            stores.index,
            stores.embedder,
            self._catalog,
            settings.retrieval,
            Room.of(settings.generation, settings.library),
            self._reranker_named(settings.retrieval.reranker),
        )

    def _reranker_named(self, name: str) -> CrossEncoderReranker | None:
        """The cross-encoder that the settings name, "" for none. On the retrieval thread."""
        if self._reranker is not None and self._reranker.name != name:
            self._reranker.unload()
            self._reranker = None
        if name and self._reranker is None:
            self._reranker = CrossEncoderReranker(name, self.ledger)
        return self._reranker

    def _note_change(self) -> None:
        if self._ticker is not None:
            self._ticker.note_change()

    def _counters(self) -> dict[str, float]:
        stores = self._stores.opened()
        of_index = stores.index.counters() if stores is not None else {}
        waiting = float(len(self._questions.all()))
        return (
            {"tokens_per_s": self._loader.tokens_per_s, "questions_waiting": waiting}
            | of_index
            | self._sweep_costs.counters()
        )

    def _children(self) -> tuple[Span, ...]:
        num_bytes = self._pool.memory_bytes() + self._viewer.memory_bytes()
        return (Span("parsers", "processes that read files", "ram", num_bytes),) if num_bytes else ()

    def _told(self) -> tuple[str, ...]:
        return (self._loader.decision,) if self._loader.decision else ()


class _Waiting:
    """Collects the ends of some questions."""

    def __init__(self, engine: Engine, question_ids: set[str]) -> None:
        self._engine, self._missing = engine, question_ids
        self._ends: dict[str, AnswerEnded] = {}
        self._all_ended = threading.Event()
        if not question_ids:
            self._all_ended.set()

    def __enter__(self) -> _Waiting:
        self._unsubscribe = self._engine.subscribe(self.take)
        return self

    def __exit__(self, *error: object) -> None:
        self._unsubscribe()

    def wait(self) -> dict[str, AnswerEnded]:
        self._all_ended.wait()
        return self._ends

    def take(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed) and event.question_id in self._missing:
            self._ends[event.question_id] = event
            if len(self._ends) == len(self._missing):
                self._all_ended.set()


def _finished(end: AnswerEnded) -> AnswerFinished:
    if isinstance(end, AnswerFinished):
        return end
    raise end.error if isinstance(end, AnswerFailed) else GenerationError("The question was cancelled.")


def _hold(home: Home) -> filelock.BaseFileLock:
    lock = filelock.FileLock(home.library / "engine.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise LibraryHeld(
            "Ragdoll is already open and holds this library.", "Close the window, or do this in the window."
        ) from error
    return lock


def _file_bytes(path: str) -> int:
    """Its size; 0 when it has gone since it was listed."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))
