"""Reserve: a file that occupies room on the library's disk, to be released when the disk is full.

Removing documents and tidying up free room, but need some to begin with; SQLite and LanceDB both write before they
drop anything. What brings in more does not get at it.
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
    """`hold` makes the file where there is room enough, `lent` runs what may need it."""

    def __init__(self, folder: Path, num_bytes: Callable[[], int]) -> None:
        """`num_bytes` says how many are to be held in `folder` now; 0 holds nothing."""
        self._file, self._num_bytes = folder / NAME, num_bytes

    def hold(self) -> bool:
        """Makes the file if it is not there and leaves as much free again; whether it is there."""
        num_bytes = self._num_bytes()
        if self._held_bytes() == num_bytes:
            return True
        # Whoever was killed while making it left a shorter one, and by now another size may be wanted.
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
        """Makes room; whether there was anything to give up."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True

    def lent(self, work: Callable[[], T]) -> T:
        """Does something that is all or nothing; if the disk is full, once more with the reserve's room."""
        try:
            return work()
        except Exception as error:
            if not is_disk_full(error) or not self.give_up():
                raise
        return work()

    def has_room(self) -> bool:
        """Whether it is worth going on with what stopped for want of room."""
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
            # Not only made long: a file with holes holds nothing.
            os.posix_fallocate(stream.fileno(), 0, num_bytes)
