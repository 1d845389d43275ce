"""A connection to a running engine: requests, replies and events, until one of the two sides ends it."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count

from engine import protocol, wire
from engine.door import hang_up
from engine.errors import BadRequest, EngineGone, LibraryHeld, ProtocolError
from engine.interruptible import result_of
from engine.notices import error_of
from engine.protocol import Method, Notice, P, R
from engine.wire import MAX_LINE_BYTES, Reply

log = logging.getLogger(__name__)


class Caller:
    """Requests may be made from any thread.

    Attributes:
        gone: Why requests are no longer answered, once that is so.
    """

    def __init__(self, connection: socket.socket, hear: Callable[[Notice], None]) -> None:
        """Takes the connection, on which the engine sends first; `hear` is called on a thread of its own.

        Raises:
            LibraryHeld: It speaks another version of the protocol.
            EngineGone: It sends nothing.
        """
        self.gone = Future[EngineGone]()
        self._connection, self._hear = connection, hear
        self._lines = connection.makefile("rb")
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._is_cut = False
        self._ids = count(1)
        self._waiting: dict[int, Future[Reply]] = {}
        try:
            self._check_version()
        except BaseException:
            self._hang_up()
            raise
        self._reading = threading.Thread(target=self._read, name="caller", daemon=True)
        self._reading.start()

    def request(self, method: Method[P, R], params: P) -> R:
        """Sends a request, and waits for the reply.

        Raises:
            RagdollError: The engine refuses it.
            BadRequest: It is longer than any message.
            EngineGone: The engine has ended meanwhile, or before.
        """
        awaited, request_id = Future[Reply](), next(self._ids)
        with self._lock:
            if not self._is_cut:
                self._waiting[request_id] = awaited
        if self._is_cut:
            raise self.gone.result()
        line = wire.encode_request(request_id, method, params)
        if len(line) > MAX_LINE_BYTES:
            raise BadRequest("This request is too large.", "Ask with less of it.")
        self._send(line)
        reply = result_of(awaited)
        if reply.error is not None:
            raise error_of(reply.error.kind, reply.error.sentence, reply.error.way_out)
        return wire.decode_result(method, reply.result or {})

    def tell(self, method: Method[P, R], params: P) -> None:
        """Sends a request without waiting for the reply."""
        self._send(wire.encode_request(next(self._ids), method, params))

    def close(self) -> None:
        hang_up(self._connection)
        self._reading.join()
        self._hang_up()

    def _check_version(self) -> None:
        try:
            line = self._lines.readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise _ended() from error
        if not line:
            raise _ended()
        # A reply of another version may be invalid here.
        with suppress(ProtocolError):
            first = wire.decode_message(line)
            if isinstance(first, protocol.Ready) and first.protocol_version == protocol.PROTOCOL_VERSION:
                return
        raise LibraryHeld(
            "Ragdoll is already open in another version, which this command does not understand.",
            "Close the window and open it again.",
        )

    def _send(self, line: bytes) -> None:
        """Sends a line; if that fails, the reading thread reports it to the waiting caller."""
        with suppress(OSError), self._sending:
            self._connection.sendall(line)

    def _read(self) -> None:
        try:
            while line := self._lines.readline(MAX_LINE_BYTES + 1):
                try:
                    self._take(wire.decode_message(line))
                except ProtocolError as error:
                    # For example a notice of a later version, which can be ignored.
                    log.info("%s", error)
        except OSError as error:
            log.info("the call was cut: %s", error)
        finally:
            with self._lock:
                waiting = list(self._waiting.values())
                self._is_cut = True
            self.gone.set_result(_ended())
            for awaited in waiting:
                awaited.set_exception(self.gone.result())

    def _take(self, message: Reply | Notice) -> None:
        if isinstance(message, Notice):
            self._hear(message)
            return
        with self._lock:
            awaited = self._waiting.pop(message.id, None)
        if awaited is not None:
            awaited.set_result(message)

    def _hang_up(self) -> None:
        self._lines.close()
        self._connection.close()


def _ended() -> EngineGone:
    return EngineGone("Ragdoll was closed, or its engine ended, before this was done.", "Run the command again.")
