"""The three replacement policies that PGDSF is compared with: GDSF, LRU and LFU."""

from __future__ import annotations

from engine.generation.replacement import Policy, Usage, pgdsf


def gdsf(usage: Usage, clock: float) -> float:
    """Assumes a cost proportional to size, whatever was read before, so that cost ÷ size is the same for all nodes."""
    return clock + usage.frequency


def lru(usage: Usage, clock: float) -> float:
    return usage.last_used


def lfu(usage: Usage, clock: float) -> float:
    return usage.frequency


POLICIES: dict[str, Policy] = {"pgdsf": pgdsf, "gdsf": gdsf, "lru": lru, "lfu": lfu}
