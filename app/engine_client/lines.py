"""Lines out of a stream of bytes, without copying what has not ended yet."""

from __future__ import annotations


class LineBuffer:
    """Takes bytes as they come, returns whole lines without their newline.

    A line longer than `max_bytes` is returned cut, so that garbage without a newline cannot fill the memory; its rest
    is dropped up to its newline.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = bytearray()
        self._searched = 0
        self._is_dropping = False

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def next(self) -> bytes | None:
        """Returns the next line, or None while there is no whole one."""
        while (end := self._bytes.find(b"\n", self._searched)) >= 0:
            line = bytes(self._bytes[:end])
            del self._bytes[: end + 1]
            self._searched = 0
            if not self._is_dropping:
                return line
            self._is_dropping = False
        self._searched = len(self._bytes)
        return self._overlong()

    def _overlong(self) -> bytes | None:
        if self._is_dropping:
            self._forget()
            return None
        if len(self._bytes) <= self._max_bytes:
            return None
        line = bytes(self._bytes)
        self._forget()
        self._is_dropping = True
        return line

    def _forget(self) -> None:
        self._bytes.clear()
        self._searched = 0
