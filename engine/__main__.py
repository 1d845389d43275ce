"""`python -m engine`: the engine process, speaking the protocol over stdin and stdout (see wire.py).

Order matters here: stdout is taken before anything else is imported, so that no native print can reach the
pipe; parser children are started by exec, never forked, because torch, lancedb and llama.cpp are not fork-safe.
"""

from __future__ import annotations

import sys

from engine.stdio import take_stdout

if __name__ == "__main__":
    _protocol_stream = take_stdout()

import ctypes
import faulthandler
import logging
import os
import signal
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import BinaryIO

from engine import __version__
from engine.outlet import Outlet
from engine.protocol import PROTOCOL_VERSION, Ready
from engine.yielding import switch_often

# PR_SET_PDEATHSIG in <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
_NICENESS = 5
_OOM_SCORE_ADJ = 300
_GRACE_S = 2.5
# Within this time, the main thread has noticed a signal that interrupted its wait.
_HEARD_S = 0.1
_told_to_end, _tell_to_end = os.pipe()


# SIGTERM, once it has been handled.
_heard: list[int] = []


class _Terminated(BaseException):
    """SIGTERM arrived; unwinds the main thread out of its read."""


def main(stream: BinaryIO) -> int:
    """Serves the window until it disconnects; `stream` is the original stdout."""
    parent = os.getppid()
    _behave_as_a_child(parent)
    outlet = Outlet(stream)
    outlet.notify(Ready(protocol_version=PROTOCOL_VERSION, pid=os.getpid(), engine_version=__version__))
    # Imported after `Ready` was sent, so that the window does not wait for numpy and llama.cpp.
    from engine.config import Home
    from engine.engine import Engine
    from engine.host import Host
    from engine.lock import PATIENCE_S
    from engine.memory.heap import lean_heap

    lean_heap()
    host = Host(outlet)
    try:
        # The window sets this after repeated crashes: nothing is loaded or continued unless it is requested.
        is_warm = "--careful" not in sys.argv[1:]
        # The engine of a window that crashed takes a moment to notice.
        host.open(
            lambda publish: Engine(
                Home.find(), publish, warm=is_warm, watches=is_warm, lock_patience_seconds=PATIENCE_S
            )
        )
        host.listen()
        host.serve(sys.stdin.buffer)
    except _Terminated:
        host.leave_questions_open()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _end_soon()
        host.close()
    return 0


def _behave_as_a_child(parent: int) -> None:
    """Makes the process end with the window, yield to it, and be killed first (after parsers) if memory runs out."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    faulthandler.enable()
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    switch_often()
    _watch_over_the_end()
    signal.signal(signal.SIGTERM, _on_terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        # A terminal that is closed signals all its processes; the window then ends us in order.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if sys.platform == "linux":
        _die_with(parent)
        with suppress(OSError):
            os.nice(_NICENESS)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(_OOM_SCORE_ADJ))


def _die_with(parent: int) -> None:
    """Asks the kernel for SIGTERM when the thread that started us ends, and checks that it has not already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(1)


def _watch_over_the_end() -> None:
    """Starts the thread that `_end_soon` signals through a pipe: a signal handler must not wait for any lock."""
    threading.Thread(target=_end_when_told, args=(threading.get_ident(),), name="end", daemon=True).start()
    if sys.platform != "win32":
        # The pipe gets a byte as soon as a signal arrives; its handler runs only between two steps of the main thread.
        os.set_blocking(_tell_to_end, False)
        signal.set_wakeup_fd(_tell_to_end)


def _end_when_told(main_thread: int) -> None:
    """Ends the process even where a thread cannot be stopped (importing torch takes seconds); a kill loses nothing."""
    os.read(_told_to_end, 1)
    time.sleep(_HEARD_S)
    if sys.platform != "win32" and not _heard:
        # The signal went to another thread, or came just before the main one began to read and did not interrupt it.
        signal.pthread_kill(main_thread, signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(0)


def _end_soon() -> None:
    os.write(_tell_to_end, b".")


def _on_terminate(number: int, frame: FrameType | None) -> None:
    if _heard:
        return
    _heard.append(number)
    # An exception raised in a callback of an import or a destructor is swallowed; the process ends nevertheless.
    _end_soon()
    raise _Terminated


def _run() -> int:
    try:
        return main(_protocol_stream)
    except _Terminated:
        return 0
    except Exception:  # the edge of the process: logged, and the window starts another
        logging.exception("the engine cannot go on")
        return 1


if __name__ == "__main__":
    exit_code = _run()
    logging.shutdown()
    # Not sys.exit: an interpreter that winds down while a thread imports torch can hang, and nothing is left to save.
    os._exit(exit_code)
