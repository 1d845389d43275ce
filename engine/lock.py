"""One engine a library: the lock that says which process holds it."""

from __future__ import annotations

import filelock

from engine.config import Home
from engine.errors import LibraryHeld


def hold(home: Home) -> filelock.BaseFileLock:
    """The lock, taken; whoever releases it gives the library up.

    Raises:
        LibraryHeld: Another process has it.
    """
    lock = filelock.FileLock(home.library / "engine.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise LibraryHeld(
            "Ragdoll is already open and holds this library.", "Close the window, or do this in the window."
        ) from error
    return lock
