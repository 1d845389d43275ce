"""The engine of the open window for commands: everything they ask is done there, over the protocol.

A command's questions end with it; files that it added are still indexed.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from engine import protocol
from engine.cli.caller import Caller
from engine.cli.output import say
from engine.config import Home, Settings, expanded
from engine.core import (
    DEFAULT_COLLECTION,
    QUOTES_ONLY,
    Collection,
    Document,
    Download,
    Evidence,
    Filters,
    Question,
)
from engine.each_file import ask_each, confined_to, until_model_fails
from engine.errors import Cancelled, DownloadFailed, EngineGone, LibraryHeld
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    DownloadsChanged,
    Event,
    IndexFinished,
    IndexProgressed,
    MeasuringProgressed,
    Publish,
)
from engine.interruptible import next_of
from engine.library.typed_paths import absolute
from engine.library.well_formed import well_formed
from engine.models.fetched import Fetched
from engine.models.known import named
from engine.notices import event_of
from engine.protocol import (
    CatalogueEntry,
    EmbedderEntry,
    EmbedderState,
    Folder,
    FoundModel,
    HubFiles,
    HubFolder,
    HubModel,
    HubRepository,
    HubWords,
    MemoryReply,
    Method,
    ModelEntry,
    ModelFile,
    Nothing,
    Notice,
    Paths,
    RerankerEntry,
)
from engine.retrieval.query import ANYWHERE
from engine.waiting import finished, in_turn

log = logging.getLogger(__name__)
# How many passages of a batch of searches come in one line, and how many documents in another.
PASSAGES_AT_ONCE, DOCUMENTS_AT_ONCE = 4096, 500
_ASKED = protocol.Ask.model_fields.keys() & {field.name for field in fields(Question)}

Asked = TypeVar("Asked")


class RunningEngine:
    """Implements `Commanded`. Paths and names are resolved as in the process of the command."""

    def __init__(self, home: Home, connection: socket.socket) -> None:
        """Connects. Raises as Caller does."""
        self.home = home
        self._listeners: list[Publish] = []
        self._open = set[str]()
        # The model that answers this command's questions, "" for the chosen one.
        self._model = ""
        self._caller = Caller(connection, self._hear)
        self._caller.gone.add_done_callback(lambda gone: self._give_up(gone.result()))

    def close(self) -> None:
        """Closes the connection; open questions are cancelled there."""
        self._caller.close()

    def __enter__(self) -> RunningEngine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def subscribe(self, listener: Publish) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- settings ---

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(self._ask(protocol.SETTINGS_GET).settings)

    @property
    def settings_problem(self) -> str:
        return self._ask(protocol.SETTINGS_GET).problem

    @property
    def settings_pending(self) -> str:
        return self._ask(protocol.SETTINGS_GET).pending

    @property
    def index_problem(self) -> str:
        return self._ask(protocol.LIBRARY).index_problem

    def change_settings(self, changes: Mapping[str, Any]) -> Settings:
        params = protocol.SetSettings(changes=dict(changes))
        return Settings.model_validate(self._caller.request(protocol.SETTINGS_SET, params).settings)

    # --- library ---

    def add(self, paths: Sequence[str | Path], collection: str = DEFAULT_COLLECTION) -> IndexFinished:
        return self._indexed(protocol.ADD_AND_WAIT, protocol.AddPaths(paths=_all(paths), collection=collection))

    def rescan(self) -> IndexFinished:
        return self._indexed(protocol.RESCAN_AND_WAIT, Nothing())

    def prioritise(self, paths: Sequence[str | Path]) -> IndexFinished:
        return self._indexed(protocol.PRIORITISE_AND_WAIT, Paths(paths=_all(paths)))

    def unlock(self, paths: Sequence[str | Path], password: str, *, remember: bool = False) -> IndexFinished:
        params = protocol.Unlock(paths=_all(paths), password=password, remember=remember)
        return self._indexed(protocol.UNLOCK_AND_WAIT, params)

    def settle_gone(self, folder: str, *, remove: bool) -> int:
        params = protocol.SettleGone(folder=absolute(folder), remove=remove)
        return self._caller.request(protocol.SETTLE_GONE, params).documents

    def remove(self, paths: Sequence[str | Path]) -> int:
        return self._caller.request(protocol.REMOVE, Paths(paths=_all(paths))).documents

    def rename_collection(self, name: str, new_name: str) -> None:
        self._caller.request(protocol.RENAME_COLLECTION, protocol.RenameCollection(name=name, new_name=new_name))

    def delete_collection(self, name: str) -> int:
        return self._caller.request(protocol.DELETE_COLLECTION, protocol.CollectionNamed(name=name)).documents

    def collections(self) -> tuple[Collection, ...]:
        return self._ask(protocol.LIBRARY).collections

    def folders(self) -> tuple[Folder, ...]:
        return self._ask(protocol.LIBRARY).folders

    def documents_by_state(self) -> dict[str, int]:
        return self._caller.request(protocol.DOCUMENTS, protocol.ListDocuments(limit=1)).by_state

    def disk_bytes(self) -> int:
        return self._ask(protocol.LIBRARY).disk_bytes

    def embedder(self) -> EmbedderState:
        return self._ask(protocol.LIBRARY).embedder

    def memory(self) -> MemoryReply:
        return self._ask(protocol.MEMORY)

    # --- questions ---

    def search(self, query: str, top_k: int, collection: str | None = None, filters: Filters = ANYWHERE) -> Evidence:
        return self.search_many([query], top_k, collection, filters)[0]

    def search_many(
        self, queries: Sequence[str], top_k: int, collection: str | None = None, filters: Filters = ANYWHERE
    ) -> list[Evidence]:
        some, found = max(1, PASSAGES_AT_ONCE // top_k), list[protocol.SearchReply]()
        for start in range(0, len(queries), some):
            texts = tuple(map(well_formed, queries[start : start + some]))
            params = protocol.SearchMany(queries=texts, top_k=top_k, collection=collection, filters=filters)
            found += self._caller.request(protocol.SEARCH_MANY, params).found
        return [Evidence(one.passages, (), one.scope) for one in found]

    def ask_many(self, texts: Sequence[str], **options: Any) -> list[AnswerFinished]:
        return [finished(end) for end in self.ask_in_turn(texts, **options)]

    def ask_in_turn(
        self, texts: Sequence[str], models: Sequence[str] | None = None, **options: Any
    ) -> Generator[AnswerEnded, None, None]:
        settings = self.settings
        known = settings.models.known
        options = {"priority": "batch" if len(texts) > 1 else "interactive", **_by_settings(settings), **options}

        def ask(number: int, question_id: str) -> Question:
            named = _file(models[number], known) if models is not None and models[number] else self._model
            return Question(question_id, texts[number], **{"model": named, **options})

        with closing(self._asked(range(len(texts)), ask)) as ends:
            yield from in_turn(ends if any(models or ()) else until_model_fails(ends))

    def ask_each_file(
        self, text: str, collection: str | None = None, filters: Filters = ANYWHERE, **options: Any
    ) -> Generator[tuple[Document, AnswerEnded], None, None]:
        # Imported here: it checks grammars with llama.cpp, which other commands do not need.
        from engine.askable import check_question

        options = {**_by_settings(self.settings), **options, "model": self._model, "priority": "batch"}
        check_question(text, options["sampling"])
        confined = protocol.Confined(collection=collection, filters=filters)
        document_ids = self._caller.request(protocol.DOCUMENTS_TO_ASK, confined).document_ids

        def ask(document: Document, question_id: str) -> Question:
            return Question(question_id, text, filters=confined_to(document), **options)

        # Submits all of them now, as an engine in this process would.
        return until_model_fails(self._asked([*self._documents(document_ids)], ask))

    def submit(self, question: Question) -> None:
        given = {name: getattr(question, name) for name in _ASKED}
        words = {"text": well_formed(question.text), "instructions": well_formed(question.instructions)}
        self._open.add(question.question_id)
        try:
            self._caller.request(protocol.ASK, protocol.Ask(**{**given, **words}))
        except BaseException:
            self._open.discard(question.question_id)
            raise

    def cancel(self, question_id: str) -> None:
        self._caller.tell(protocol.CANCEL, protocol.CancelQuestion(question_id=question_id))

    # --- models ---

    def models(self) -> tuple[ModelEntry, ...]:
        return self._ask(protocol.MODELS).models

    def models_elsewhere(self) -> tuple[FoundModel, ...]:
        return self._ask(protocol.MODELS_ELSEWHERE).models

    def add_model(self, path: Path) -> ModelEntry:
        return self._caller.request(protocol.MODELS_ADD, ModelFile(path=str(expanded(path))))

    def choose_model(self, name: str) -> None:
        file = self._named(name)
        if file == QUOTES_ONLY:
            self._ask(protocol.MODELS_UNLOAD)
        else:
            self._caller.request(protocol.MODELS_USE, ModelFile(path=file))

    def use_model(self, path: Path | None, *, remember: bool) -> None:
        """Uses a model, or none, for the questions of this command; the window keeps its own."""
        if path is None:
            self._model = QUOTES_ONLY
            return
        # Imported here: it reads the file with numpy, which other commands do not need.
        from engine.models.gguf import read_shape

        assert not remember
        file = expanded(path)
        read_shape(file)
        self._model = str(file)

    def forget_model(self, path: Path) -> None:
        self._caller.request(protocol.MODELS_FORGET, ModelFile(path=str(path)))

    def delete_model(self, name: str) -> None:
        self._caller.request(protocol.MODELS_DELETE, ModelFile(path=self._named(name)))

    def catalogue(self) -> tuple[CatalogueEntry, ...]:
        return self._ask(protocol.MODELS_CATALOGUE).models

    def look_up_model(self, name: str) -> HubFiles:
        return self._caller.request(protocol.MODELS_LOOK_UP, HubModel(source=name))

    def search_models(self, words: str) -> tuple[HubRepository, ...]:
        return self._caller.request(protocol.MODELS_SEARCH, HubWords(words=words)).repositories

    def get_model(self, name: str) -> Generator[Fetched, None, Path]:
        """Does the same as Engine's, but queued behind the window's downloads; stopped if the generator is closed."""
        source = self.look_up_model(name).files[0].source
        steps, wanted = SimpleQueue[Download | EngineGone](), HubModel(source=source)

        def hear(event: Event) -> None:
            if isinstance(event, DownloadsChanged):
                for download in event.downloads:
                    if download.source == source:
                        steps.put(download)

        self._caller.gone.add_done_callback(lambda gone: steps.put(gone.result()))
        unsubscribe = self.subscribe(hear)
        try:
            self._caller.request(protocol.MODELS_GET, wanted)
            while steps.qsize() > 1:
                # Events before the reply belong to an earlier attempt, except the last one.
                steps.get()
            yield from _until_there(iter(partial(next_of, steps), None))
        except DownloadFailed:
            raise
        except BaseException:
            self._caller.tell(protocol.MODELS_CANCEL_GETTING, wanted)
            raise
        finally:
            unsubscribe()
        return Path(self.look_up_model(source).files[0].model.path)

    def embedders(self) -> tuple[EmbedderEntry, ...]:
        return self._ask(protocol.EMBEDDERS).embedders

    def get_embedder(self, name: str) -> Generator[Fetched, None, Path]:
        raise LibraryHeld(
            "Ragdoll is already open, and downloads embedding models itself.",
            "Get it in the settings of the window, under Library, or close the window (or end ragdoll serve).",
        )

    def delete_embedder(self, name: str) -> None:
        self._caller.request(protocol.EMBEDDERS_DELETE, HubFolder(source=name))

    def rerankers(self) -> tuple[RerankerEntry, ...]:
        return self._ask(protocol.RERANKERS).rerankers

    def get_reranker(self, name: str) -> Generator[Fetched, None, Path]:
        raise LibraryHeld(
            "Ragdoll is already open, and downloads rerankers itself.",
            "Get it in the settings of the window, under Library, or close the window (or end ragdoll serve).",
        )

    def delete_reranker(self, name: str) -> None:
        self._caller.request(protocol.RERANKERS_DELETE, HubFolder(source=name))

    def measure_model(self) -> Iterator[MeasuringProgressed]:
        raise LibraryHeld(
            "Ragdoll is already open, and measures its model itself while it is idle.",
            "To have it done now, close the window (or end ragdoll serve).",
        )

    def measured(self) -> str:
        return ""

    # --- inside ---

    def _ask(self, method: Method[Nothing, protocol.R]) -> protocol.R:
        return self._caller.request(method, Nothing())

    def _indexed(self, method: Method[protocol.P, protocol.IndexReport], params: protocol.P) -> IndexFinished:
        """Starts indexing something, and waits for it.

        Raises:
            Cancelled: It was cancelled in the window.
        """
        unsubscribe = self.subscribe(_tell_of_pause)
        try:
            if self._ask(protocol.LIBRARY).is_paused:
                _say_paused()
            report = self._caller.request(method, params)
        except KeyboardInterrupt:
            say("the open Ragdoll continues it.")
            raise
        finally:
            unsubscribe()
        if report.was_cancelled:
            raise Cancelled("Reading was stopped in the window.", "The same command continues it.")
        given = {field.name: getattr(report, field.name) for field in fields(IndexFinished)}
        pairs = {name: _pairs(given[name]) for name in ("skipped", "failed", "in_part")}
        return IndexFinished(**{**given, **pairs})

    def _asked(
        self, several: Iterable[Asked], ask: Callable[[Asked, str], Question]
    ) -> Generator[tuple[Asked, AnswerEnded], None, None]:
        """Does the same as `ask_each`, but raises EngineGone when the engine ends, instead of failing each question."""
        with closing(ask_each(several, ask, self.submit, self.cancel, self.subscribe)) as ends:
            for one, end in ends:
                if isinstance(end, AnswerFailed) and isinstance(end.error, EngineGone):
                    raise end.error
                yield one, end

    def _documents(self, document_ids: Sequence[int]) -> Iterator[Document]:
        """Yields those that still exist, in order."""
        for start in range(0, len(document_ids), DOCUMENTS_AT_ONCE):
            some = tuple(document_ids[start : start + DOCUMENTS_AT_ONCE])
            params = protocol.ListDocuments(document_ids=some, limit=len(some))
            yield from self._caller.request(protocol.DOCUMENTS, params).documents

    def _named(self, name: str) -> str:
        return _file(name, self.settings.models.known)

    def _hear(self, notice: Notice) -> None:
        if (event := event_of(notice)) is not None:
            self._publish(event)

    def _publish(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            self._open.discard(event.question_id)
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                # On the thread that receives events.
                log.exception("a listener failed at %s", type(event).__name__)

    def _give_up(self, gone: EngineGone) -> None:
        for question_id in tuple(self._open):
            self._publish(AnswerFailed(question_id, gone))


def _tell_of_pause(event: Event) -> None:
    if isinstance(event, IndexProgressed) and event.is_paused:
        _say_paused()


def _say_paused() -> None:
    say("reading is paused in the window; this command waits until it continues there.")


def _by_settings(settings: Settings) -> dict[str, Any]:
    return {"sampling": settings.generation.sampling(), "instructions": settings.generation.instructions}


def _until_there(steps: Iterator[Download | EngineGone]) -> Generator[Fetched, None, None]:
    """Yields the progress of a download until it is complete. Raises DownloadFailed and EngineGone."""
    for step in steps:
        if isinstance(step, EngineGone):
            raise step
        if step.problem:
            raise DownloadFailed(step.problem, step.way_out)
        if step.state == "there":
            return
        if step.state in ("absent", "part"):
            raise DownloadFailed("The download was stopped in the window.", "The same command continues it.")
        if step.state != "waiting":
            yield Fetched(step.num_bytes, step.total_bytes, is_new=step.state == "fetching")


def _all(paths: Sequence[str | Path]) -> tuple[str, ...]:
    return tuple(absolute(str(path)) for path in paths)


def _file(name: str, known: Sequence[str]) -> str:
    """Returns the file of the model with a name, or "none"."""
    return QUOTES_ONLY if name == QUOTES_ONLY else str(named(known, name) or expanded(name))


def _pairs(problems: Sequence[protocol.DocumentProblem]) -> tuple[tuple[str, str], ...]:
    return tuple((problem.path, problem.reason) for problem in problems)
