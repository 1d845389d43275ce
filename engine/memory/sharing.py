"""Sharing the processor's cores between writing and searching: how many threads each has, or one after the other.

llama.cpp's threads wait for each other many times in a pass, so a thread of a search on one of their cores delays all
of them: where both are bound by the processor, doing them at the same time may take longer than doing one after the
other. Which is better here was measured (rehearsing.py); the choice compares what both do in the same time. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.memory.measured import Measured, Split

# Taking turns delays every answer while a search runs, so it must be better by more than measuring errors.
LEAST_TOGETHER = 0.97


@dataclass(frozen=True, slots=True)
class Sharing:
    """Threads of a step, and of a scan, while both run; `in_turn`: instead, a step waits for the search to end.

    None leaves the number as it is without the other.
    """

    write_threads: int | None = None
    scan_threads: int | None = None
    in_turn: bool = False


UNMEASURED = Sharing()


def pass_threads(sharing: Sharing, reading_seconds: float, search_seconds: float) -> int | None:
    """Returns threads of a pass while a search runs for `search_seconds`; None for as many as it has alone.

    What was measured are steps of answers, which are short. A pass over a prompt keeps its threads until it ends: with
    one of two, a pass of three seconds took six alongside a search of a third of a second.

    Args:
        sharing: What was chosen for steps.
        reading_seconds: How long the prompts in the pass take with all threads; 0 for a pass that only writes.
        search_seconds: How much longer the search is expected to take.
    """
    return sharing.write_threads if reading_seconds <= max(0.0, search_seconds) else None


def ways(num_write_threads: int, num_cores: int) -> tuple[tuple[int, int], ...]:
    """Returns threads of a step and of a scan that are worth measuring: all for both, few for the scan, or apart."""
    few = max(1, num_cores // 4)
    apart = max(1, num_write_threads - few)
    return tuple(dict.fromkeys(((num_write_threads, num_cores), (num_write_threads, few), (apart, few))))


def chosen(measured: Measured, split: Split, possible: Collection[tuple[int, int]]) -> Sharing:
    """Returns the way with the highest measured throughput for this split of the layers, of those possible now."""
    known = [
        one
        for one in measured.beside
        if one.split.is_repacked == split.is_repacked and (one.write_threads, one.scan_threads) in possible
    ]
    if not known:
        return UNMEASURED
    best = max(known, key=lambda one: one.gain)
    return Sharing(best.write_threads, best.scan_threads, in_turn=best.gain < LEAST_TOGETHER)
