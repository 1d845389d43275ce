"""Opening the library for a command, which tells on stderr what of its settings and its index cannot be used.

While the window is open its engine holds the library, and the command goes to that. Else it has an engine of its own,
for which commands take turns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

from engine.cli.commanded import Commanded
from engine.cli.running import RunningEngine
from engine.config import Home
from engine.door import knock
from engine.errors import EngineGone, LibraryHeld
from engine.lock import PATIENCE_S, take_turn

# Whoever holds the library may be just starting, and hear us in a moment; or just ending, and give it up.
AGAIN_S = 0.05
# Longer than most commands take: who waits for another is told of it.
TOLD_S = 2.0
# Whom it waits for may be waiting for us: commands that are piped into each other, or one that was stopped.
MOST_S = 600.0


@contextmanager
def opened() -> Iterator[Commanded]:
    """As `reached`; of the index is told when the command is done, for then it is open."""
    with reached() as engine:
        if problem := engine.settings_problem:
            _say(problem)
        yield engine
        # A window that was closed just now takes nothing from what was done.
        with suppress(EngineGone):
            if problem := engine.index_problem:
                _say(f"{problem} ragdoll rescan makes it anew from your files.")


@contextmanager
def reached() -> Iterator[Commanded]:
    """An engine on the user's data folder, in this process or, where one runs that can be called, in that.

    Another command that has one of its own is waited for.

    Raises:
        LibraryHeld: It is held by one that cannot be called, or for long by another command.
        HomeUnusable, CatalogBroken, DiskFull: As Engine does.
    """
    home = Home.find()
    with ExitStack() as turn:
        # First, as what is answered there needs no engine here, which takes longer to import than most answers.
        running = _running(home) or _running_before_our_turn(home, turn) or _running_or_own(home)
        with closing(running) as engine:
            yield engine


def _running_before_our_turn(home: Home, turn: ExitStack) -> Commanded | None:
    """An engine that somebody has opened while we waited; None when it is our `turn`, which ends with that."""
    home.create()
    since, is_told = time.monotonic(), False
    while (lock := take_turn(home)) is None:
        if not is_told and time.monotonic() - since > TOLD_S:
            is_told = True
            _say("Another command uses the library; this one goes on when that has ended. Ctrl+C gives up.")
        if time.monotonic() - since > MOST_S:
            raise LibraryHeld(
                f"Another command has used the library for {MOST_S / 60:g} minutes.",
                "Try again when it has ended. If it waits for this one, end it, and do one after the other.",
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
    """Raises LibraryHeld where it does not understand us."""
    connection = knock(home)
    try:
        return RunningEngine(home, connection) if connection is not None else None
    except EngineGone:
        return None


def _say(sentence: str) -> None:
    print(f"ragdoll: {sentence}", file=sys.stderr)
