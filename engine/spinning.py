"""Threads that compute together spin while they wait for each other, unless others want their cores.

A pass through a model has hundreds of points where each thread waits for the last one, often for a few µs. libgomp has
them spin for 3 ms before they sleep: woken each time instead, a 1B model wrote 19 tokens a second where it wrote 33, on
two cores. Beside a busy program, though, who spins keeps the core from the one that is waited for: 9 tokens, where it
were 15. libgomp spins for some µs only as soon as it has more threads than there are cores, which can be brought about
at any moment, by threads that have nothing to do. So it is measured how often the thread that computes has to give up
its core, and where that is often, there are such threads.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from engine.yielding import available_cores

# Computing that passes between two looks.
LOOK_SECONDS = 0.25
# Times a second that a thread had to give up its core. Alone 4 to 30 were measured, beside one busy program 90 to 110,
# and 1,800 to 2,900 where threads hardly spin.
MOST_PREEMPTIONS = 50.0
# So many looks in a row have to find nobody: who is about to come again had better not be waited for by spinning.
QUIET_LOOKS = 8


class Idlers(Protocol):
    """Threads that have nothing to do and sleep."""

    def end(self) -> None:
        """They are gone; a second call does nothing."""
        ...


class IdleTeam:
    """Threads of one copy of libgomp, more than there are cores, until `end`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._is_over, is_there = threading.Event(), threading.Event()
        # It has the team as its own for as long as it lives.
        self._thread = threading.Thread(target=self._run, args=(library, is_there), name="idle team", daemon=True)
        self._thread.start()
        is_there.wait()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self, library: ctypes.CDLL, is_there: threading.Event) -> None:
        # What each of them does is to free nothing.
        nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)
        library.GOMP_parallel(nothing, None, ctypes.c_uint(available_cores() + 1), ctypes.c_uint(0))
        is_there.set()
        self._is_over.wait()


class Spinning:
    """Of the threads that compute with the one that calls `watched`; nobody else may."""

    def __init__(
        self,
        idlers: Callable[[], Idlers | None] | None = None,
        preemptions: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins with spinning.

        Args:
            idlers: Makes threads whose being there shortens it; None where that cannot be.
            preemptions: How often the calling thread had to give up its core so far.
            clock: Seconds that never go back.
        """
        self._make_idlers, self._preemptions = idlers or _idlers_of_llama, preemptions or own_preemptions
        self._clock = clock
        self._idlers: Idlers | None = None
        self._seconds, self._count, self._num_quiet = 0.0, 0, 0

    @property
    def is_short(self) -> bool:
        """Whether threads hardly spin now."""
        return self._idlers is not None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A pass is computed in the block."""
        since, before = self._clock(), self._preemptions()
        yield
        self._seconds += self._clock() - since
        self._count += self._preemptions() - before
        if self._seconds >= LOOK_SECONDS:
            self._look(self._count > MOST_PREEMPTIONS * self._seconds)
            self._seconds, self._count = 0.0, 0

    def end(self) -> None:
        """As at the beginning."""
        idlers, self._idlers = self._idlers, None
        if idlers is not None:
            idlers.end()

    def _look(self, is_crowded: bool) -> None:
        self._num_quiet = 0 if is_crowded else self._num_quiet + 1
        if is_crowded and self._idlers is None:
            self._idlers = self._make_idlers()
        elif self._num_quiet >= QUIET_LOOKS:
            self.end()


def own_preemptions() -> int:
    """How often the calling thread had to give up its core; 0 where that is not told."""
    if sys.platform != "linux":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def loaded_libraries() -> tuple[Path, ...]:
    """The copies of libgomp that are loaded."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    files = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "libgomp" in line}
    return tuple(sorted(Path(file) for file in files if file.startswith("/")))


def _idlers_of_llama() -> IdleTeam | None:
    """Of the copy that llama.cpp computes with: its own, where a wheel brought one, else that which others share."""
    paths = loaded_libraries()
    own = [path for path in paths if any(part.startswith("llama_cpp") for part in path.parts)]
    shared = [path for path in paths if "torch" not in path.parts] or list(paths)
    file = next(iter(own or shared), None)
    return IdleTeam(ctypes.CDLL(str(file), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)) if file is not None else None
