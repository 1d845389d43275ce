"""Reserve: a file that occupies room on the library's disk, to be released when the disk is full.

Removals and compaction free room, but need some first: SQLite and LanceDB write before they drop anything. Work that
adds to the library must not use the reserve.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engine.errors import is_disk_full

NAME = "reserve"

T = TypeVar("T")


class Reserve:
    """The reserve of one library: `hold` makes the file if there is room enough, `lent` runs work that may need it."""

    def __init__(self, folder: Path, num_bytes: Callable[[], int]) -> None:
        """Takes the folder, and how many bytes to hold there now; 0 holds nothing."""
        self._file, self._num_bytes = folder / NAME, num_bytes

    def hold(self) -> bool:
        """Makes the file if as much again stays free; returns whether it is there."""
        num_bytes = self._num_bytes()
        if self._held_bytes() == num_bytes:
            return True
        # A kill while making it left a shorter file, or the wanted size has changed.
        self.give_up()
        if self.free_bytes() < 2 * num_bytes:
            return False
        try:
            if num_bytes:
                self._fill(num_bytes)
        except OSError:
            self.give_up()
            return False
        return True

    def give_up(self) -> bool:
        """Deletes the file; returns whether there was one."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def lent(self, work: Callable[[], T]) -> T:
        """Runs work that is all or nothing; if the disk is full, runs it again with the reserve's room."""
        try:
            return work()
        except Exception as error:
            if not is_disk_full(error) or not self.give_up():
                raise
        return work()

    def has_room(self) -> bool:
        """Returns whether work that a full disk stopped can be continued."""
        return self.hold() and self.free_bytes() >= self._num_bytes()

    def free_bytes(self) -> int:
        try:
            return shutil.disk_usage(self._file.parent).free
        except OSError:
            return 0

    def _held_bytes(self) -> int:
        try:
            return self._file.stat().st_size
        except OSError:
            return 0

    def _fill(self, num_bytes: int) -> None:
        with self._file.open("xb") as stream:
            # Not `truncate`: a sparse file occupies nothing.
            os.posix_fallocate(stream.fileno(), 0, num_bytes)
