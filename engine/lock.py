"""One engine per library: the lock that shows which process holds it, and the one by which commands take turns."""

from __future__ import annotations

import filelock

from engine.config import Home
from engine.errors import HomeUnusable, LibraryHeld

# Longer than an engine needs to end and release the library (see engine/__main__.py).
PATIENCE_S = 4.0


def hold(home: Home, patience_seconds: float = 0.0) -> filelock.BaseFileLock:
    """Acquires the lock of the library, waiting up to `patience_seconds` for a process that is about to end.

    Raises:
        LibraryHeld: Another process has it.
        HomeUnusable: Its file is not ours.
    """
    lock = _taken(home, "engine.lock", patience_seconds)
    if lock is None:
        raise LibraryHeld(
            "Ragdoll is already open and holds this library: its window, or a command such as `ragdoll serve`.",
            "Close the window, or end the command, and try again; or do this there.",
        )
    return lock


def take_turn(home: Home) -> filelock.BaseFileLock | None:
    """Takes the lock of the command that may run an engine of its own; None while another command has it.

    Such an engine ends with its command, so others wait for it; a window's engine may run for days.

    Raises:
        HomeUnusable: Its file is not ours.
    """
    return _taken(home, "command.lock", 0.0)


def _taken(home: Home, name: str, patience_seconds: float) -> filelock.BaseFileLock | None:
    file = home.library / name
    lock = filelock.FileLock(file)
    try:
        lock.acquire(timeout=patience_seconds)
    except filelock.Timeout:
        return None
    except OSError as error:
        raise HomeUnusable.by(error, file) from error
    return lock
