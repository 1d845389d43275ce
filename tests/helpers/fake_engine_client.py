"""An engine client without an engine: records what is requested, and says what the test wants said.

    client = FakeEngineClient()
    model = LibraryModel(client)
    client.answer(protocol.LIBRARY, protocol.LibraryReply(collections=(), disk_bytes=0))
    client.tell(protocol.LibraryChanged())

It has the signals, properties and methods of `app.engine_client.EngineClient`; it is ready from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.protocol import Message, Method, Notice
from engine.wire import WireError


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that has not been answered yet, or has; see `FakeEngineClient.open` and `.requests`."""

    request_id: int
    method: Method[Any, Any]
    params: Message
    on_result: Callable[[Any], object] | None
    on_error: Callable[[WireError], object] | None


class FakeEngineClient(QObject):
    """`requests` holds every request in order; `open` those without a reply."""

    became_ready = Signal()  # the engine said `ready`, or the test did
    notice_received = Signal(object)  # protocol.Notice
    engine_died = Signal(str)  # a sentence
    engine_gave_up = Signal(str)  # a sentence
    phase_changed = Signal(str)  # "" ends a phase
    state_changed = Signal(str)  # starting, ready, restarting, failed, stopped

    def __init__(self, state: str = "ready") -> None:
        super().__init__()
        self.state = state
        self.phase = ""
        self.requests: list[RecordedRequest] = []
        self.open: list[RecordedRequest] = []
        self.starts: list[str] = []

    # --- what models call ---

    def start(self) -> None:
        self.starts.append("start")
        self._set_state("starting")

    def start_again(self) -> None:
        self.starts.append("start_again")
        self._set_state("starting")

    def start_carefully(self) -> None:
        self.starts.append("start_carefully")
        self._set_state("starting")

    def stop(self) -> None:
        self._set_state("stopped")

    def request(
        self,
        method: Method[Any, Any],
        params: Message,
        on_result: Callable[[Any], object] | None = None,
        on_error: Callable[[WireError], object] | None = None,
    ) -> int:
        recorded = RecordedRequest(len(self.requests) + 1, method, params, on_result, on_error)
        self.requests.append(recorded)
        self.open.append(recorded)
        return recorded.request_id

    # --- what tests call ---

    def asked(self, method: Method[Any, Any]) -> list[Message]:
        """The params of all requests of a kind, oldest first."""
        return [request.params for request in self.requests if request.method is method]

    def answer(self, method: Method[Any, Any], result: Message) -> None:
        """Replies to the oldest open request of a kind."""
        request = self._take(method)
        if request.on_result is not None:
            request.on_result(result)

    def refuse(self, method: Method[Any, Any], sentence: str, kind: str = "BadRequest", way_out: str = "") -> None:
        """Answers the oldest open request of a kind with an error."""
        request = self._take(method)
        if request.on_error is not None:
            request.on_error(WireError(kind, sentence, way_out))

    def tell(self, *notices: Notice) -> None:
        for notice in notices:
            self.notice_received.emit(notice)

    def enter_phase(self, phase: str) -> None:
        self.phase = phase
        self.phase_changed.emit(phase)

    def die(self, sentence: str = "The engine ended unexpectedly. It is restarting.") -> None:
        """The engine is gone: open requests fail, then the death is told, as by the real client."""
        self._fail_open()
        self.state = "restarting"
        self.engine_died.emit(sentence)
        self.state_changed.emit(self.state)

    def become_ready(self) -> None:
        self._set_state("ready")
        self.became_ready.emit()

    def give_up(self, sentence: str = "The engine ended three times within a minute.") -> None:
        self._fail_open()
        self.state = "failed"
        self.engine_gave_up.emit(sentence)
        self.state_changed.emit(self.state)

    def _set_state(self, state: str) -> None:
        self.state = state
        self.state_changed.emit(state)

    def _take(self, method: Method[Any, Any]) -> RecordedRequest:
        request = next(request for request in self.open if request.method is method)
        self.open.remove(request)
        return request

    def _fail_open(self) -> None:
        waiting, self.open = self.open, []
        for request in waiting:
            if request.on_error is not None:
                request.on_error(WireError("EngineDied", "The engine ended before it answered."))
