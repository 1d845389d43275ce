"""The engine as a process: requests come in by lines, replies and notifications go out, until stdin ends.

The main thread only reads and dispatches, so a ping is answered whatever the engine is busy with; requests
that touch the disk run on a small pool. What changes anything is carried out in the order it was asked for, also
when the window closes right after it: settings, the library, and what concerns one model each in a lane of its own.
A file on a share that hangs takes minutes, and whoever clicks on three of its citations, adds it, or asks a model that
lies there, can still pause, stop, ask another model and change settings.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from engine import protocol, wire
from engine.api.server import Server
from engine.core import Question
from engine.engine import Engine
from engine.errors import ProtocolError, RagdollError
from engine.events import AnswerCancelled, AnswerFailed, Event, PhaseChanged
from engine.lane import Lane, end_all
from engine.notices import notice_of
from engine.outlet import Outlet
from engine.protocol import Message, Method, Nothing
from engine.wire import MAX_LINE_BYTES, Request, RequestRefused

log = logging.getLogger(__name__)
MAX_GARBAGE_LINES = 20
# The window gives the process three seconds to end.
LANE_SECONDS = 1.0
# The lanes, by what is asked for, and what is carried out in them.
_IN_ORDER: tuple[tuple[Callable[[Any], str], tuple[Method[Any, Any], ...]], ...] = (
    (lambda _: "settings", (protocol.SETTINGS_SET,)),
    (lambda _: "pace", (protocol.PAUSE, protocol.RESUME, protocol.CANCEL_INDEXING)),
    (lambda _: "additions", (protocol.ADD,)),
    # These wait for a step of what is being read.
    (lambda _: "removals", (protocol.REMOVE, protocol.SETTLE_GONE)),
    (lambda _: "library", (protocol.UNLOCK, protocol.REINDEX, protocol.PRIORITISE)),
    (lambda params: f"questions to {params.model}", (protocol.ASK,)),
    (
        lambda params: f"model {params.path}",
        (protocol.MODELS_ADD, protocol.MODELS_FORGET, protocol.MODELS_DELETE, protocol.MODELS_USE),
    ),
    (lambda _: "no model", (protocol.MODELS_UNLOAD,)),
    # The hub may be slow to answer.
    (lambda _: "hub", (protocol.MODELS_LOOK_UP,)),
    (lambda _: "downloads", (protocol.MODELS_GET, protocol.MODELS_CANCEL_GETTING, protocol.MODELS_DISCARD_PART)),
)
_LANE_OF = {method.name: lane for lane, methods in _IN_ORDER for method in methods}
Work = Callable[[Request], Message]


class Host:
    """Joins one engine to one pair of pipes."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._engine: Engine | None = None
        self._server: Server | None = None
        self._refusal: RagdollError | None = None
        self._phase = ""
        self._is_stopping = threading.Event()
        self._tells_ends = True
        self._pool = ThreadPoolExecutor(max_workers=3, thread_name_prefix="request")
        self._lanes: dict[str, Lane] = {}
        # The last request for a model to answer, or none: what is read of another's file by then is too late.
        self._choice: Request | None = None
        self._viewer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._next_page: tuple[Request, Future[None]] | None = None

    def open(self, open_engine: Callable[[Callable[[Event], None]], Engine]) -> None:
        """Opens the engine; if that cannot be, every request is answered with the reason."""
        try:
            self._engine = open_engine(self.publish)
            self._engine.start_ticker(lambda memory: self._outlet.notify(protocol.MemorySnapshot(memory=memory)))
            self._server = Server(
                self._engine, lambda state: self._outlet.notify(protocol.ServerChanged(**state.model_dump()))
            )
            self._pool.submit(self._server.follow)
        except RagdollError as error:
            log.error("%s", error)
            self._refusal = error

    def publish(self, event: Event) -> None:
        """The engine's listener: called on its threads, so it only queues."""
        if isinstance(event, AnswerCancelled | AnswerFailed) and not self._tells_ends:
            return
        if isinstance(event, PhaseChanged):
            self._phase = event.phase
        notice = notice_of(event)
        if notice is not None:
            self._outlet.notify(notice)

    def serve(self, stream: BinaryIO) -> None:
        """Reads requests until the window closes the pipe, asks for shutdown, or sends nothing but garbage."""
        garbage = 0
        while not self._is_stopping.is_set() and (line := stream.readline(MAX_LINE_BYTES + 1)):
            try:
                request = wire.decode_request(line)
            except RequestRefused as error:
                self._outlet.send(wire.encode_error(error.request_id, error))
            except ProtocolError as error:
                garbage += 1
                log.warning("%s", error)
                if garbage > MAX_GARBAGE_LINES:
                    break
            else:
                self._dispatch(request)

    def leave_questions_open(self) -> None:
        """Says from now on of no question that it was stopped or failed.

        Where we are ended from outside, nobody stopped them: a window that is still there asks the next engine.
        """
        self._tells_ends = False

    def close(self) -> None:
        """Ends the engine and writes what is still to be said."""
        self._is_stopping.set()
        if self._engine is not None:
            # Requests that are being carried out may be waiting for what gives way to questions.
            self._engine.begin_closing()
        self._viewer.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        end_all(tuple(self._lanes.values()), LANE_SECONDS)
        if self._server is not None:
            self._server.close()
        if self._engine is not None:
            self._engine.close()
        self._outlet.close()

    def _dispatch(self, request: Request) -> None:
        if request.method is protocol.PING:
            self._outlet.send(wire.encode_result(request.id, protocol.Pong(phase=self._phase)))
        elif request.method is protocol.SHUTDOWN:
            self._outlet.send(wire.encode_result(request.id, Nothing()))
            self._is_stopping.set()
        elif request.method is protocol.PAGE:
            self._turn_to(request)
        elif request.method is protocol.CANCEL:
            self._reply(request, self._carried_out)
        elif (lane_of := _LANE_OF.get(request.method.name)) is not None:
            if request.method is protocol.ASK:
                work = self._taken(request)
            elif request.method in (protocol.MODELS_USE, protocol.MODELS_UNLOAD):
                work, self._choice = partial(self._chosen, self._choice), request
            else:
                work = self._carried_out
            self._lane(lane_of(request.params)).submit(partial(self._reply, request, work))
        else:
            self._pool.submit(self._reply, request, self._carried_out)

    def _lane(self, name: str) -> Lane:
        if name not in self._lanes:
            self._lanes[name] = Lane(name)
        return self._lanes[name]

    def _turn_to(self, request: Request) -> None:
        """Shows a page after the one that is being read; of those that wait only the newest is wanted."""
        if self._next_page is not None:
            earlier, waiting = self._next_page
            if waiting.cancel():
                superseded = RagdollError("Another page was asked for.")
                self._outlet.send(wire.encode_error(earlier.id, superseded))
        self._next_page = request, self._viewer.submit(self._reply, request, self._carried_out)

    def _taken(self, request: Request) -> Work:
        """A question that can be stopped from now on, whatever is looked at for it."""
        try:
            engine, params = self._opened(), request.params
            assert isinstance(params, protocol.Ask)
            hand_over = engine.take(_question(engine, params))
        except Exception as error:  # noqa: BLE001 - this is the thread that reads; told where it is carried out
            return partial(_refuse, error)
        return lambda _: _done(hand_over)

    def _reply(self, request: Request, work: Work) -> None:
        try:
            line = wire.encode_result(request.id, work(request))
            if len(line) > MAX_LINE_BYTES:
                raise RagdollError("There is too much of this to be shown at once.")
        except RagdollError as error:
            line = wire.encode_error(request.id, error)
        except Exception as error:  # the edge of the process: a bug in one request must not end it
            log.exception("request %s failed", request.method.name)
            failure = RagdollError(f"The engine could not do that: {error}.", "Look into the log, and try again.")
            line = wire.encode_error(request.id, failure)
        self._outlet.send(line)

    def _chosen(self, before: Request | None, request: Request) -> Message:
        """A model answers from now on, unless another was chosen while this one's file was looked at."""
        try:
            _choose(self._opened(), request.params, lambda: self._choice is request)
        except BaseException:
            if self._choice is request:
                self._choice = before
            raise
        return Nothing()

    def _carried_out(self, request: Request) -> Message:
        engine = self._opened()
        if request.method is protocol.SERVER:
            return self._server.state if self._server is not None else protocol.ServerState()
        if isinstance(request.params, protocol.SetSettings):
            return self._with_settings(engine, request.params)
        return _HANDLERS[request.method.name](engine, request.params) or Nothing()

    def _with_settings(self, engine: Engine, params: protocol.SetSettings) -> Message:
        """What changes the server is told with the key that it may have got for it."""
        engine.change_settings(params.changes)
        if self._server is not None:
            self._server.follow()
        return protocol.SettingsReply(settings=engine.settings.model_dump())

    def _opened(self) -> Engine:
        if self._engine is None:
            raise self._refusal or RagdollError("The engine is closed.")
        return self._engine


