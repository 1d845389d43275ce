"""Batching: how many queries of a long list share a sweep, from what sweeps have cost so far."""

from __future__ import annotations

from engine.partitions.rows import Sweep
from engine.retrieval.cost import CostModel, queries_within

# The first question of a batch waits for the search of all: enough to share a sweep, few enough not to be noticed.
MAX_BATCH = 32
# For lists of queries, latency does not matter; a question that arrives meanwhile waits for one sweep of them.
LARGEST_BATCH = 256
FELT_SECONDS = 0.25


class SweepCosts:
    """The cost model of sweeps; updated on the thread that searches, read by the thread that shows it."""

    def __init__(self, known: CostModel | None = None) -> None:
        """`known` is the model from before the restart."""
        self.model = known or CostModel()
        self._latest_loads = 0

    def note(self, sweep: Sweep) -> None:
        """Learns from a sweep that a user waited for; bounded ones have low priority, so they take longer."""
        if sweep.is_bounded:
            return
        self.model = self.model.observed(sweep.num_loads, sweep.num_queries, sweep.seconds)
        self._latest_loads = sweep.num_loads

    def predict(self, loads: int, queries: int) -> float:
        """Predicts the seconds of a sweep."""
        return self.model.predict(loads, queries)

    def batch_size(self) -> int:
        """Returns how many queries of a list to search at once, if the next sweep reads as much as the last."""
        return queries_within(self.model, self._latest_loads, FELT_SECONDS, MAX_BATCH, LARGEST_BATCH)

    def counters(self) -> dict[str, float]:
        """Returns the model in milliseconds, for the Memory page."""
        model = self.model
        return {
            "sweep_fixed_ms": 1000.0 * model.fixed_seconds,
            "sweep_load_ms": 1000.0 * model.load_seconds,
            "sweep_query_ms": 1000.0 * model.query_seconds,
        }
