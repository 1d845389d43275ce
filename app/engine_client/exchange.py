"""Requests and their replies: every request is settled exactly once, by a result, an error, or a death."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from engine import wire
from engine.protocol import Method, P, ProtocolError, R
from engine.wire import Reply, WireError

log = logging.getLogger(__name__)
Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class _Pending:
    method: Method[Any, Any]
    line: bytes
    on_result: Callable[[Any], object] | None
    on_error: Callable[[WireError], object] | None
    is_again: bool = False


class Exchange(QObject):
    """Holds requests that wait for an engine, and those an engine has; knows nothing of processes."""

    _call_due = Signal(object)  # a callback; an exception in it is reported and does not pass the emit

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._last_id = 0
        self._waiting: dict[int, _Pending] = {}
        self._sent: dict[int, _Pending] = {}
        self._call_due.connect(_call)

    def add(
        self,
        method: Method[P, R],
        params: P,
        on_result: Callable[[R], object] | None,
        on_error: Callable[[WireError], object] | None,
    ) -> int:
        """Queues a request until `send`."""
        self._last_id += 1
        line = wire.encode_request(self._last_id, method, params)
        pending = _Pending(method, line, on_result, on_error)
        if len(line) > wire.MAX_LINE_BYTES:
            error = WireError("TooLarge", self.tr("This is too much at once."), self.tr("Make it shorter."))
            QTimer.singleShot(0, self, lambda: self._fail(pending, error))
        else:
            self._waiting[self._last_id] = pending
        return self._last_id

    def send(self, write: Write) -> None:
        """Sends all waiting requests to an engine, in order."""
        for request_id, pending in self._waiting.items():
            self._sent[request_id] = pending
            write(pending.line)
        self._waiting.clear()

    def settle(self, reply: Reply) -> None:
        """Calls the callback with a typed result or the error."""
        pending = self._sent.pop(reply.id, None)
        if pending is None:
            log.info("a reply to no request of ours came: %d", reply.id)
        elif reply.error is not None:
            self._fail(pending, reply.error)
        else:
            self._succeed(pending, reply.result or {})

    def fail_sent(self, sentence: str) -> None:
        """Fails the requests that a dead engine had; those that wait for the next one keep waiting.

        Repeatable requests are sent again, but only once, in case one of them kills every engine.
        """
        lost, self._sent = self._sent, {}
        again = {number: one for number, one in lost.items() if one.method.is_repeatable and not one.is_again}
        self._waiting = {**{number: replace(one, is_again=True) for number, one in again.items()}, **self._waiting}
        for number, pending in lost.items():
            if number not in again:
                self._fail(pending, WireError("EngineDied", sentence))

    def fail_all(self, sentence: str) -> None:
        """Fails everything: no engine is going to answer."""
        lost, self._sent, self._waiting = {**self._sent, **self._waiting}, {}, {}
        for pending in lost.values():
            self._fail(pending, WireError("EngineDied", sentence))

    def _succeed(self, pending: _Pending, result: dict[str, Any]) -> None:
        try:
            typed = wire.decode_result(pending.method, result)
        except ProtocolError as error:
            log.warning("%s", error.sentence)
            self._fail(pending, WireError(error.kind, error.sentence))
            return
        if (on_result := pending.on_result) is not None:
            self._call_due.emit(lambda: on_result(typed))

    def _fail(self, pending: _Pending, error: WireError) -> None:
        if (on_error := pending.on_error) is not None:
            self._call_due.emit(lambda: on_error(error))


def _call(callback: Callable[[], object]) -> None:
    callback()