def _refuse(error: Exception, request: Request) -> Message:
    raise error


def _done(work: Callable[[], None]) -> Message:
    work()
    return Nothing()


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


def _unlock(engine: Engine, params: protocol.Unlock) -> None:
    engine.start_unlocking(params.paths, params.password, remember=params.remember)


def _rescan(engine: Engine, params: Nothing) -> None:
    engine.start_rescan()


def _reindex(engine: Engine, params: protocol.Paths) -> None:
    engine.start_reindexing(params.paths)


def _prioritise(engine: Engine, params: protocol.Paths) -> None:
    engine.start_prioritising(params.paths)


def _search(engine: Engine, params: protocol.Search) -> Message:
    evidence = engine.search(params.query, params.top_k, params.collection, params.filters)
    return protocol.SearchReply(passages=evidence.passages, scope=evidence.scope)


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


def _models(engine: Engine, params: Nothing) -> Message:
    return protocol.ModelsReply(models=engine.models(), current=engine.settings.models.current)


_HANDLERS: dict[str, Callable[[Engine, Any], Message | None]] = {
    protocol.SETTINGS_GET.name: lambda engine, _: protocol.SettingsReply(settings=engine.settings.model_dump()),
    protocol.ADD.name: _add,
    protocol.RESCAN.name: _rescan,
    protocol.PRIORITISE.name: _prioritise,
    protocol.SETTLE_GONE.name: lambda engine, params: protocol.Removed(
        documents=engine.settle_gone(params.folder, remove=params.remove)
    ),
    protocol.REMOVE.name: lambda engine, params: protocol.Removed(documents=engine.remove(params.paths)),
    protocol.REINDEX.name: _reindex,
    protocol.UNLOCK.name: _unlock,
    protocol.PAUSE.name: lambda engine, _: engine.pause_indexing(),
    protocol.RESUME.name: lambda engine, _: engine.resume_indexing(),
    protocol.CANCEL_INDEXING.name: lambda engine, _: engine.cancel_indexing(),
    protocol.LIBRARY.name: lambda engine, _: protocol.LibraryReply(
        collections=engine.collections(),
        disk_bytes=engine.disk_bytes(),
        folders=engine.folders(),
        embedder=engine.embedder(),
    ),
    protocol.DOCUMENTS.name: _documents,
    protocol.PATH_STATES.name: lambda engine, params: protocol.PathStatesReply(states=engine.path_states(params.paths)),
    protocol.PAGE.name: _page,
    protocol.CANCEL.name: lambda engine, params: engine.cancel(params.question_id),
    protocol.SEARCH.name: _search,
    protocol.MODELS.name: _models,
    protocol.MODELS_ADD.name: lambda engine, params: engine.add_model(Path(params.path)),
    protocol.MODELS_FORGET.name: lambda engine, params: engine.forget_model(Path(params.path)),
    protocol.MODELS_DELETE.name: lambda engine, params: engine.delete_model(params.path),
    protocol.MODELS_CATALOGUE.name: lambda engine, _: protocol.CatalogueReply(
        models=engine.catalogue(), others=engine.models_begun()
    ),
    protocol.MODELS_LOOK_UP.name: lambda engine, params: engine.look_up_model(params.source),
    protocol.MODELS_GET.name: lambda engine, params: engine.start_getting_model(params.source),
    protocol.MODELS_CANCEL_GETTING.name: lambda engine, params: engine.cancel_getting_model(params.source),
    protocol.MODELS_DISCARD_PART.name: lambda engine, params: engine.discard_part_of_model(params.source),
    protocol.EMBEDDERS.name: lambda engine, _: protocol.EmbeddersReply(embedders=engine.getting_embedders.entries()),
    protocol.EMBEDDERS_GET.name: lambda engine, params: engine.getting_embedders.start(params.source),
    protocol.EMBEDDERS_CANCEL_GETTING.name: lambda engine, params: engine.getting_embedders.cancel(params.source),
    protocol.EMBEDDERS_DISCARD_PART.name: lambda engine, params: engine.getting_embedders.discard(params.source),
    protocol.MEMORY.name: lambda engine, _: engine.memory(),
}
