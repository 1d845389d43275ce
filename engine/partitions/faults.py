"""Turns what LanceDB raises into our errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from engine.errors import DiskFull, LibraryError, is_disk_full


@contextmanager
def reported(sentence: str) -> Iterator[None]:
    """Turns what LanceDB raises (RuntimeError, ValueError, OSError by case) into our errors."""
    try:
        yield
    except (RuntimeError, ValueError, OSError) as error:
        raise as_library_error(sentence, error) from error


def is_the_systems(error: Exception) -> bool:
    """Returns whether the operating system refused access, which says nothing about the files; a missing file does."""
    # Python's own errors have a number; LanceDB's errors, some of which are OSErrors as well, have it in their text.
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno != errno.ENOENT
    return bool(re.search(r"os error (?!2\b)\d+|permission denied|too many open files", str(error), re.IGNORECASE))


def is_of_an_index(error: Exception) -> bool:
    """Returns whether the missing file belongs to an index and not to the rows."""
    return "_indices" in str(error)


def as_library_error(sentence: str, error: Exception) -> LibraryError:
    """Converts an error of LanceDB, whose messages contain the system's code as "os error 28", to one of ours."""
    said = str(error)
    if is_disk_full(error):
        return DiskFull("The disk is full; the index could not be written.", "Free some space and start again.")
    reason = said.strip().splitlines()[0] if said.strip() else type(error).__name__
    return LibraryError(f"{sentence}: {reason}", "Restart Ragdoll; if it happens again, see the log.")
