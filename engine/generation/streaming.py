"""Turns bytes of tokens into text that can be shown: whole characters only, and never a part of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence


class TextStream:
    """Collects one answer's bytes and releases text as soon as it can no longer change.

    It holds back the bytes of an incomplete character, and an end that could still become a stop string.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = tuple(text for text in stop if text)
        self._held = ""
        self._num_bytes_behind = 0
        self.is_stopped = False

    @property
    def holds_back(self) -> bool:
        """Whether it has bytes of which no text was released yet."""
        return bool(self._held or self._decoder.getstate()[0])

    @property
    def num_bytes_of_stop(self) -> int:
        """How many bytes came from the beginning of the stop string on; 0 without one."""
        if not self.is_stopped:
            return 0
        return len(self._held.encode()) + len(self._decoder.getstate()[0]) + self._num_bytes_behind

    def feed(self, piece: bytes) -> str:
        """Adds bytes and returns new text that is safe to show; none after a complete stop string."""
        if self.is_stopped:
            self._num_bytes_behind += len(piece)
            return ""
        self._held += self._decoder.decode(piece)
        if not self._stop:
            return self._release(len(self._held))
        cut = self._first_stop()
        if cut is not None:
            self.is_stopped = True
            return self._release(cut)
        return self._release(len(self._held) - possible_beginning(self._held, self._stop))

    def stop_at(self, text: str) -> None:
        """Adds a stop string from now on; "" is ignored."""
        if text and text not in self._stop:
            self._stop += (text,)

    def go_on_behind(self, pieces: Iterable[bytes]) -> str:
        """Continues after what was written before; returns its text without an incomplete character at the end."""
        return "".join(map(self._decoder.decode, pieces))

    def finish(self) -> str:
        """Returns the text that was held back, when no more tokens follow."""
        if self.is_stopped:
            return ""
        self._held += self._decoder.decode(b"", final=True)
        return self._release(len(self._held))

    def _release(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        return text

    def _first_stop(self) -> int | None:
        found = [at for at in (self._held.find(text) for text in self._stop) if at >= 0]
        return min(found, default=None)


def possible_beginning(text: str, wholes: Sequence[str]) -> int:
    """Returns how many characters at the end of a text could be the beginning of one of `wholes`."""
    longest = max((len(whole) for whole in wholes), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(whole.startswith(text[-length:]) for whole in wholes):
            return length
    return 0
