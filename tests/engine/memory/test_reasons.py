"""Tests for engine.memory.reasons: what is said of the index when it keeps more or less in memory."""

from __future__ import annotations

import pytest

from engine.config import MIB
from engine.memory.reasons import in_short, index_moved


@pytest.mark.parametrize(
    ("before", "now", "partition", "sentence"),
    [
        (120, 40, 40, "The index releases 2 parts: up to 40 MiB in memory instead of 120 MiB."),
        (120, 80, 40, "The index releases 1 part: up to 80 MiB in memory instead of 120 MiB."),
        (120, 110, 40, "The index keeps less in memory: up to 110 MiB instead of 120 MiB."),
        (40, 120, 40, "The index keeps more in memory: up to 120 MiB instead of 40 MiB."),
        (120, 40, 0, "The index keeps less in memory: up to 40 MiB instead of 120 MiB."),
    ],
)
def test_what_the_index_releases_is_told_in_parts(before: int, now: int, partition: int, sentence: str):
    assert index_moved(before * MIB, now * MIB, partition * MIB) == sentence


def test_in_short_it_is_the_cause_the_first_change_and_the_index():
    moved = index_moved(120 * MIB, 40 * MIB, 40 * MIB)
    why, changed = "3 questions wait or are being answered.", ("up to 4 answers at once instead of 2",)
    assert in_short(why, changed, moved) == (
        "3 questions wait or are being answered. Now: up to 4 answers at once instead of 2. The index releases 2 parts."
    )
    assert in_short(why, (), moved) == ""
