"""One parser child as the engine sees it: a command goes in, the frames of its answer come out, or it is killed."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable

import psutil

from engine import own_modules
from engine.errors import Cancelled, ParserGaveUp
from engine.library.parsers.frames import Head, read_frame, write_frame
from engine.library.parsers.limits import MAX_OCR_PAGES, OCR_PAGE_SECONDS
from engine.library.parsers.patience import Patience

Part = tuple[Head, bytes]

# How soon a cancelled call ends.
_TICK_SECONDS = 0.1
# A cold disk and a busy machine can make an import take this long.
_START_SECONDS = 180.0
_EXIT_SECONDS = 10.0


class ParserCrashed(ParserGaveUp):
    """A fault in native code ended the child; reported like any other `ParserGaveUp`."""

    @property
    def kind(self) -> str:
        return ParserGaveUp.__name__


class ParserProcess:
    """A running child that may have `memory_bytes` of address space.

    It belongs to one call at a time; only `kill` and `own_bytes` may come from elsewhere.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._process = subprocess.Popen(
            own_modules.command_of("engine.library.parsers.child", str(os.getpid()), str(memory_bytes)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=own_modules.PACKAGE_ROOT,
            env=_environment(),
        )
        self._parts: queue.SimpleQueue[Part | None] = queue.SimpleQueue()
        # A thread rather than `select`, which does not support pipes on Windows.
        self._reader = threading.Thread(target=self._receive, name="parser-answers", daemon=True)
        self._reader.start()
        self._is_ready = self._was_killed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be used; not once it was killed, even if it lives on because no signal reaches it."""
        return not self._was_killed and self._process.poll() is None

    def own_bytes(self) -> int:
        """Returns its private memory, without files of libraries, which the engine maps as well."""
        try:
            memory = psutil.Process(self._process.pid).memory_info()
        except psutil.Error:
            return 0
        return int(memory.rss - getattr(memory, "shared", 0))

    def ask(self, command: Head, seconds: float, is_unwanted: Callable[[], bool]) -> list[Part]:
        """Sends a command and returns the parts of the answer; a call that fails kills the child.

        Raises:
            ParserGaveUp: The time was up, or the child died.
            Cancelled: `is_unwanted` returned true.
        """
        try:
            if not self._is_ready:
                self._next(Patience(self.pid, _START_SECONDS), is_unwanted)
                self._is_ready = True
            return self._answer(command, seconds, is_unwanted)
        except TimeoutError as error:
            self.kill()
            raise ParserGaveUp(f"Reading the file took longer than {seconds:g} s.") from error
        except EOFError as error:
            self.kill()
            if is_unwanted():
                raise Cancelled("Reading the file was cancelled.") from error
            raise self._post_mortem() from error
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """Kills the child and waits for its end; harmless if it is dead already."""
        self._was_killed = True
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._reap()

    def _answer(self, command: Head, seconds: float, is_unwanted: Callable[[], bool]) -> list[Part]:
        patience = Patience(self.pid, seconds)
        self._send(command)
        parts: list[Part] = []
        num_ocr_pages = 0
        while "end" not in (part := self._next(patience, is_unwanted))[0]:
            if "ocr_page" not in part[0]:
                parts.append(part)
            elif num_ocr_pages < MAX_OCR_PAGES:
                num_ocr_pages += 1
                patience = Patience(self.pid, seconds + OCR_PAGE_SECONDS)
        if part[0]["is_last"]:
            self._reap()
        return parts

    def _send(self, command: Head) -> None:
        assert self._process.stdin is not None
        try:
            write_frame(self._process.stdin, command)  # type: ignore[arg-type]
        except (OSError, ValueError) as error:
            # The child has ended, or `kill` has closed the pipe meanwhile.
            raise EOFError from error

    def _next(self, patience: Patience, is_unwanted: Callable[[], bool]) -> Part:
        """Returns the next frame. Raises TimeoutError when patience ends, EOFError when the child is gone."""
        while True:
            if is_unwanted():
                raise Cancelled("Reading the file was cancelled.")
            try:
                part = self._parts.get(timeout=max(0.0, min(_TICK_SECONDS, patience.left_seconds)))
            except queue.Empty:
                if patience.left_seconds <= 0:
                    raise TimeoutError from None
                continue
            if part is None:
                raise EOFError
            return part

    def _receive(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            while (part := read_frame(self._process.stdout)) is not None:  # type: ignore[arg-type]
                self._parts.put(part)
        self._parts.put(None)

    def _post_mortem(self) -> ParserGaveUp:
        code = self._process.returncode
        if code is None:
            return ParserGaveUp("The parser hangs on this file and cannot be stopped.")
        if code == -signal.SIGKILL:
            return ParserGaveUp("The system ended the parser on this file, most likely for want of memory.")
        if code < 0:
            return ParserCrashed(f"The parser crashed on this file ({signal.Signals(-code).name}).")
        return ParserGaveUp(f"The parser ended on this file without an answer (exit code {code}).")

    def _reap(self) -> None:
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            # It waits for a disk or a server that does not answer; even SIGKILL has to wait for that.
            return
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # Data still buffered for the dead process cannot be written.
                with contextlib.suppress(OSError):
                    stream.close()


def _environment() -> dict[str, str]:
    """Returns our environment, extended so that the child finds this package and uses one thread and few heaps."""
    return {
        **own_modules.environment(),
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }
