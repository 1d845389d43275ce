"""Durable files: a name appears in a folder only when all of its content is safe on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# What is being written; whatever a kill leaves of it is deleted when the folder is opened.
SUFFIX_MEANWHILE = ".tmp"


def write_durably(path: Path, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
    """Writes the pieces one after another beside `path` and renames them there when they are safe on the disk.

    Args:
        path: A file there before is replaced; who has it open reads on in the old one.
        pieces: Taken one at a time.

    Raises:
        OSError: Nothing was written under that name (the disk is full, say).
    """
    beside = path.with_suffix(path.suffix + SUFFIX_MEANWHILE)
    try:
        with beside.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def dropped(path: Path) -> bool:
    """Deletes a file that may not be there; False where it has to stay for now, because somebody has it open.

    Windows says of such a file that it is not permitted.

    Raises:
        OSError: It cannot be deleted for another reason.
    """
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Makes names in a folder durable, where the system lets a folder be opened for that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
