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
    """Whether the system refused something, which says nothing of the files; that one is missing does."""
    # Python gives the number of what the system says; LanceDB, whose errors may be OSErrors too, puts it into words.
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno != errno.ENOENT
    return bool(re.search(r"os error (?!2\b)\d+|permission denied|too many open files", str(error), re.IGNORECASE))


def is_of_an_index(error: Exception) -> bool:
    """Whether a file of an index is lacking, not one of rows."""
    return "_indices" in str(error)


def as_library_error(sentence: str, error: Exception) -> LibraryError:
    """Our error for one of LanceDB's, whose messages carry the system's code as "os error 28"."""
    said = str(error)
    if is_disk_full(error):
        return DiskFull("The disk is full; the index could not be written.", "Free some space and start again.")
    reason = said.strip().splitlines()[0] if said.strip() else type(error).__name__
    return LibraryError(f"{sentence}: {reason}", "Restart Ragdoll; if it happens again, see the log.")
