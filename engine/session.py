"""A client of an engine, line by line: the window over two pipes, or a guest over a socket (see guests.py).

The thread that reads only reads and dispatches, so a ping is answered whatever the engine is busy with; requests
that touch the disk run on a small pool. What changes anything is carried out in the order it was asked for, also
when the window closes right after it: settings, the library, and each model have a lane of their own.
A file on a share that hangs takes minutes; a user who clicks on three of its citations, adds it, or asks a model that
lies there, can still pause, stop, ask another model and change settings.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Protocol

from engine import protocol, wire
from engine.errors import BadRequest, ProtocolError, RagdollError
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerStateChanged,
    Event,
    PhaseChanged,
)
from engine.notices import notice_of
from engine.outlet import Outlet
from engine.protocol import Message, Method, Nothing
from engine.serial_executor import SerialExecutor, end_all
from engine.wire import MAX_LINE_BYTES, Request, RequestRefused

log = logging.getLogger(__name__)
MAX_GARBAGE_LINES = 20
# The window gives the process three seconds to end.
LANE_SECONDS = 1.0
# More than there are kinds of lanes; models that are named once, rightly or wrongly, leave no thread behind.
MOST_LANES = 24
# The lane of a request by its parameters, and the methods that use it.
_IN_ORDER: tuple[tuple[Callable[[Any], str], tuple[Method[Any, Any], ...]], ...] = (
    (lambda _: "settings", (protocol.SETTINGS_SET,)),
    (lambda _: "pace", (protocol.PAUSE, protocol.RESUME, protocol.CANCEL_INDEXING)),
    # Additions refer to a collection by its new name.
    (lambda _: "additions", (protocol.ADD, protocol.ADD_AND_WAIT, protocol.RENAME_COLLECTION)),
    # These wait for the next step of indexing.
    (lambda _: "removals", (protocol.REMOVE, protocol.SETTLE_GONE, protocol.DELETE_COLLECTION)),
    (
        lambda _: "library",
        (
            protocol.UNLOCK,
            protocol.UNLOCK_AND_WAIT,
            protocol.REINDEX,
            protocol.PRIORITISE,
            protocol.PRIORITISE_AND_WAIT,
        ),
    ),
    # These read every model's file, one of which may be on a share that hangs.
    (lambda _: "shelf", (protocol.MODELS, protocol.MODELS_CATALOGUE)),
    # Searching the folders of other applications must not delay anything else.
    (lambda _: "elsewhere", (protocol.MODELS_ELSEWHERE,)),
    (lambda _: "embedders", (protocol.EMBEDDERS, protocol.EMBEDDERS_DELETE)),
    (lambda _: "rerankers", (protocol.RERANKERS, protocol.RERANKERS_DELETE)),
    (lambda params: f"questions to {params.model}", (protocol.ASK,)),
    (
        lambda params: f"model {params.path}",
        (protocol.MODELS_ADD, protocol.MODELS_FORGET, protocol.MODELS_DELETE, protocol.MODELS_USE),
    ),
    (lambda _: "no model", (protocol.MODELS_UNLOAD,)),
    # The hub may be slow to answer.
    (lambda _: "hub", (protocol.MODELS_LOOK_UP, protocol.MODELS_SEARCH)),
    (lambda _: "downloads", (protocol.MODELS_GET, protocol.MODELS_CANCEL_GETTING, protocol.MODELS_DISCARD_PART)),
    (
        lambda _: "downloads of embedders",
        (protocol.EMBEDDERS_GET, protocol.EMBEDDERS_CANCEL_GETTING, protocol.EMBEDDERS_DISCARD_PART),
    ),
    (
        lambda _: "downloads of rerankers",
        (protocol.RERANKERS_GET, protocol.RERANKERS_CANCEL_GETTING, protocol.RERANKERS_DISCARD_PART),
    ),
)
_LANE_OF = {method.name: lane for lane, methods in _IN_ORDER for method in methods}


@dataclass(frozen=True, slots=True)
class Awaited:
    """A reply for later: `told` makes it from the result of `ended`."""

    ended: Future[Any]
    told: Callable[[Any], Message]


Work = Callable[[Request], Message | Awaited]


class Desk(Protocol):
    """Carries out the requests of all sessions of one engine. From any thread."""

    def carried_out(self, request: Request) -> Message | Awaited:
        """Raises RagdollError where the request cannot be carried out."""
        ...

    def choosing(self, request: Request) -> Work:
        """Returns the work that chooses a model, or none, unless another is chosen before it is carried out."""
        ...

    def take(self, asked: protocol.Ask) -> Callable[[], None]:
        """Registers a question, which can be stopped from now on; the returned function checks and submits it."""
        ...

    def cancel(self, question_id: str) -> None: ...


class Session:
    """Receives all events of the engine; of other clients' questions it only learns that they exist.

    A guest learns nothing of them, and cannot end the engine.
    """

    def __init__(self, outlet: Outlet, desk: Desk, *, is_guest: bool = False) -> None:
        self._outlet, self._desk, self._is_guest = outlet, desk, is_guest
        self._phase = ""
        self._is_stopping = threading.Event()
        self._tells_ends = True
        # Questions that were asked here and have not ended.
        self._questions = set[str]()
        self._pool = ThreadPoolExecutor(max_workers=3, thread_name_prefix="request")
        self._lanes: dict[str, SerialExecutor] = {}
        self._viewer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._next_page: tuple[Request, Future[None]] | None = None

    def publish(self, event: Event) -> None:
        """Receives the engine's events, on its threads, so it only queues."""
        if isinstance(event, AnswerCancelled | AnswerFailed) and not self._tells_ends:
            return
        if isinstance(event, PhaseChanged):
            self._phase = event.phase
        concerns_us = self._concerns_us(event)
        if isinstance(event, AnswerEnded):
            # Before the client learns of it, which could ask under the same id again.
            self._questions.discard(event.question_id)
        if concerns_us and (notice := notice_of(event)) is not None:
            self._outlet.notify(notice)

    def serve(self, stream: BinaryIO) -> None:
        """Reads requests until the client closes the pipe, requests shutdown, or sends only garbage."""
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

    def aside(self, work: Callable[[], object]) -> None:
        """Runs work that no client requested on the pool of requests without an order."""
        self._pool.submit(work)

    def leave_questions_open(self) -> None:
        """Stops reporting questions as stopped or failed.

        When the process is ended from outside, the user did not stop them: a window asks the next engine again.
        """
        self._tells_ends = False

    def close(self) -> None:
        """Completes all requests in lanes, and waits for them."""
        self._is_stopping.set()
        self._viewer.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        end_all(tuple(self._lanes.values()), LANE_SECONDS)

    def leave(self) -> None:
        """Cancels everything, because the client has left. Returns at once."""
        self._is_stopping.set()
        for pool in (self._viewer, self._pool):
            pool.shutdown(wait=False, cancel_futures=True)
        end_all(tuple(self._lanes.values()), 0.0)
        for question_id in tuple(self._questions):
            self._desk.cancel(question_id)

    def _concerns_us(self, event: Event) -> bool:
        question_id = getattr(event, "question_id", None)
        if question_id is None or question_id in self._questions:
            return True
        return not self._is_guest and isinstance(event, AnswerStateChanged | AnswerEnded)

    def _dispatch(self, request: Request) -> None:
        match request.method:
            case protocol.PING:
                self._outlet.send(wire.encode_result(request.id, protocol.Pong(phase=self._phase)))
            case protocol.SHUTDOWN:
                self._shut_down(request)
            case protocol.PAGE:
                self._turn_to(request)
            case protocol.CANCEL:
                self._reply(request, self._desk.carried_out)
            case _ if (lane_of := _LANE_OF.get(request.method.name)) is not None:
                self._lane(lane_of(request.params)).submit(partial(self._reply, request, self._work_of(request)))
            case _:
                self._pool.submit(self._reply, request, self._desk.carried_out)

    def _work_of(self, request: Request) -> Work:
        """Returns the work for its lane, and does now what has to happen before that."""
        match request.method:
            case protocol.ASK:
                return self._taken(request)
            case protocol.MODELS_USE | protocol.MODELS_UNLOAD:
                return self._desk.choosing(request)
            case _:
                return self._desk.carried_out

    def _shut_down(self, request: Request) -> None:
        if self._is_guest:
            refusal = BadRequest("A command cannot end this engine.", "Close the window.")
            self._outlet.send(wire.encode_error(request.id, refusal))
        else:
            self._outlet.send(wire.encode_result(request.id, Nothing()))
            self._is_stopping.set()

    def _lane(self, name: str) -> SerialExecutor:
        if name not in self._lanes:
            if len(self._lanes) >= MOST_LANES:
                self._end_idle_lanes()
            self._lanes[name] = SerialExecutor(name)
        return self._lanes[name]

    def _end_idle_lanes(self) -> None:
        for name, lane in list(self._lanes.items()):
            if lane.is_idle:
                lane.end()
                del self._lanes[name]

    def _turn_to(self, request: Request) -> None:
        """Renders a page after the current one; of waiting requests only the newest is kept."""
        if self._next_page is not None:
            earlier, waiting = self._next_page
            if waiting.cancel():
                superseded = RagdollError("Another page was asked for.")
                self._outlet.send(wire.encode_error(earlier.id, superseded))
        self._next_page = request, self._viewer.submit(self._reply, request, self._desk.carried_out)

    def _taken(self, request: Request) -> Work:
        """Registers a question, which can be stopped from now on, however long its checks take."""
        asked = request.params
        assert isinstance(asked, protocol.Ask)
        try:
            hand_over = self._desk.take(asked)
        except Exception as error:  # noqa: BLE001 - this is the thread that reads; reported in the lane
            return partial(_refuse, error)
        self._questions.add(asked.question_id)
        return lambda _: self._handed_over(asked.question_id, hand_over)

    def _handed_over(self, question_id: str, hand_over: Callable[[], None]) -> Message:
        try:
            hand_over()
        except BaseException:
            self._questions.discard(question_id)
            raise
        return Nothing()

    def _reply(self, request: Request, work: Work) -> None:
        try:
            done = work(request)
            if isinstance(done, Awaited):
                # On the thread where it ends; no thread waits here.
                done.ended.add_done_callback(lambda ended: self._reply(request, lambda _: done.told(ended.result())))
                return
            line = wire.encode_result(request.id, done)
            if len(line) > MAX_LINE_BYTES:
                raise RagdollError("This is too large to be shown at once.")
        except RagdollError as error:
            line = wire.encode_error(request.id, error)
        except Exception as error:  # the edge of the process: a bug in one request must not end it
            log.exception("request %s failed", request.method.name)
            failure = RagdollError(f"The engine could not do that: {error}.", "See the log, and try again.")
            line = wire.encode_error(request.id, failure)
        self._outlet.send(line)


def _refuse(error: Exception, request: Request) -> Message:
    raise error
