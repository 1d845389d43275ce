"""Gangs: how many questions of a backlog are answered at a time, so that all of them wait least on the average.

For n that wait, k gangs of n/k have the mean latency L_k = (k + 1)/2 · T(n/k), where T(B) are the seconds of a gang of
B (eq. 6 of RAGDoll, arXiv 2504.15302; what arrives meanwhile is not counted). One gang is best where
T(n) ≤ (k + 1)/2 · T(n/k) for every k: with T = a·B^c iff 2·k^c ≤ k + 1 (eq. 7), and with T = α + β·B k gangs are best
iff k(k − 1)·α ≤ β·n ≤ k(k + 1)·α (eq. 8). T comes from the measured table, never from such a fit. Pure.
"""

from __future__ import annotations

from collections.abc import Callable


def mean_latency(num_gangs: int, gang_seconds: float) -> float:
    """Seconds that a question takes on the average where so many gangs are answered one after the other."""
    return (num_gangs + 1) / 2 * gang_seconds


def gang_sizes(num_waiting: int, most: int) -> tuple[int, ...]:
    """The sizes of gangs that are worth a look, the smallest first: all, a half, a third, … of what waits.

    Args:
        num_waiting: Questions that wait or are being answered.
        most: No gang is larger.
    """
    sizes, size = {1}, max(1, min(num_waiting, most))
    while size > 1:
        sizes.add(size)
        # A third as many gangs more, or one more: sizes between two of these gain next to nothing.
        num_gangs = -(-num_waiting // size)
        size = min(size - 1, -(-num_waiting // max(num_gangs + 1, num_gangs * 4 // 3)))
    return tuple(sorted(sizes))


def best_gang(num_waiting: int, most: int, seconds_of: Callable[[int], float]) -> int:
    """How many to answer at a time, by what a gang of each size takes; of equals, the largest."""

    def latency(size: int) -> float:
        return mean_latency(-(-num_waiting // size), seconds_of(size))

    return min(reversed(gang_sizes(num_waiting, most)), key=latency)
