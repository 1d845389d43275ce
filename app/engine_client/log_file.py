"""What the engine writes to its standard error, native libraries included, in log files of limited size."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)
MAX_BYTES = 2 * 2**20
NUM_KEPT = 3


class RotatedLog:
    """Appends to `file`; when it is full it becomes `file.1`, older ones move up, the oldest is deleted."""

    def __init__(self, file: Path, max_bytes: int = MAX_BYTES, num_kept: int = NUM_KEPT) -> None:
        self._file = file
        self._max_bytes, self._num_kept = max_bytes, num_kept
        self._stream: BinaryIO | None = None
        self._has_failed = False

    def write(self, data: bytes) -> None:
        """Appends; never raises, because a full disk must not end the window."""
        try:
            self._append(data)
        except OSError as error:
            self.close()
            if not self._has_failed:
                self._has_failed = True
                log.error("%s cannot be written: %s", self._file, error)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _append(self, data: bytes) -> None:
        if self._stream is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._stream = open(self._file, "ab", buffering=0)  # noqa: SIM115 - stays open
        if self._stream.tell() + len(data) > self._max_bytes and self._stream.tell():
            self._rotate()
            self._append(data)
        else:
            self._stream.write(data)

    def _rotate(self) -> None:
        self.close()
        for number in range(self._num_kept - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._file.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}")
