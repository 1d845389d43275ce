"""The command line, for users and scripts: the same Engine, in this process or in that of the open window.

Scripts rely on this: with `--json` exactly one JSON document on stdout (one a line for `--batch`), logs on
stderr, exit code 0 also when single documents or questions of a batch failed, 1 on failure, 2 for bad arguments,
3 for what cannot be done while the application holds the library, 4 if nothing is at a path, and 128 plus the signal's
number where one ended the command. `RAGDOLL_HOME` moves all data.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from engine.cli.output import Output, say
from engine.cli.parser import make_parser
from engine.errors import BadRequest, LibraryHeld, ModelNotFound, NothingThere, RagdollError
from engine.memory.heap import lean_heap
from engine.stdio import take_stdout
from engine.yielding import switch_often

# Repeated signals count once: Ctrl+C pressed twice, or a closed terminal that signals all its processes.
_ONE_END_SECONDS = 2.0
EXIT_OK, EXIT_FAILED, EXIT_BAD_ARGUMENTS, EXIT_HELD, EXIT_NOTHING_THERE = 0, 1, 2, 3, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, and returns the exit code."""
    options = make_parser().parse_args(arguments)
    out = Output(take_stdout(), options.json)
    _quiet_logs(options.verbose)
    lean_heap()
    switch_often()
    try:
        with _ended_in_order():
            options.run(options, out)
    except RagdollError as error:
        say(str(error))
        return _exit_code(error)
    except KeyboardInterrupt as stop:
        say("stopped.")
        return 128 + (stop.number if isinstance(stop, _Ended) else signal.SIGINT)
    except BrokenPipeError:
        return EXIT_OK
    return EXIT_OK


class _Ended(KeyboardInterrupt):
    """A signal to end; handled like Ctrl+C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Lets signals unwind the main thread, so that the engine is closed; restores the old handlers afterwards.

    A model that is being loaded while a process is killed counts as one that ended it.
    """
    latest = float("-inf")
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread gets signals, and its own code handles them.
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal latest
        now = time.monotonic()
        if now - latest < _ONE_END_SECONDS:
            return
        latest = now
        # Not print: the signal may have interrupted one.
        with suppress(OSError):
            os.write(2, "ragdoll: stopping…\n".encode())
        raise _Ended(number)

    # Ignored signals (by nohup, or in the background of a script) stay ignored.
    numbers = (signal.SIGINT, signal.SIGTERM, *(() if sys.platform == "win32" else (signal.SIGHUP,)))
    heard = {number: was for number in numbers if (was := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, was in heard.items():
            signal.signal(number, was)


def _exit_code(error: RagdollError) -> int:
    if isinstance(error, LibraryHeld):
        return EXIT_HELD
    if isinstance(error, NothingThere | ModelNotFound):
        return EXIT_NOTHING_THERE
    return EXIT_BAD_ARGUMENTS if isinstance(error, BadRequest) else EXIT_FAILED


def _quiet_logs(verbose: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
    )
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
