"""How a bench ends that is told to: as if it had come to its end, with its sides, groups and folders gone.

By itself a process that gets SIGTERM is gone at once, and leaves behind what every `with` block would have removed: a
copy of a model of several GB, groups that hold reads to a rate. (Nothing helps against SIGKILL: what that leaves of
groups is removed by the next bench, confined.py.)
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# By whoever wants it to end, and by a terminal that is closed.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def run(main: Callable[[], int]) -> int:
    """The exit code of a bench's `main`; 128 and the signal's number where it was told to end."""
    with ended_by_signals():
        return main()


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A signal to end raises SystemExit in the block; a second one does not disturb what is being put away for it."""
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
