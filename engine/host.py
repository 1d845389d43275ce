"""The engine as a process: one engine, the window that started it and its guests, until stdin ends.

The window has a session (session.py) over the process's pipes, and ends the process; guests use the door (guests.py).
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from engine import protocol
from engine.api.server import Server
from engine.core import Evidence, Question
from engine.engine import Engine
from engine.errors import RagdollError
from engine.events import Event
from engine.guests import listening
from engine.library.worker import IndexJob
from engine.notices import brief_report_of, report_of
from engine.outlet import Outlet
from engine.protocol import Message, Nothing
from engine.retrieval.search import MAX_RERANKED
from engine.session import Awaited, Session, Work
from engine.wire import Request

log = logging.getLogger(__name__)


class Host:
    """Joins one engine to one pair of pipes, and to a door for guests."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._engine: Engine | None = None
        self._server: Server | None = None
        self._guests = ExitStack()
        self._desk = EngineDesk()
        self._window = Session(outlet, self._desk)

    def open(self, open_engine: Callable[[Callable[[Event], None]], Engine]) -> None:
        """Opens the engine; if that fails, every request is answered with the reason."""
        try:
            self._engine = open_engine(self.publish)
            self._engine.start_ticker(lambda memory: self._outlet.notify(protocol.MemorySnapshot(memory=memory)))
            self._server = Server(
                self._engine, lambda state: self._outlet.notify(protocol.ServerChanged(**state.model_dump()))
            )
            self._desk.open(self._engine, self._server)
            self._window.aside(self._server.follow)
        except RagdollError as error:
            log.error("%s", error)
            self._desk.refuse(error)

    def listen(self) -> None:
        """Lets guests in from now on."""
        if self._engine is not None:
            self._guests.enter_context(listening(self._desk, self._engine))

    def publish(self, event: Event) -> None:
        """Receives the engine's events, on its threads, so it only queues."""
        self._window.publish(event)

    def serve(self, stream: BinaryIO) -> None:
        """Carries out the window's requests until it disconnects or requests shutdown."""
        self._window.serve(stream)

    def leave_questions_open(self) -> None:
        """Stops reporting questions as stopped or failed; see Session."""
        self._window.leave_questions_open()

    def close(self) -> None:
        """Ends the engine and writes the remaining messages."""
        # First of all, so that guests learn that the engine ends, and not that each of their questions was stopped.
        self._guests.close()
        if self._engine is not None:
            # Requests that are being carried out may be waiting for what gives way to questions.
            self._engine.begin_closing()
        self._window.close()
        if self._server is not None:
            self._server.close()
        if self._engine is not None:
            self._engine.close()
        self._outlet.close()


class EngineDesk:
    """Carries out the requests of all clients to one engine and to its HTTP server."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine
        self._server: Server | None = None
        self._refusal: RagdollError | None = None
        # The latest request to choose a model, or none: earlier requests whose file is still being read are void.
        self._choice: Request | None = None

    def open(self, engine: Engine, server: Server) -> None:
        self._engine, self._server = engine, server

    def refuse(self, error: RagdollError) -> None:
        """Records why there will be no engine."""
        self._refusal = error

    def take(self, asked: protocol.Ask) -> Callable[[], None]:
        engine = self._opened()
        return engine.take(_question(engine, asked))

    def cancel(self, question_id: str) -> None:
        self._opened().cancel(question_id)

    def choosing(self, request: Request) -> Work:
        before, self._choice = self._choice, request
        return partial(self._chosen, before)

    def _chosen(self, before: Request | None, request: Request) -> Message:
        """Chooses a model, unless another was chosen while this one's file was being checked."""
        try:
            _choose(self._opened(), request.params, lambda: self._choice is request)
        except BaseException:
            if self._choice is request:
                self._choice = before
            raise
        return Nothing()

    def carried_out(self, request: Request) -> Message | Awaited:
        engine = self._opened()
        if request.method is protocol.SERVER:
            return self._server.state if self._server is not None else protocol.ServerState()
        if isinstance(request.params, protocol.SetSettings):
            return self._with_settings(engine, request.params)
        return _HANDLERS[request.method.name](engine, request.params) or Nothing()

    def _with_settings(self, engine: Engine, params: protocol.SetSettings) -> Message:
        """Replies to a change of the server's settings with its key, which may have been created for it."""
        engine.change_settings(params.changes)
        if self._server is not None:
            self._server.follow()
        return _settings(engine, params)

    def _opened(self) -> Engine:
        if self._engine is None:
            raise self._refusal or RagdollError("The engine is closed.")
        return self._engine


def _choose(engine: Engine, params: Message, is_wanted: Callable[[], bool]) -> None:
    if isinstance(params, protocol.ModelFile):
        engine.use_model(Path(params.path), params.n_gpu_layers, is_wanted=is_wanted)
    else:
        engine.use_model(None, is_wanted=is_wanted)


