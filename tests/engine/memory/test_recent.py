"""Tests for engine.memory.recent."""

from __future__ import annotations

from engine.memory.recent import WITHIN_SECONDS, OfLate


def test_the_most_of_the_last_minute_counts():
    most = OfLate(max)
    assert most.after(5, 0.0) == 5
    assert most.after(9, 10.0) == 9
    assert most.after(2, 20.0) == 9
    assert most.after(2, WITHIN_SECONDS + 5) == 9
    assert most.after(3, 2 * WITHIN_SECONDS + 6) == 3


def test_the_least_of_the_last_minute_counts():
    least = OfLate(min)
    assert least.after(5, 0.0) == 5
    assert least.after(2, 10.0) == 2
    assert least.after(9, WITHIN_SECONDS + 5) == 2
    assert least.after(8, 2 * WITHIN_SECONDS + 6) == 8


def test_what_was_seen_long_ago_is_forgotten_though_nobody_looked_meanwhile():
    most = OfLate(max)
    most.after(9, 0.0)
    assert most.after(1, 10 * WITHIN_SECONDS) == 1
