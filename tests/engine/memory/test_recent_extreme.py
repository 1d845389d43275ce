"""Tests for engine.memory.recent_extreme."""

from __future__ import annotations

from engine.memory.recent_extreme import WITHIN_SECONDS, RecentExtreme


def seen(number: RecentExtreme, *looks: tuple[int, float]) -> list[int]:
    values = []
    for value, now in looks:
        number.see(value, now)
        values.append(number.value)
    return values


def test_the_most_of_this_minute_and_the_one_before_counts():
    minute = WITHIN_SECONDS
    looks = (
        (5, 0.0),
        (9, 10.0),
        (2, 20.0),
        (3, minute + 5),
        (2, minute + 30),
        (1, 2 * minute + 10),
        (1, 3 * minute + 20),
    )
    assert seen(RecentExtreme(max), *looks) == [5, 9, 9, 9, 9, 3, 1]


def test_the_least_is_what_was_there_all_the_time():
    minute = WITHIN_SECONDS
    looks = (5, 0.0), (7, 10.0), (9, minute + 5), (8, minute + 30), (9, 2 * minute + 10)
    assert seen(RecentExtreme(min), *looks) == [0, 0, 5, 5, 8]


def test_what_was_seen_last_stays_while_nobody_looks():
    assert seen(RecentExtreme(max), (9, 0.0), (1, 10 * WITHIN_SECONDS)) == [9, 9]
    assert RecentExtreme(max).value == 0