def _question(engine: Engine, params: protocol.Ask) -> Question:
    settings = engine.settings.generation
    own = params.manner.model_dump(exclude_none=True)
    instructions = own.pop("instructions", params.instructions)
    sampling = replace(params.sampling or settings.sampling(), **own)
    if params.num_answers is not None:
        sampling = replace(sampling, num_answers=params.num_answers)
    if params.sampling is None:
        sampling = sampling.with_usable_beams()
    return Question(
        question_id=params.question_id,
        text=params.text,
        collection=params.collection,
        conversation_id=params.conversation_id,
        transcript=params.transcript,
        top_k=params.top_k,
        sampling=sampling,
        filters=params.filters,
        priority=params.priority,
        model=params.model,
        instructions=settings.instructions if instructions is None else instructions,
        unfinished=params.unfinished,
        searches=params.searches,
    )


def _add(engine: Engine, params: protocol.AddPaths) -> None:
    engine.start_adding(params.paths, params.collection)


def _add_and_wait(engine: Engine, params: protocol.AddPaths) -> Awaited:
    return _report(engine.start_adding_all(params.paths, params.collection))


def _unlock(engine: Engine, params: protocol.Unlock) -> None:
    engine.start_unlocking(params.paths, params.password, remember=params.remember)


def _unlock_and_wait(engine: Engine, params: protocol.Unlock) -> Awaited:
    return _report(engine.start_unlocking(params.paths, params.password, remember=params.remember))


def _rescan(engine: Engine, params: Nothing) -> None:
    engine.start_rescan()


def _reindex(engine: Engine, params: protocol.Paths) -> None:
    engine.start_reindexing(params.paths)


def _prioritise(engine: Engine, params: protocol.Paths) -> None:
    engine.start_prioritising(params.paths)


def _prioritise_and_wait(engine: Engine, params: protocol.Paths) -> Message | Awaited:
    job = engine.start_prioritising(params.paths)
    return _report(job) if job is not None else protocol.IndexReport()


def _report(job: IndexJob) -> Awaited:
    return Awaited(job.ended, report_of)


def _search(engine: Engine, params: protocol.Search) -> Message:
    return _found(engine.search(params.query, params.top_k, params.collection, params.filters))


def _search_many(engine: Engine, params: protocol.SearchMany) -> Message:
    several = engine.search_many(params.queries, params.top_k, params.collection, params.filters)
    return protocol.SearchManyReply(found=tuple(map(_found, several)))


def _found(evidence: Evidence) -> protocol.SearchReply:
    return protocol.SearchReply(passages=evidence.passages, scope=evidence.scope)


def _documents_to_ask(engine: Engine, params: protocol.Confined) -> Message:
    documents = engine.documents_to_ask(params.collection, params.filters)
    return protocol.DocumentsToAsk(document_ids=tuple(document.document_id for document in documents))


def _page(engine: Engine, params: protocol.PageRequest) -> Message:
    span = (params.page, params.start, params.end)
    view = engine.page(params.document_id, *span, params.width_px, params.text)
    document = engine.document(params.document_id)
    return protocol.PageReply(
        document=document.path,
        page=view.page,
        num_pages=view.num_pages,
        image_png=base64.b64encode(view.image_png).decode("ascii"),
        marks=view.marks,
        text=view.text,
        text_start=view.text_start,
        mark_start=view.mark_start,
        mark_end=view.mark_end,
        place=view.place,
        is_changed=view.is_changed,
    )


def _documents(engine: Engine, params: protocol.ListDocuments) -> Message:
    among = (params.collection, params.name, params.document_ids)
    documents, total = engine.documents(
        params.collection, params.states, params.offset, params.limit, params.name, params.document_ids
    )
    return protocol.DocumentsReply(documents=documents, total=total, by_state=engine.documents_by_state(*among))


def _settings(engine: Engine, params: Message) -> Message:
    return protocol.SettingsReply(
        settings=engine.settings.model_dump(), problem=engine.settings_problem, pending=engine.settings_pending
    )


def _models(engine: Engine, params: Nothing) -> Message:
    return protocol.ModelsReply(models=engine.models(), current=engine.settings.models.current)


def _rerankers(engine: Engine) -> protocol.RerankersReply:
    reading = engine.second_reading()
    return protocol.RerankersReply(
        rerankers=engine.getting_rerankers.entries(),
        num_read=MAX_RERANKED,
        seconds=reading.seconds if reading is not None else 0.0,
        problem=reading.problem if reading is not None else "",
    )


