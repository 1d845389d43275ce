"""A real engine process at the other end of two pipes, driven line by line as the window does."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from engine import protocol, wire
from engine.protocol import Message, Method, Notice
from engine.wire import Reply

PATIENCE_S = 120.0
CAREFUL = "--careful"


class EngineProcess:
    """Starts `python -m engine` on a data folder; everything it says is kept in `notices`.

    `CAREFUL` among the arguments keeps it from loading libraries before somebody asks for what needs them.
    """

    def __init__(
        self,
        home: Path,
        log: Path | None = None,
        *arguments: str,
        entered: Callable[[Sequence[str]], list[str]] = list,
    ) -> None:
        """Starts it; `entered` makes of its command line one that runs it somewhere, as in a control group."""
        self.log_file = log or home.with_suffix(".log")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._log = self.log_file.open("ab")
        self.process = subprocess.Popen(
            entered([sys.executable, "-m", "engine", *arguments]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "RAGDOLL_HOME": str(home)},
        )
        self.notices: list[Notice] = []
        self._replies: dict[int, queue.Queue[Reply]] = {}
        self._ids = count(1)
        self._changed = threading.Condition()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, name="engine-process-reader")
        self._reader.start()

    def __enter__(self) -> EngineProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def send_line(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def request(self, method: Method[Any, Any], params: Message | None = None) -> Reply:
        """Asks and waits for the reply, result or error."""
        request_id = next(self._ids)
        replies: queue.Queue[Reply] = queue.Queue()
        self._replies[request_id] = replies
        self.send_line(wire.encode_request(request_id, method, params or protocol.Nothing()))
        return replies.get(timeout=PATIENCE_S)

    def result(self, method: Method[Any, Any], params: Message | None = None) -> Any:
        """The typed result; an error fails the test."""
        reply = self.request(method, params)
        assert reply.error is None, reply.error
        return wire.decode_result(method, reply.result or {})

    def wait_for(self, is_wanted: Callable[[Notice], bool], since: int = 0) -> Notice:
        """The first notification, of those kept from `since` on or still to come, that is wanted."""
        seen = since
        with self._changed:
            while True:
                for notice in self.notices[seen:]:
                    if is_wanted(notice):
                        return notice
                seen = len(self.notices)
                assert not self._has_ended, f"the engine ended: {self.log()}"
                assert self._changed.wait(PATIENCE_S), f"nothing came: {self.notices[-5:]}\n{self.log()}"

    def wait_at_most(self, seconds: float) -> None:
        """Until the next notification, or so long."""
        with self._changed:
            assert not self._has_ended, f"the engine ended: {self.log()}"
            self._changed.wait(seconds)

    def wait_for_kind(self, kind: type[Notice]) -> Any:
        return self.wait_for(lambda notice: isinstance(notice, kind))

    def answer_to(self, question_id: str) -> Notice:
        """How the question ended."""
        ends = (protocol.AnswerFinished, protocol.AnswerCancelled, protocol.AnswerFailed)
        return self.wait_for(lambda notice: isinstance(notice, ends) and notice.question_id == question_id)

    def add(self, folder: Path, collection: str = protocol.DEFAULT_COLLECTION) -> Any:
        """Indexes a folder and waits for it."""
        since = len(self.notices)
        self.result(protocol.ADD, protocol.AddPaths(paths=(str(folder),), collection=collection))
        return self.wait_for(lambda notice: isinstance(notice, protocol.IndexFinished), since)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._end()

    def close(self) -> None:
        """Closes stdin, which ends the engine."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        self._end()

    def _end(self) -> None:
        try:
            self.process.wait(PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            self._reader.join(PATIENCE_S)
            for stream in (self.process.stdin, self.process.stdout, self._log):
                if stream is not None and not stream.closed:
                    stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = wire.decode_message(line)
            with self._changed:
                if isinstance(message, Reply):
                    self._replies.setdefault(message.id, queue.Queue()).put(message)
                else:
                    self.notices.append(message)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
