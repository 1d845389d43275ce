"""Durable files: a name appears in a folder only when all of its content is safe on the disk.

What others write without waiting for the disk is made durable afterwards, before anybody counts on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

# What is being written; whatever a kill leaves of it is deleted when the folder is opened.
SUFFIX_MEANWHILE = ".tmp"
# By then systems have written by themselves what was left in memory.
_SECONDS_UNTIL_WRITTEN = 60.0


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


class NewFiles:
    """What appears below some folders: files that are never changed once they are whole, each with its own name."""

    def __init__(self, folders: Collection[Path]) -> None:
        """What lies there already counts as safe, unless it is so new that a process may have been killed over it."""
        self._folders = folders
        self._safe = {file for file in self._files() if not _is_fresh(file)}

    def sync(self) -> None:
        """Comes back when all that is new is safe on the disk. Raises OSError."""
        files = self._files()
        new = files - self._safe
        for file in new:
            _sync_file(file)
        # A name counts when its folder is safe, and that one's name likewise.
        parents = {folder for file in new for folder in list(Path(file).parents)[:2]}
        for folder in sorted(parents, key=lambda folder: len(folder.parts), reverse=True):
            _sync_folder(folder)
        self._safe = files

    def _files(self) -> set[str]:
        """As strings: each commit looks at all of them, and there may be thousands."""
        found = ((below, names) for folder in self._folders for below, _, names in os.walk(folder))
        return {f"{below}{os.sep}{name}" for below, names in found for name in names}


def _is_fresh(file: str) -> bool:
    try:
        return time.time() - os.stat(file).st_mtime < _SECONDS_UNTIL_WRITTEN
    except FileNotFoundError:
        return False


def _sync_file(file: str) -> None:
    try:
        # Windows makes durable only what is open for writing.
        descriptor = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Makes names in a folder durable, where the system lets a folder be opened for that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