_HANDLERS: dict[str, Callable[[Engine, Any], Message | Awaited | None]] = {
    protocol.SETTINGS_GET.name: _settings,
    protocol.ADD.name: _add,
    protocol.ADD_AND_WAIT.name: _add_and_wait,
    protocol.RESCAN.name: _rescan,
    protocol.RESCAN_AND_WAIT.name: lambda engine, _: _report(engine.start_rescan()),
    protocol.CHECK.name: lambda engine, _: Awaited(engine.start_rescan().ended, brief_report_of),
    protocol.PRIORITISE.name: _prioritise,
    protocol.PRIORITISE_AND_WAIT.name: _prioritise_and_wait,
    protocol.SETTLE_GONE.name: lambda engine, params: protocol.Removed(
        documents=engine.settle_gone(params.folder, remove=params.remove)
    ),
    protocol.REMOVE.name: lambda engine, params: protocol.Removed(documents=engine.remove(params.paths)),
    protocol.RENAME_COLLECTION.name: lambda engine, params: engine.rename_collection(params.name, params.new_name),
    protocol.DELETE_COLLECTION.name: lambda engine, params: protocol.Removed(
        documents=engine.delete_collection(params.name)
    ),
    protocol.ONLY_IN_COLLECTION.name: lambda engine, params: protocol.OnlyThere(
        documents=engine.only_in_collection(params.name)
    ),
    protocol.REINDEX.name: _reindex,
    protocol.UNLOCK.name: _unlock,
    protocol.UNLOCK_AND_WAIT.name: _unlock_and_wait,
    protocol.PAUSE.name: lambda engine, _: engine.pause_indexing(),
    protocol.RESUME.name: lambda engine, _: engine.resume_indexing(),
    protocol.CANCEL_INDEXING.name: lambda engine, _: engine.cancel_indexing(),
    protocol.LIBRARY.name: lambda engine, _: protocol.LibraryReply(
        collections=engine.collections(),
        disk_bytes=engine.disk_bytes(),
        num_documents=sum(engine.documents_by_state().values()),
        folders=engine.folders(),
        embedder=engine.embedder(),
        index_problem=engine.index_problem,
        is_paused=engine.is_paused,
    ),
    protocol.LIBRARY_LANGUAGE.name: lambda engine, _: engine.language(),
    protocol.DOCUMENTS.name: _documents,
    protocol.PATH_STATES.name: lambda engine, params: protocol.PathStatesReply(states=engine.path_states(params.paths)),
    protocol.PAGE.name: _page,
    protocol.CANCEL.name: lambda engine, params: engine.cancel(params.question_id),
    protocol.SEARCH.name: _search,
    protocol.SEARCH_MANY.name: _search_many,
    protocol.DOCUMENTS_TO_ASK.name: _documents_to_ask,
    protocol.MODELS.name: _models,
    protocol.MODELS_ADD.name: lambda engine, params: engine.add_model(Path(params.path)),
    protocol.MODELS_FORGET.name: lambda engine, params: engine.forget_model(Path(params.path)),
    protocol.MODELS_DELETE.name: lambda engine, params: engine.delete_model(params.path),
    protocol.MODELS_ELSEWHERE.name: lambda engine, _: protocol.FoundModels(models=engine.models_elsewhere()),
    protocol.MODELS_CATALOGUE.name: lambda engine, _: protocol.CatalogueReply(
        models=engine.catalogue(), others=engine.models_begun()
    ),
    protocol.MODELS_LOOK_UP.name: lambda engine, params: engine.look_up_model(params.source),
    protocol.MODELS_SEARCH.name: lambda engine, params: protocol.HubRepositories(
        repositories=engine.search_models(params.words)
    ),
    protocol.MODELS_GET.name: lambda engine, params: engine.start_getting_model(params.source),
    protocol.MODELS_CANCEL_GETTING.name: lambda engine, params: engine.cancel_getting_model(params.source),
    protocol.MODELS_DISCARD_PART.name: lambda engine, params: engine.discard_part_of_model(params.source),
    protocol.EMBEDDERS.name: lambda engine, _: protocol.EmbeddersReply(embedders=engine.getting_embedders.entries()),
    protocol.EMBEDDERS_GET.name: lambda engine, params: engine.getting_embedders.start(params.source),
    protocol.EMBEDDERS_CANCEL_GETTING.name: lambda engine, params: engine.getting_embedders.cancel(params.source),
    protocol.EMBEDDERS_DELETE.name: lambda engine, params: engine.delete_embedder(params.source),
    protocol.EMBEDDERS_DISCARD_PART.name: lambda engine, params: engine.getting_embedders.discard(params.source),
    protocol.RERANKERS.name: lambda engine, _: _rerankers(engine),
    protocol.RERANKERS_GET.name: lambda engine, params: engine.getting_rerankers.start(params.source),
    protocol.RERANKERS_CANCEL_GETTING.name: lambda engine, params: engine.getting_rerankers.cancel(params.source),
    protocol.RERANKERS_DELETE.name: lambda engine, params: engine.delete_reranker(params.source),
    protocol.RERANKERS_DISCARD_PART.name: lambda engine, params: engine.getting_rerankers.discard(params.source),
    protocol.MEMORY.name: lambda engine, _: engine.memory(),
}
