"""Ends a bench cleanly on a signal: its sides, control groups and temporary folders are removed as on a normal exit.

By default SIGTERM ends a process at once and leaves behind what `with` blocks would have removed: a copy of a model of
several GB, control groups that limit reads. SIGKILL cannot be handled; the next bench removes the control groups that
it leaves (confined.py).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Sent by `kill`, and when a terminal is closed.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def run(main: Callable[[], int]) -> int:
    """Returns the exit code of a bench's `main`; 128 plus the signal's number if a signal ended it."""
    with ended_by_signals():
        return main()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raises SystemExit in the block on a signal; ignores further signals, which would interrupt the clean-up."""
    before = {number: signal.signal(number, _end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    sys.exit(128 + number)
