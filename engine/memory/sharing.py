"""Sharing the processor's cores between writing and searching: how many threads each has, or one after the other.

llama.cpp's threads wait for each other many times in a pass, so a thread of a search on one of their cores holds up all
of them: where both are bound by the processor, doing them at the same time may take longer than doing one after the
other. Which it is here was measured (rehearsing.py), and is decided by what both get done in the same time. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.memory.measured import Measured, Split

# Taking turns holds every answer up while somebody searches, so it must be the better way by more than chance.
LEAST_TOGETHER = 0.97


@dataclass(frozen=True, slots=True)
class Sharing:
    """Threads of a step, and of a scan, while both go on; `in_turn`: a step waits for the search beside it instead.

    None leaves the number as it is alone.
    """

    write_threads: int | None = None
    scan_threads: int | None = None
    in_turn: bool = False


UNMEASURED = Sharing()


def pass_threads(sharing: Sharing, reading_seconds: float, search_seconds: float) -> int | None:
    """Threads of a pass beside a search that goes on for so long; None for as many as it has alone.

    What was measured are steps of answers, which are short. A pass over a prompt keeps its threads to its end: with one
    of two, one that takes three seconds took six beside a search of a third of a second.

    Args:
        sharing: What was chosen for steps.
        reading_seconds: What the prompts in it take with all threads; 0 of a pass that only writes.
        search_seconds: How much longer the search is expected to take.
    """
    return sharing.write_threads if reading_seconds <= max(0.0, search_seconds) else None


def ways(num_write_threads: int, num_cores: int) -> tuple[tuple[int, int], ...]:
    """Threads of a step and of a scan that are worth measuring: all for both, few for the scan, and cores apart."""
    few = max(1, num_cores // 4)
    apart = max(1, num_write_threads - few)
    return tuple(dict.fromkeys(((num_write_threads, num_cores), (num_write_threads, few), (apart, few))))


def chosen(measured: Measured, split: Split, possible: Collection[tuple[int, int]]) -> Sharing:
    """The way that gets most done while layers lie so, by what was measured, of those that are possible now."""
    known = [
        one
        for one in measured.beside
        if one.split.is_repacked == split.is_repacked and (one.write_threads, one.scan_threads) in possible
    ]
    if not known:
        return UNMEASURED
    best = max(known, key=lambda one: one.gain)
    return Sharing(best.write_threads, best.scan_threads, in_turn=best.gain < LEAST_TOGETHER)
