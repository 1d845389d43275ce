"""The cost of a sweep of the index, learnt while running: seconds = fixed + load · partitions read + query · queries.

Reading one partition from disk costs as much as many queries, so waiting queries should share a sweep. This model
learns how much that gains on the present machine, by recursive least squares with forgetting. Pure.

Source: Haykin, "Adaptive Filter Theory", chapter on RLS; the form of the model is RAGDoll's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Vector: TypeAlias = NDArray[np.float64]

# The weight of an observation falls to a third after 50 sweeps.
FORGETTING = 0.98
# The initial model, measured with ten shards of 50,000 chunks on two Zen 4 cores.
_FIRST_GUESS = (0.020, 0.0099, 0.00071)
# The uncertainty of the initial model, relative to the noise of a sweep's time (about 10 ms).
_FIRST_DOUBT = (25.0, 4.0, 0.04)
# Outliers are limited, because the machine may have slept or swapped for a moment.
_MOST_SURPRISE, _ALWAYS_PLAUSIBLE_SECONDS = 5.0, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """The costs of a sweep in seconds, none negative; `observed` returns the model updated with one more sweep."""

    fixed_seconds: float = _FIRST_GUESS[0]
    load_seconds: float = _FIRST_GUESS[1]
    query_seconds: float = _FIRST_GUESS[2]
    _doubt: _Vector = field(default_factory=lambda: np.diag(_FIRST_DOUBT))

    def predict(self, loads: int, queries: int) -> float:
        """Predicts the seconds of a sweep that reads `loads` partitions and answers `queries` queries."""
        return self.fixed_seconds + self.load_seconds * loads + self.query_seconds * queries

    def observed(self, loads: int, queries: int, seconds: float) -> CostModel:
        """Returns the model updated with a sweep that took `seconds`."""
        expected = self.predict(loads, queries)
        seconds = min(seconds, max(_MOST_SURPRISE * expected, _ALWAYS_PLAUSIBLE_SECONDS))
        sweep = np.array([1.0, loads, queries])
        # Without new information, forgetting would let the uncertainty grow without limit.
        forgetting = FORGETTING if np.trace(self._doubt) < sum(_FIRST_DOUBT) else 1.0
        pull = self._doubt @ sweep / (forgetting + sweep @ self._doubt @ sweep)
        learnt = np.array([self.fixed_seconds, self.load_seconds, self.query_seconds]) + pull * (seconds - expected)
        doubt = (self._doubt - np.outer(pull, sweep @ self._doubt)) / forgetting
        fixed, load, query = (max(0.0, float(value)) for value in _without_negatives(learnt, doubt))
        return CostModel(fixed, load, query, (doubt + doubt.T) / 2.0)


def _without_negatives(learnt: _Vector, doubt: _Vector) -> _Vector:
    """Returns the likeliest non-negative costs: negative ones become 0, and the others are adjusted accordingly."""
    for _ in learnt:
        least = int(np.argmin(learnt))
        if learnt[least] >= 0.0:
            break
        learnt = learnt - doubt[:, least] * (learnt[least] / doubt[least, least])
    return learnt


def queries_within(model: CostModel, loads: int, seconds: float, least: int, most: int) -> int:
    """Returns how many queries a sweep of `loads` partitions answers within `seconds`, from `least` to `most`."""
    left = seconds - model.predict(loads, 0)
    if model.query_seconds <= 0.0:
        return most if left > 0 else least
    return max(least, min(most, int(left / model.query_seconds)))
