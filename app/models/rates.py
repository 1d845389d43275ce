"""The engine's rates of the last minutes, for the lines alongside the figures of the Memory page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

WINDOW_S = 180.0
SAMPLE_S = 1.0
_ENDINGS = ("_per_s", "_ratio")


@dataclass(frozen=True, slots=True)
class Sample:
    """Every rate at one moment; `at` in seconds of a monotonic clock."""

    at: float
    rates: Mapping[str, float]


class RateHistory:
    """One sample a second for three minutes, whether it is shown or not: about ten kilobytes.

    Within a second rates are averaged, so that a line shows all snapshots and not just the last of each second.
    """

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._pending: list[Mapping[str, float]] = []
        self._began = 0.0

    def __len__(self) -> int:
        return len(self._samples)

    def note(self, counters: Mapping[str, float], now: float) -> bool:
        """Adds a snapshot's counters; returns True if that completed a sample."""
        if not self._pending:
            self._began = now
        self._pending.append({name: value for name, value in counters.items() if is_rate(name)})
        if now - self._began < SAMPLE_S and self._samples:
            return False
        self._samples.append(Sample(now, _mean(self._pending)))
        self._pending = []
        while self._samples[0].at < now - WINDOW_S:
            self._samples.popleft()
        return True

    def points(self, name: str) -> tuple[tuple[float, float], ...]:
        """Returns pairs of age (seconds before the newest sample, oldest first) and value; a missing rate has none."""
        if not self._samples:
            return ()
        newest = self._samples[-1].at
        return tuple((newest - sample.at, sample.rates[name]) for sample in self._samples if name in sample.rates)

    def clear(self) -> None:
        self._samples.clear()
        self._pending = []


def is_rate(name: str) -> bool:
    """Returns whether a counter is a rate or ratio, not an amount."""
    return name.endswith(_ENDINGS) and not name.startswith("predicted_")


def _mean(snapshots: list[Mapping[str, float]]) -> dict[str, float]:
    names = {name for snapshot in snapshots for name in snapshot}
    told = {name: [snapshot[name] for snapshot in snapshots if name in snapshot] for name in names}
    return {name: sum(values) / len(values) for name, values in told.items()}
