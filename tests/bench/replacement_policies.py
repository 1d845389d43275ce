"""The three replacement policies that PGDSF is measured against: GDSF, LRU and LFU."""

from __future__ import annotations

from engine.generation.replacement import Policy, Usage, pgdsf


def gdsf(usage: Usage, clock: float) -> float:
    """Takes cost to grow with size alone, whatever was read before, so that their ratio is the same for all nodes."""
    return clock + usage.frequency


def lru(usage: Usage, clock: float) -> float:
    return usage.last_used


def lfu(usage: Usage, clock: float) -> float:
    return usage.frequency


POLICIES: dict[str, Policy] = {"pgdsf": pgdsf, "gdsf": gdsf, "lru": lru, "lfu": lfu}
