"""Opening the library for a command, which tells on stderr what of its settings and its index cannot be used.

While the window is open its engine holds the library, and the command goes to that.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from engine.cli.commanded import Commanded
from engine.cli.running import RunningEngine
from engine.config import Home
from engine.door import knock
from engine.errors import EngineGone, LibraryHeld
from engine.lock import PATIENCE_S

# Whoever holds the library may be just starting, and hear us in a moment; or just ending, and give it up.
AGAIN_S = 0.05


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

    Raises:
        LibraryHeld: It is held by one that cannot be called.
        HomeUnusable, CatalogBroken, DiskFull: As Engine does.
    """
    with closing(_reached()) as engine:
        yield engine


def _reached() -> Commanded:
    home, until = Home.find(), time.monotonic() + PATIENCE_S
    while True:
        # First, as what is answered there needs no engine here, which takes longer to import than most answers.
        running = _running(home)
        if running is not None:
            return running
        try:
            return _own()
        except LibraryHeld:
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)


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
