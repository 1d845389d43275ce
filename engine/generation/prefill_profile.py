"""How long reading takes, T(cached, new): bilinear interpolation between what was measured while running.

RAGCache profiles the grid before serving (https://arxiv.org/abs/2404.12457, section 5.1); here every chunk of every
prompt is a measurement, so the profile follows the machine: its power mode, other programs, layers that are streamed.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

_CACHED = (0.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)
_NEW = (1.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
# A new measurement moves its neighbours by this share of the difference: about ten outweigh a start-up effect.
_LEARNING_RATE = 0.2
# Until something was measured: a small model on a laptop.
_GUESSED_SECONDS_PER_TOKEN = 0.01


class PrefillProfile:
    """Seconds per new token at the nodes of a grid; owned by the generation thread."""

    def __init__(self) -> None:
        self._rates: NDArray[np.float64] = np.full((len(_CACHED), len(_NEW)), np.nan)
        self._filled: NDArray[np.float64] | None = np.full_like(self._rates, _GUESSED_SECONDS_PER_TOKEN)

    @property
    def is_measured(self) -> bool:
        return not bool(np.isnan(self._rates).all())

    def note(self, cached_tokens: int, new_tokens: int, seconds: float) -> None:
        """Takes in that computing `new_tokens` behind `cached_tokens` took so long."""
        if new_tokens <= 0 or seconds <= 0:
            return
        node = _nearest(_CACHED, cached_tokens), _nearest(_NEW, new_tokens)
        measured, known = seconds / new_tokens, self._rates[node]
        self._rates[node] = measured if np.isnan(known) else known + _LEARNING_RATE * (measured - known)
        self._filled = None

    def seconds(self, cached_tokens: int, new_tokens: int) -> float:
        """What computing `new_tokens` behind `cached_tokens` is expected to take."""
        if self._filled is None:
            self._filled = _fill(self._rates)
        row, down = _place(_CACHED, cached_tokens)
        column, right = _place(_NEW, new_tokens)
        corners = self._filled[row : row + 2, column : column + 2]
        rate = np.array([1 - down, down]) @ corners @ np.array([1 - right, right])
        return float(rate) * new_tokens


def _nearest(axis: tuple[float, ...], value: float) -> int:
    return min(range(len(axis)), key=lambda index: abs(axis[index] - value))


def _place(axis: tuple[float, ...], value: float) -> tuple[int, float]:
    """The node below `value` and how far it is to the next one (0…1); values outside lie on the border."""
    index = min(max(bisect_right(axis, value) - 1, 0), len(axis) - 2)
    share = (value - axis[index]) / (axis[index + 1] - axis[index])
    return index, min(max(share, 0.0), 1.0)


def _fill(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every node that was never measured takes the value of the nearest one that was."""
    known = np.argwhere(~np.isnan(rates))
    filled = rates.copy()
    for node in np.argwhere(np.isnan(rates)):
        nearest = known[np.abs(known - node).sum(axis=1).argmin()]
        filled[tuple(node)] = rates[tuple(nearest)]
    return filled
