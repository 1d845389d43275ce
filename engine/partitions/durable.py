"""Durable files: a name appears in a folder only when all of its content is safe on the disk.

Files that libraries write without fsync are synced afterwards, before we rely on them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

# Marks a file that is being written; one that a killed process left is deleted when the folder is opened.
SUFFIX_MEANWHILE = ".tmp"
# By then operating systems have written cached data to the disk.
_SECONDS_UNTIL_WRITTEN = 60.0


def write_durably(path: Path, pieces: Iterable[bytes | bytearray | memoryview]) -> None:
    """Writes the pieces to a temporary file, syncs it, and renames it to `path`.

    Args:
        path: An existing file is replaced; processes that have it open keep reading the old one.
        pieces: Consumed one at a time.

    Raises:
        OSError: Nothing was written under that name, for example because the disk is full.
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
    """Deletes a file that may not exist; returns False if it cannot be deleted yet because it is open.

    Windows reports a PermissionError for an open file.

    Raises:
        OSError: It cannot be deleted for another reason.
    """
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


class NewFiles:
    """Syncs files that appear below some folders. They are never changed once written, and names are not reused."""

    def __init__(self, folders: Collection[Path]) -> None:
        """Treats existing files as safe, except very new ones, which a killed process may not have synced."""
        self._folders = folders
        self._safe = {file for file in self._files() if not _is_fresh(file)}

    def sync(self) -> None:
        """Returns when all new files are safe on the disk. Raises OSError."""
        files = self._files()
        new = files - self._safe
        for file in new:
            _sync_file(file)
        # A name is durable when its folder was synced, and the folder's own name when its parent was.
        parents = {folder for file in new for folder in list(Path(file).parents)[:2]}
        for folder in sorted(parents, key=lambda folder: len(folder.parts), reverse=True):
            _sync_folder(folder)
        self._safe = files

    def _files(self) -> set[str]:
        """Lists all files, as strings for speed: this runs at each commit, and there may be thousands."""
        found = ((below, names) for folder in self._folders for below, _, names in os.walk(folder))
        return {f"{below}{os.sep}{name}" for below, names in found for name in names}


def _is_fresh(file: str) -> bool:
    try:
        return time.time() - os.stat(file).st_mtime < _SECONDS_UNTIL_WRITTEN
    except FileNotFoundError:
        return False


def _sync_file(file: str) -> None:
    try:
        # Windows can only sync a file that is open for writing.
        descriptor = os.open(file, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, on systems where a folder can be synced."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
