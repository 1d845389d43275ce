"""Engine: what one can ask of a library, and the parts that do it; every question is answered for until it has ended.

    with Engine.open() as engine:
        engine.add(["~/Documents"])
        print(engine.ask("What notice period applies to my flat?").text)

One engine holds a data folder at a time. Calls are safe from any thread; events come on the engine's threads.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from engine.accounts import Accounts, bytes_below
from engine.assembly import assemble
from engine.catalog import Catalog
from engine.choice import ModelChoice
from engine.closing import close_all
from engine.config import EmbedderSettings, Home, Settings
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
    SamplingParams,
    Scope,
    Unfinished,
)
from engine.each_file import ask_each, confined_to
from engine.embedder import resolve
from engine.errors import BadRequest, NothingThere
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFinished,
    AnswerStateChanged,
    IndexFinished,
    MeasuringProgressed,
    ProblemFound,
    Publish,
    SettingsChanged,
)
from engine.generation.sampling import check_sampling
from engine.getting import Getting
from engine.getting_embedders import GettingEmbedders
from engine.inflight import QuestionInFlight
from engine.library.reserve import Reserve
from engine.library.well_formed import well_formed
from engine.library.worker import IndexJob, not_added
from engine.listeners import Listeners
from engine.lock import hold
from engine.memory.hardware import Hardware, probe
from engine.memory.ledger import Ledger
from engine.memory.runtime import Runtime
from engine.memory.snapshot import SnapshotTicker
from engine.models.download import Fetched
from engine.models.shelf import planning_by
from engine.protocol import (
    CatalogueEntry,
    EmbedderEntry,
    EmbedderState,
    Folder,
    HubFiles,
    MemoryReply,
    ModelEntry,
    PathState,
)
from engine.questions import OpenQuestions
from engine.retrieval.query import ANYWHERE
from engine.settings_file import SettingsStore
from engine.waiting import finished, in_turn

log = logging.getLogger(__name__)
# Of one search, each with its text.
MAX_TOP_K = 10_000
_NOTHING_SEARCHED = Evidence((), (), Scope(0, 0, 0))


class Engine:
    """The library and its answers. Make it with `open` (or hand in a listener, as the host does) and close it."""

    def __init__(
        self,
        home: Home,
        listener: Publish | None = None,
        *,
        warm: bool = False,
        watches: bool = False,
        lock_patience_seconds: float = 0.0,
    ) -> None:
        """Takes the data folder and starts the workers; nothing heavy is loaded yet.

        Args:
            home: Our folders.
            listener: Called with every event, on the thread where it happens.
            warm: Load libraries and the chosen model in the background now, and go on with interrupted indexing.
            watches: Keep linked folders in step from now on, beginning with what changed since the last time.
            lock_patience_seconds: So long another process that has the folder is given to end.

        Raises:
            LibraryHeld: Another Ragdoll process has the folder.
            HomeUnusable: It cannot be made, or a file of ours in it cannot be used.
            CatalogBroken: The catalogue cannot be opened.
            DiskFull: There is no room for the little that a start needs.
        """
        home.create()
        self.home = home
        self._questions = OpenQuestions()
        self._listeners = Listeners(self._questions, listener)
        self._lock_file = hold(home, lock_patience_seconds)
        try:
            self._settings = SettingsStore(home.settings_file)
            self._ticker: SnapshotTicker | None = None
            self.ledger = Ledger(self._note_change)
            self._runtime = Runtime(self.ledger)
            reserve = Reserve(home.library, self.settings.library.reserve_bytes)
            self._catalog = reserve.lent(lambda: Catalog.open(home.library))
            self._keep_embedder()
            self._parts = assemble(
                home, self._catalog, reserve, lambda: self.settings, self.ledger, self._runtime, self._listeners
            )
            self._accounts = Accounts(self.ledger, self._parts, lambda: self.settings.memory)
            self._choice = ModelChoice(
                lambda: self.settings,
                self.change_settings,
                self._parts.generation.use,
                self._hardware,
                planning_by(self._parts.profile),
                self._parts.beside,
            )
            self._getting = Getting(
                home,
                lambda: self.settings.models,
                self._choice,
                self._listeners.publish,
                self._parts.generation.let_go,
            )
            self._getting_embedders = GettingEmbedders(
                home,
                lambda: self.settings.models,
                lambda model: self.change_settings({"embedder.model": model}),
                self._embedders_used,
                self._listeners.publish,
            )
        except BaseException:
            self._lock_file.release()
            raise
        if self._settings.problem:
            self._listeners.publish(ProblemFound(self._settings.problem))
        self._parts.start(self.settings.models.current, warm=warm, watches=watches)

    @classmethod
    def open(cls, home: Path | None = None) -> Engine:
        """An engine on `home`, or on the user's own data folder. Raises as the constructor does."""
        return cls(Home.under(home) if home else Home.find())

    def close(self) -> None:
        """Cancels what runs, stops the workers, gives everything back. A second call does nothing.

        Whatever goes wrong, nothing is left out; the first error is raised at the end.
        """
        self.begin_closing()
        ticker = () if self._ticker is None else (self._ticker.stop,)
        getting = self._getting_embedders.stop, self._getting.stop
        close_all(*getting, self._parts.stop, *ticker, self._parts.close, self._lock_file.release)

    def begin_closing(self) -> None:
        """Cancels what runs and waits for nothing; the load of a model that is under way is ended on purpose by now."""
        self._parts.trials.note_closing()
        self.cancel_all()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        """Calls `listener` with every event from now on; the returned function ends that."""
        return self._listeners.subscribe(listener)

    # --- settings ---

    @property
    def settings(self) -> Settings:
        return self._settings.settings

    @property
    def settings_problem(self) -> str:
        """What of the settings' file is not used, in a sentence; "" where all of it is."""
        return self._settings.problem

    @property
    def index_problem(self) -> str:
        """Why nothing is found though documents were read, in a sentence; "" where it is not so, or not opened yet."""
        return self._parts.stores.index_problem()

    def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        """Applies and saves changes by dotted name. Another embedding model begins to move the library to it.

        Raises:
            BadRequest: A name or a value is none; then nothing has changed.
            EmbedderUnavailable: The embedding model is not on this computer; likewise.
        """
        if isinstance(model := changes.get("embedder.model"), str):
            resolve(EmbedderSettings(model=model))
        if isinstance(folder := changes.get("models.folder"), str) and folder != self.settings.models.folder:
            changes = {**self.settings.models.changes_to(folder), **changes}
        before = self._settings.settings.embedder.model
        settings = self._settings.change(changes)
        self._parts.stores.apply_settings()
        self._parts.generation.apply_settings()
        self._parts.adapting.wake()
        if "embedder.model" in changes or settings.embedder.model != before:
            # It may have been written into the file by hand.
            self._parts.indexer.consider_move()
        self._parts.watcher.wake()
        self._listeners.publish(SettingsChanged())
        return settings

    # --- library ---

    def add(self, paths: Sequence[str | Path], collection: str = DEFAULT_COLLECTION) -> IndexFinished:
        """Indexes folders and files and waits for it.

        Raises:
            BadRequest: A path is empty.
            NothingThere: A path does not exist.
            LibraryError: Something that concerns all files (disk full, embedder missing); what is done stays.
        """
        return self.start_adding_all([str(path) for path in paths], collection).wait()

    def start_adding_all(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Queues the same; all or nothing. Raises as it does."""
        return self._add([absolute(path) for path in paths], collection)

    def start_adding(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Queues what of it is there; progress and end come as events, and so does what is not there.

        Raises:
            NothingThere: No path exists.
        """
        wanted = [absolute(path) for path in paths]
        there = [path for path in wanted if os.path.exists(path)]
        if 0 < len(there) < len(wanted):
            # Of three hundred files that were dropped, one may have vanished: the others are wanted all the same.
            self._listeners.publish(ProblemFound(not_added([path for path in wanted if path not in there])))
        return self._add(there or wanted, collection)

    def _add(self, paths: Sequence[str], collection: str) -> IndexJob:
        job = self._parts.indexer.add(paths, collection)
        self._parts.watcher.wake()
        return job

    def rescan(self) -> IndexFinished:
        """Looks at all linked folders for what is new, changed or gone, and waits for it. Raises LibraryError."""
        return self.start_rescan().wait()

    def start_rescan(self) -> IndexJob:
        """Queues the same."""
        return self._parts.indexer.rescan()

    def folders(self) -> tuple[Folder, ...]:
        """The linked folders and files, and how each stands."""
        return tuple(
            Folder(
                path=linked.root.path,
                collection=linked.root.collection,
                absence=linked.root.absence,
                is_folder=linked.root.is_folder,
                is_watched=self._parts.watcher.is_watched(linked.root),
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
        return self._parts.indexer.settle_gone(absolute(folder), remove=remove)

    def start_reindexing(self, paths: Sequence[str]) -> IndexJob:
        """Reads these documents again, also failed ones."""
        return self._parts.indexer.reindex([absolute(path) for path in paths])

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
        return self._parts.indexer.unlock([absolute(path) for path in paths], password, remember=remember)

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
        return self._parts.stores.state()

    @property
    def getting_embedders(self) -> GettingEmbedders:
        """Embedding models of the hub: which there are, and having one fetched and used."""
        return self._getting_embedders

    def embedders(self) -> tuple[EmbedderEntry, ...]:
        """Embedding models that can be got, or were."""
        return self._getting_embedders.entries()

    def get_embedder(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Fetches one and uses it, and tells how far it is; raises as `get_model`, and where it is no embedding model.

        Returns:
            Its folder.
        """
        return self._getting_embedders.get(name, pause)

    def delete_embedder(self, name: str) -> None:
        """Deletes the files of one that was got, unless it is in use.

        Raises:
            BadRequest: Nothing is called so, it is not here, it is in use, or it is none that was got.
            ModelError: The system does not let us delete them.
        """
        self._getting_embedders.delete(name)

    def start_moving(self) -> IndexJob:
        """Moves the library to the embedding model that the settings name, when nothing else waits.

        An engine that is not `warm` does so only when it is asked to. It ends at once where there is nothing to move,
        and where the model is not on this computer; `embedder` says how far it is, an `IndexFailed` why it stopped.
        """
        return self._parts.indexer.consider_move()

    def start_prioritising(self, paths: Sequence[str]) -> IndexJob | None:
        """Has it read next; the job that does it, or None as above. Raises NothingThere as above."""
        return self._parts.indexer.prioritise([absolute(path) for path in paths])

    def path_states(self, paths: Sequence[str | Path]) -> tuple[PathState, ...]:
        """Whether what lies at each path can be asked about, is still to be read, or cannot be had."""
        return self._parts.indexer.path_states([absolute(str(path)) for path in paths])

    def remove(self, paths: Sequence[str | Path]) -> int:
        """Takes documents out of the library; returns how many. Raises NothingThere for what is not in it."""
        removed = self._parts.indexer.remove([absolute(str(path)) for path in paths])
        self._parts.watcher.wake()
        return removed

    def pause_indexing(self) -> None:
        self._parts.indexer.pause()

    def resume_indexing(self) -> None:
        self._parts.indexer.resume()

    @property
    def is_paused(self) -> bool:
        """Whether indexing is paused, and what is added waits."""
        return self._parts.indexer.is_paused

    def cancel_indexing(self) -> None:
        self._parts.indexer.cancel()

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

    def page(
        self, document_id: int, page: int | None, start: int, end: int, width_px: int = 900, text: str = ""
    ) -> PageView:
        """A page with a passage marked, for the viewer; read anew from the file.

        `text` is what was cited: where the file has changed since, it is looked for, and nothing else is marked.
        """
        path = self.document(document_id).path
        passwords = self._catalog.passwords_of(document_id)
        languages = self.settings.library.ocr_languages
        return self._parts.viewer.page(path, page, start, end, width_px, passwords, languages, text)

    def disk_bytes(self) -> int:
        """What the library takes on disk."""
        return bytes_below(self.home.library)

    # --- questions ---

    def submit(self, question: Question) -> None:
        """Queues a question; its life comes as events and ends in finished, cancelled or failed.

        Raises:
            BadRequest: Empty text, a date that is none, sampling that cannot be, or the id of a question still open.
            NothingThere: There is no such collection.
            ModelError: The question names a model that cannot be used.
        """
        self.take(question)()

    def take(self, question: Question) -> Callable[[], None]:
        """Registers a question, which can be cancelled from now on, and waits for nothing.

        Returns:
            What does all else that `submit` does, and raises as it does: looking at a file may take minutes.

        Raises:
            BadRequest: The id is that of a question still open.
        """
        in_flight = QuestionInFlight(question)
        self._questions.add(in_flight)
        return partial(self._hand_over, in_flight)

    def _hand_over(self, in_flight: QuestionInFlight) -> None:
        question = in_flight.question
        try:
            check_question(question.text, question.sampling)
            _check_unfinished(question.unfinished)
            _check_top_k(question.top_k)
            self._check_scope(question.collection, question.filters)
            in_flight.question = replace(
                question,
                text=well_formed(question.text),
                instructions=well_formed(question.instructions),
                model=self._choice.asked_for(question.model),
            )
        except BaseException as error:
            if self._questions.withdraw(in_flight) or not isinstance(error, Exception):
                raise
            # It has ended as cancelled: nobody waits for a refusal.
            log.info("question %s was cancelled before it was refused: %s", question.question_id, error)
            return
        if self._questions.hand_over(in_flight):
            self._parts.goodput.asked(in_flight.question)
            if in_flight.question.searches or in_flight.question.unfinished is not None:
                self._parts.answer(in_flight)
            else:
                self._put_to_model(in_flight)

    def _put_to_model(self, in_flight: QuestionInFlight) -> None:
        """Hands a question to whoever writes, with nothing to go by: it waits for no search, and needs no index."""
        in_flight.timeline.mark("retrieval_started")
        in_flight.timeline.mark("retrieval_ended")
        self._listeners.publish(AnswerStateChanged(in_flight.question.question_id, "queued"))
        self._parts.generation.submit(in_flight, _NOTHING_SEARCHED)

    def cancel(self, question_id: str) -> None:
        """Stops a question soon, and waits for nothing; harmless when it has ended."""
        if self._questions.cancel(question_id):
            self._listeners.publish(AnswerCancelled(question_id))

    def cancel_all(self) -> None:
        """Stops all questions soon."""
        for in_flight in self._questions.all():
            self.cancel(in_flight.question.question_id)

    def ask(self, text: str, **options: Any) -> Answer:
        """Asks and waits. `options` are fields of Question (collection, transcript, sampling …).

        Raises:
            RagdollError: Why it failed.
        """
        return self.ask_many([text], **options)[0].answer

    def ask_many(self, texts: Sequence[str], **options: Any) -> list[AnswerFinished]:
        """Asks all at once and waits for all; answers in the order of the texts. Raises the first failure."""
        return [finished(end) for end in self.ask_each(texts, **options)]

    def ask_each(self, texts: Sequence[str], models: Sequence[str] | None = None, **options: Any) -> list[AnswerEnded]:
        """As `ask_many`, but raises nothing: how each question ended, in the order of the texts."""
        return list(self.ask_in_turn(texts, models, **options))

    def ask_in_turn(
        self, texts: Sequence[str], models: Sequence[str] | None = None, **options: Any
    ) -> Generator[AnswerEnded, None, None]:
        """The same, each told once all before it have ended. Closing it cancels what is left.

        `models`: the one that each names, "" for the chosen one; None: all the same, by `options`.
        """
        options = self._by_settings(options)
        # Many at once are a script's, which can wait for somebody at the window.
        options.setdefault("priority", "batch" if len(texts) > 1 else "interactive")

        def ask(number: int, question_id: str) -> Question:
            question = Question(question_id, texts[number], **options)
            return question if models is None else replace(question, model=models[number])

        with closing(ask_each(range(len(texts)), ask, self.submit, self.cancel, self.subscribe)) as ends:
            yield from in_turn(ends)

    def ask_each_file(
        self, text: str, collection: str | None = None, filters: Filters = ANYWHERE, **options: Any
    ) -> Generator[tuple[Document, AnswerEnded], None, None]:
        """Puts a question to each document of a collection, or of all, and tells of each how it ended, as it does.

        Somebody at the window goes before them. `options` are fields of Question. Closing it cancels what is left.

        Raises:
            BadRequest: The question is empty, or sampling or a date of the filters cannot be.
            NothingThere: There is no such collection, or nothing that was read of the library at a path.
        """
        options = self._by_settings(options)
        check_question(text, options["sampling"])
        documents = self.documents_to_ask(collection, filters)

        def ask(document: Document, question_id: str) -> Question:
            return Question(question_id, text, filters=confined_to(document), priority="batch", **options)

        return ask_each(documents, ask, self.submit, self.cancel, self.subscribe)

    def documents_to_ask(self, collection: str | None = None, filters: Filters = ANYWHERE) -> tuple[Document, ...]:
        """The documents that `ask_each_file` asks, ordered by path. Raises NothingThere and BadRequest as it does."""
        self._check_scope(collection, filters)
        documents = self._catalog.stored_documents(collection, filters)
        if not documents:
            raise NothingThere("There is no file to ask here.", "Add files first, or ask with fewer filters.")
        return documents

    def _by_settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """Fields of Question, with those that the settings choose where they are not given."""
        generation = self.settings.generation
        return {"sampling": generation.sampling(), "instructions": generation.instructions, **options}

    def search(self, query: str, top_k: int, collection: str | None = None, filters: Filters = ANYWHERE) -> Evidence:
        """Passages for one query. Raises as `search_many` does."""
        return self.search_many([query], top_k, collection, filters)[0]

    def search_many(
        self, queries: Sequence[str], top_k: int, collection: str | None = None, filters: Filters = ANYWHERE
    ) -> list[Evidence]:
        """Passages for many queries at once: one sweep costs little more than one query.

        Raises:
            NothingThere: There is no such collection, or nothing of the library at a path of the filters.
            BadRequest: A date of the filters is none, or nobody reads so many passages.
        """
        _check_top_k(top_k)
        self._check_scope(collection, filters)
        return self._parts.retrieval.search(list(map(well_formed, queries)), top_k, collection, filters)

    # --- models and memory ---

    def models(self) -> tuple[ModelEntry, ...]:
        return self._getting.on_shelf()

    def add_model(self, path: Path) -> ModelEntry:
        """Puts a GGUF file on the shelf. Raises ModelError when it cannot be used."""
        return self._choice.add(path)

    def forget_model(self, path: Path) -> None:
        """Takes it off the shelf; the file stays where it is."""
        self._choice.forget(path)

    def delete_model(self, name: str) -> None:
        """Deletes a model that was got, by its file or its name among the known ones, and takes it off the shelf.

        Raises:
            BadRequest: It lies outside of the folder of models, or somebody waits for what it writes.
            ModelError: The system does not let us delete it.
        """
        self._getting.delete(self._choice.named(name) or Path(name))

    def use_model(
        self,
        path: Path | None,
        n_gpu_layers: int | None = None,
        *,
        remember: bool = True,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Answers with this model from the next question on; None means with quotes only.

        Nothing changes where it `is_wanted` no more once its file was looked at.

        Raises:
            ModelError: The file cannot be used (that it also loads comes as ModelStateChanged).
        """
        self._choice.use(path, n_gpu_layers, remember=remember, is_wanted=is_wanted)

    def choose_model(self, name: str) -> None:
        """Uses a model by its file, its name among the known ones, or "none". Raises ModelError."""
        self._choice.use(self._choice.named(name))

    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        """Models that can be got from the hub, and how far each is; nothing is asked of the hub for it."""
        return self._getting.catalogue()

    def models_begun(self) -> tuple[CatalogueEntry, ...]:
        """Models that are not in the catalogue and are on their way here, were stopped on it, or are here in part."""
        return self._getting.others()

    def look_up_model(self, name: str) -> HubFiles:
        """What a link or a name means of the hub: one file, or those of a repository, which it is asked for.

        Raises:
            BadRequest: Nothing is called so, or the link leads elsewhere.
            DownloadFailed: The hub has no such repository or no model in it, or cannot be reached.
        """
        return self._getting.look_up(name)

    def get_model(self, name: str, pause: Callable[[float], object] = time.sleep) -> Generator[Fetched, None, Path]:
        """Fetches a model by its name in the catalogue, OWNER/NAME/FILE.gguf or its link, and tells how far it is.

        It is put on the shelf, and used if it is the first. Closed in between, what was fetched is kept.

        Returns:
            Where its file is.

        Raises:
            BadRequest: Nothing is called so.
            DownloadFailed: The hub does not give it, or what came is not what the hub says it has.
            DiskFull: There is no room for it.
            ModelFileInvalid: It came, and cannot be used.
        """
        return self._getting.get(name, pause)

    def start_getting_model(self, name: str) -> None:
        """Does the same in the background, one at a time; it comes as DownloadsChanged. Raises BadRequest."""
        self._getting.start(name)

    def cancel_getting_model(self, name: str) -> None:
        """Stops that soon, and waits for nothing; what was fetched is kept."""
        self._getting.cancel(name)

    def discard_part_of_model(self, name: str) -> None:
        """Removes what was fetched of a model that is not whole; stops it where it is on its way."""
        self._getting.discard(name)

    def measure_model(self) -> Iterator[MeasuringProgressed]:
        """Measures how fast the chosen model is here, as far as that is not known, and tells how far it is.

        It ends sooner where somebody asks something meanwhile; what was measured until then is kept.

        Raises:
            BadRequest: No model is chosen.
            ModelError: It cannot be loaded.
        """
        if not self._parts.generation.load_now().result():
            raise BadRequest("No model is in use.", "Choose one first: ragdoll models use FILE.")
        yield from self._parts.rehearsing.points()

    def measured(self) -> str:
        """What is known by measurement of the model that is loaded, in a sentence; "" where nothing is."""
        return self._parts.rehearsing.sentence()

    def memory(self) -> MemoryReply:
        """Who holds what, now."""
        self.ledger.look()
        return self._picture()

    def start_ticker(self, publish: Callable[[MemoryReply], None]) -> None:
        """Hands a snapshot to `publish` when something changed (at most ten a second), and once a second."""
        self._ticker = SnapshotTicker(self._picture, publish)
        self._ticker.start()

    # --- inside ---

    def _keep_embedder(self) -> None:
        """Where the settings could not be read, the library stays with the embedding model that it has."""
        if not self._settings.knows("embedder.model") and (table := self._catalog.active_table()) is not None:
            self._settings.assume({"embedder.model": table.model})

    def _embedders_used(self) -> tuple[str, ...]:
        """As the settings name them: the one that they name now, and what the library is searched with or moves to."""
        tables = self._catalog.active_table(), self._catalog.next_table()
        return (self.settings.embedder.model, *(table.model for table in tables if table is not None))

    def _picture(self) -> MemoryReply:
        """Who holds what; what has to be measured is a second old at most."""
        self._runtime.settle()
        return self._accounts.memory(self._hardware(), len(self._questions.all()))

    def _hardware(self) -> Hardware:
        return probe(self.home.data, self._parts.models.principal.loader.devices)

    def _note_change(self) -> None:
        if self._ticker is not None:
            self._ticker.note_change()

    def _check_scope(self, collection: str | None, filters: Filters) -> None:
        if collection is not None or filters != ANYWHERE:
            self._catalog.extent(collection, filters)
        for path in filters.paths:
            if not self._catalog.extent(None, Filters(paths=(path,))).files:
                raise NothingThere(f"Nothing at {path} is in the library.", "The library page lists what is.")


def check_question(text: str, sampling: SamplingParams) -> None:
    """Raises BadRequest for a question that is empty, and for sampling that cannot be."""
    if not text.strip():
        raise BadRequest("The question is empty.")
    check_sampling(sampling)


def _check_unfinished(unfinished: Unfinished | None) -> None:
    if unfinished is not None and not unfinished.text.strip():
        raise BadRequest("This answer has no words yet that it could go on from.", "Ask again.")


def _check_top_k(top_k: int | None) -> None:
    if top_k is not None and not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f"{top_k} passages cannot be had, only from 1 to {MAX_TOP_K}.")


def absolute(path: str) -> str:
    """A path as it was typed, as the library knows it. Raises BadRequest for an empty one, which names no folder."""
    if not path:
        raise BadRequest("A path is empty.")
    return os.path.abspath(os.path.expanduser(path))
