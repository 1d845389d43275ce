"""Predicts the time to read a prompt, T(cached, new), by bilinear interpolation between measurements while running.

RAGCache profiles the grid before serving (https://arxiv.org/abs/2404.12457, section 5.1); here every chunk of every
prompt is a measurement, so the profile follows the machine: its power mode, other programs, streamed layers.
"""

from __future__ import annotations

from bisect import bisect_right

_CACHED = (0.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)
_NEW = (1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
# A new measurement moves its neighbours by this share of the difference: about ten outweigh a start-up effect.
_LEARNING_RATE = 0.2
# Used until something is measured or planned; fits a small model on a laptop.
_GUESSED_SECONDS_PER_TOKEN = 0.01
# A plan predicts prompts of about this length.
_PLANNED_TOKENS = 1024.0


_Place = tuple[int, int]
_PLACES: tuple[_Place, ...] = tuple((row, column) for row in range(len(_CACHED)) for column in range(len(_NEW)))
# For each node of the grid, all nodes, the nearest first. Made once, because each chunk of a prompt changes the
# profile.
_NEAREST: dict[_Place, tuple[_Place, ...]] = {
    (row, column): tuple(sorted(_PLACES, key=lambda place: abs(place[0] - row) + abs(place[1] - column)))
    for row, column in _PLACES
}


class PrefillProfile:
    """Seconds per new token at the nodes of a grid; owned by the generation thread."""

    def __init__(self) -> None:
        self._rates: dict[_Place, float] = {}
        # A cache since the last change. A node that was never measured takes the value of the nearest one, scaled by
        # the cost of attention to more cells.
        self._known: dict[_Place, float] = {}
        self._cell_cost = self._planned_seconds = 0.0

    def expect(self, tokens_per_s: float) -> None:
        """Sets the speed that a plan predicts, used until something is measured; 0 if it predicts nothing."""
        if tokens_per_s > 0:
            self._planned_seconds = 1.0 / tokens_per_s

    def attends_at(self, cell_cost: float) -> None:
        """Sets the time of a token's attention to one cell as a share of its matrices' time (rows.py); 0 if unknown."""
        self._cell_cost = cell_cost
        self._known.clear()

    @property
    def is_measured(self) -> bool:
        return bool(self._rates)

    def note(self, cached_tokens: int, new_tokens: int, seconds: float) -> None:
        """Learns that computing `new_tokens` after `cached_tokens` took `seconds`."""
        if new_tokens <= 0 or seconds <= 0:
            return
        place = _nearest(_CACHED, cached_tokens), _nearest(_NEW, new_tokens)
        measured = seconds / new_tokens * self._computed(place) / self._computed_at(cached_tokens, new_tokens)
        known = self._rates.get(place, measured)
        self._rates[place] = known + _LEARNING_RATE * (measured - known)
        self._known.clear()

    def seconds(self, cached_tokens: int, new_tokens: int) -> float:
        """Returns the expected seconds to compute `new_tokens` after `cached_tokens`."""
        row, down = _place(_CACHED, cached_tokens)
        column, right = _place(_NEW, new_tokens)
        above = self._rate((row, column)) * (1 - right) + self._rate((row, column + 1)) * right
        below = self._rate((row + 1, column)) * (1 - right) + self._rate((row + 1, column + 1)) * right
        return (above * (1 - down) + below * down) * new_tokens

    def _rate(self, place: _Place) -> float:
        if not self._rates:
            planned = self._planned_seconds * self._computed(place) / self._computed_at(0.0, _PLANNED_TOKENS)
            return planned or _GUESSED_SECONDS_PER_TOKEN
        if place not in self._known:
            near = next(near for near in _NEAREST[place] if near in self._rates)
            self._known[place] = self._rates[near] * self._computed(place) / self._computed(near)
        return self._known[place]

    def _computed(self, place: _Place) -> float:
        return self._computed_at(_CACHED[place[0]], _NEW[place[1]])

    def _computed_at(self, cached_tokens: float, new_tokens: float) -> float:
        """Returns the average time of a token, relative to its matrices."""
        return 1.0 + self._cell_cost * (cached_tokens + new_tokens / 2)


def _nearest(axis: tuple[float, ...], value: float) -> int:
    return min(range(len(axis)), key=lambda index: abs(axis[index] - value))


def _place(axis: tuple[float, ...], value: float) -> tuple[int, float]:
    """Returns the node below `value`, and its distance from there as a fraction of the interval; clamps to the grid."""
    index = min(max(bisect_right(axis, value) - 1, 0), len(axis) - 2)
    share = (value - axis[index]) / (axis[index + 1] - axis[index])
    return index, min(max(share, 0.0), 1.0)
