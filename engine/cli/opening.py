"""Opening the library for a command, which reports on stderr which settings and what of the index cannot be used.

While the window is open, its engine holds the library, and the command uses it. Otherwise it runs an engine of its own,
one command at a time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from engine.cli.commanded import Commanded
from engine.cli.output import say
from engine.cli.running import RunningEngine
from engine.config import Home
from engine.door import knock
from engine.errors import EngineGone, LibraryHeld
from engine.events import Event, ProblemFound
from engine.lock import PATIENCE_S, take_turn

# The process that holds the library may be starting, and answer in a moment; or ending, and release it.
AGAIN_S = 0.05
# Longer than most commands take: waiting longer is reported.
TOLD_S = 2.0
# The other command may be waiting for this one: commands piped into each other, or one that was stopped.
MOST_S = 600.0


@contextmanager
def opened() -> Iterator[Commanded]:
    """Does the same as `reached`, and reports problems of the index at the end of the command, when it is open."""
    with reached() as engine:
        if problem := engine.settings_problem:
            say(problem)
        yield engine
        # If the window was closed just now, the command's work is done nevertheless.
        with suppress(EngineGone):
            if problem := engine.index_problem:
                say(f"{problem} ragdoll rescan rebuilds it from your files.")


@contextmanager
def asked() -> Iterator[Commanded]:
    """Does the same as `opened`, for questions: problems are reported on stderr while they are answered."""
    with opened() as engine:
        unsubscribe = engine.subscribe(_tell_problem)
        try:
            yield engine
        finally:
            unsubscribe()


@contextmanager
def reached() -> Iterator[Commanded]:
    """Yields an engine on the user's data folder: in a running process that can be called, otherwise in this one.

    It waits for another command that runs an engine of its own.

    Raises:
        LibraryHeld: A process that cannot be called holds it, or another command for too long.
        HomeUnusable, CatalogBroken, DiskFull: As Engine does.
    """
    home = Home.find()
    with ExitStack() as turn:
        # First, because a running engine spares this process the import, which takes longer than most answers.
        running = _running(home) or _running_before_our_turn(home, turn) or _running_or_own(home)
        with closing(running) as engine:
            yield engine


def _running_before_our_turn(home: Home, turn: ExitStack) -> Commanded | None:
    """Returns an engine that was opened while we waited; None when it is our turn, which ends with `turn`."""
    home.create()
    since, is_told = time.monotonic(), False
    while (lock := take_turn(home)) is None:
        if not is_told and time.monotonic() - since > TOLD_S:
            is_told = True
            say("Another command uses the library; this one continues when that has ended. Ctrl+C gives up.")
        if time.monotonic() - since > MOST_S:
            raise LibraryHeld(
                f"Another command has used the library for {MOST_S / 60:g} minutes.",
                "Try again when it has ended. If it waits for this one, end it, and run one after the other.",
            )
        time.sleep(AGAIN_S)
        if (running := _running(home)) is not None:
            return running
    turn.callback(lock.release)
    return None


def _running_or_own(home: Home) -> Commanded:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _own()
        except LibraryHeld:
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)
        if (running := _running(home)) is not None:
            return running


def _own() -> Commanded:
    from engine.engine import Engine

    return Engine.open()


def _running(home: Home) -> RunningEngine | None:
    """Connects to a running engine, if there is one. Raises LibraryHeld if it speaks another protocol version."""
    connection = knock(home)
    try:
        return RunningEngine(home, connection) if connection is not None else None
    except EngineGone:
        return None


def _tell_problem(event: Event) -> None:
    if isinstance(event, ProblemFound):
        say(event.sentence)
