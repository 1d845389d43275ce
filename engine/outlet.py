"""The one thread that writes to a client: lines in order, only the newest of snapshots, tokens never dropped.

The queue is bounded, so a window that stops reading slows the engine down instead of filling its memory.
A guest that stops reading is disconnected instead, because others use the engine as well.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import BinaryIO

from engine.protocol import Notice
from engine.wire import encode_notice

MAX_WAITING_LINES = 10_000


class Outlet:
    """Queues lines from any thread; `close` writes what is left, and a broken pipe silently ends it."""

    def __init__(self, stream: BinaryIO, leave: Callable[[], None] | None = None) -> None:
        """Starts to write; `leave` disconnects a client that does not read, which is waited for without it."""
        self._stream, self._leave = stream, leave
        self._lines: OrderedDict[object, bytes] = OrderedDict()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="outlet", daemon=True)
        self._thread.start()

    def notify(self, notice: Notice) -> None:
        """Queues a notification; a newer one of a coalescing kind replaces the one still waiting."""
        line = encode_notice(notice)
        if notice.coalesces:
            with self._changed:
                # At the end of the queue, so that it cannot overtake earlier messages.
                self._lines.pop(notice.method, None)
                self._lines[notice.method] = line
                self._changed.notify_all()
        else:
            self.send(line)

    def send(self, line: bytes) -> None:
        """Queues a line that must arrive; while the queue is full, waits, or disconnects a slow client."""
        with self._changed:
            if self._leave is not None and len(self._lines) >= MAX_WAITING_LINES:
                self._abandon()
                self._leave()
            self._changed.wait_for(lambda: self._is_closed or len(self._lines) < MAX_WAITING_LINES)
            if not self._is_closed:
                self._lines[object()] = line
                self._changed.notify_all()

    def close(self, timeout_s: float = 2.0) -> None:
        """Writes what is waiting and ends; gives up on a window that does not read."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (line := self._next()) is not None:
            try:
                self._write(line)
            except OSError:
                # The window is gone; the reader sees the end of stdin and stops the engine.
                self._abandon()
                return

    def _write(self, line: bytes) -> None:
        view = memoryview(line)
        while view:
            view = view[self._stream.write(view) or 0 :]

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._is_closed)
            if not self._lines:
                return None
            _, line = self._lines.popitem(last=False)
            self._changed.notify_all()
            return line

    def _abandon(self) -> None:
        with self._changed:
            self._is_closed = True
            self._lines.clear()
            self._changed.notify_all()
