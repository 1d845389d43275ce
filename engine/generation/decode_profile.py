"""How long writing a token takes, t(B, length): as measured while B answers of about that length were written.

PipeRAG's performance model needs it to know how much time the writing of an interval leaves for a search. Like reading
(prefill_profile.py), it is learnt while running; values between measurements are interpolated linearly.
"""

from __future__ import annotations

from bisect import bisect_left

_WRITING = (1, 2, 4, 8, 16, 32, 64)
_LENGTHS = (256, 1024, 4096, 16384, 65536)
_LEARNING_RATE = 0.1
# A step that was delayed says little about the next one.
_HELD_UP = 3.0
# Used until something is measured: a small model on a laptop.
_GUESSED_SECONDS = 0.05


class DecodeProfile:
    """Seconds of a step that writes a token of each of B answers; owned by the generation thread."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, int], float] = {}

    def note(self, num_writing: int, length: int, seconds: float) -> None:
        """Notes that a token of each of `num_writing` answers took this long, with `length` tokens before it."""
        if num_writing <= 0 or seconds <= 0:
            return
        node = _node(num_writing, length)
        known = self._seconds.get(node)
        if known is None:
            self._seconds[node] = seconds
        else:
            self._seconds[node] += _LEARNING_RATE * (min(seconds, _HELD_UP * known) - known)

    def seconds(self, num_writing: int, length: int, num_tokens: int = 1) -> float:
        """Returns how long the next `num_tokens` of each answer are expected to take: Σ t(B, length + i)."""
        middle = self._of_length(_node(num_writing, 0)[0], length + num_tokens // 2)
        return num_tokens * middle

    def _of_length(self, row: int, length: int) -> float:
        known = sorted((column, seconds) for (at, column), seconds in self._seconds.items() if at == row)
        if not known:
            return self._of_nearest_row(row)
        above = next((place for place, (column, _) in enumerate(known) if _LENGTHS[column] >= length), len(known) - 1)
        if above == 0 or _LENGTHS[known[above][0]] < length:
            return known[above][1]
        (left, before), (right, after) = known[above - 1], known[above]
        share = (length - _LENGTHS[left]) / (_LENGTHS[right] - _LENGTHS[left])
        return before + share * (after - before)

    def _of_nearest_row(self, row: int) -> float:
        if not self._seconds:
            return _GUESSED_SECONDS
        return self._seconds[min(self._seconds, key=lambda node: (abs(node[0] - row), node[1]))]


def _node(num_writing: int, length: int) -> tuple[int, int]:
    row = min(bisect_left(_WRITING, num_writing), len(_WRITING) - 1)
    return row, min(bisect_left(_LENGTHS, length), len(_LENGTHS) - 1)
