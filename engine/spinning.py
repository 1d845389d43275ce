"""Threads that compute together spin while they wait for each other, unless others need their cores.

A pass of a model has hundreds of points where each thread waits for the last one, often for a few µs. libgomp lets them
spin for 3 ms before they sleep: without that, a 1B model on two cores wrote 19 tokens a second instead of 33. But
alongside a busy program, a spinning thread keeps the core from the thread that it waits for: 9 tokens instead of 15.
libgomp spins for only some µs while it has more threads than there are cores, and idle threads bring that about at any
moment. So the share of its time that the computing thread waits for a core is measured; while it is large, there are
idle threads.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from engine.own_cores import allowed_cores

log = logging.getLogger(__name__)

# The computing time between two looks.
LOOK_SECONDS = 0.25
# If a thread waits for a core for a larger share of its passes, others want the core. Measured were 0 to 1.3 % alone,
# 27 to 40 beside one busy program, and up to 15 where models take turns, since clients that receive tokens need a core
# as well. (How often it has to give up its core says nothing: that is the same in all of these.)
MOST_WAITING = 0.2
# How many looks in a row must find others before spinning is shortened, and then find none before it is restored.
CROWDED_LOOKS, QUIET_LOOKS = 2, 4
_SCHEDSTAT = Path("/proc/thread-self/schedstat")

# Blocks of `idle_cores_wanted` that are entered now, by any thread.
_wanted: list[int] = []


class Idlers(Protocol):
    """Threads that have nothing to do and sleep."""

    def end(self) -> None:
        """Ends the threads; a second call does nothing."""
        ...


class IdleTeam:
    """Threads of one copy of libgomp, more than there are cores, until `end`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Raises AttributeError where it is no libgomp, RuntimeError where there can be no thread."""
        self._is_over, is_there = threading.Event(), threading.Event()
        # Looked up here, because an exception in the thread would reach no caller.
        parallel = library.GOMP_parallel
        # The team belongs to this thread, for as long as that lives.
        self._thread = threading.Thread(target=self._run, args=(parallel, is_there), name="idle team", daemon=True)
        self._thread.start()
        is_there.wait()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self, parallel: Callable[..., None], is_there: threading.Event) -> None:
        try:
            # Each of them calls free(NULL), which does nothing.
            nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)
            parallel(nothing, None, ctypes.c_uint(allowed_cores() + 1), ctypes.c_uint(0))
        finally:
            is_there.set()
        self._is_over.wait()


class IdleTeams:
    """One team for each loaded copy of libgomp: llama.cpp, torch and others may bring their own, or share one."""

    def __init__(self) -> None:
        self.teams: list[IdleTeam] = []
        for path in loaded_libraries():
            try:
                # RTLD_NOLOAD: it is loaded already, and only looked up.
                self.teams.append(IdleTeam(ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)))
            except (OSError, RuntimeError, AttributeError) as error:
                # Its threads go on spinning, which must not fail an answer.
                log.warning("threads of %s spin although others want their cores: %s", path.name, error)

    def end(self) -> None:
        for team in self.teams:
            team.end()


class Spinning:
    """Decides how long threads spin that compute with the one that calls `watched`; no other thread may."""

    def __init__(
        self,
        idlers: Callable[[], Idlers] | None = None,
        waited: Callable[[], float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins with long spinning.

        Args:
            idlers: Starts idle threads, whose presence shortens it.
            waited: Returns for how many seconds the calling thread has waited for a core so far.
            clock: Seconds that never go back.
        """
        self._make_idlers, self._waited, self._clock = idlers or IdleTeams, waited or seconds_waited, clock
        self._idlers: Idlers | None = None
        self._seconds = self._waited_before = self._ended_at = 0.0
        # How many looks in a row called for a change.
        self._num_other = 0

    @property
    def is_short(self) -> bool:
        """Whether threads hardly spin now."""
        return self._idlers is not None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches a pass, which is computed in the block."""
        if _wanted and self._idlers is None:
            self._idlers, self._num_other = self._make_idlers(), 0
        since = self._clock()
        if not self._seconds or since - self._ended_at > LOOK_SECONDS:
            # Waiting in a pause between passes says nothing about the passes.
            self._waited_before, self._seconds = self._waited(), 0.0
        yield
        self._ended_at = self._clock()
        self._seconds += self._ended_at - since
        if self._seconds >= LOOK_SECONDS:
            self._look(self._waited() - self._waited_before > MOST_WAITING * self._seconds)
            self._seconds = 0.0

    def end(self) -> None:
        """Restores the beginning: no idle threads."""
        idlers, self._idlers = self._idlers, None
        if idlers is not None:
            idlers.end()

    def _look(self, is_crowded: bool) -> None:
        self._num_other = self._num_other + 1 if (is_crowded or bool(_wanted)) != self.is_short else 0
        if self._num_other < (QUIET_LOOKS if self.is_short else CROWDED_LOOKS):
            return
        self._num_other = 0
        if self.is_short:
            self.end()
        else:
            self._idlers = self._make_idlers()


@contextmanager
def idle_cores_wanted() -> Iterator[None]:
    """Marks work that takes only idle cores (yielding.py): threads that wait for each other leave it theirs."""
    _wanted.append(threading.get_ident())
    try:
        yield
    finally:
        _wanted.remove(threading.get_ident())


def seconds_waited() -> float:
    """Returns how long the calling thread was ready but had no core; 0 if the system does not report it."""
    try:
        # Nanoseconds on a core, and waiting for one (Documentation/scheduler/sched-stats.rst).
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def loaded_libraries() -> tuple[Path, ...]:
    """Returns the copies of libgomp that are loaded."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    files = {Path(line.split(maxsplit=5)[-1]) for line in maps.splitlines() if "libgomp" in line}
    return tuple(sorted(file for file in files if file.is_absolute() and file.name.startswith("libgomp")))
