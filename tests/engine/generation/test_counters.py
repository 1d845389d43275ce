"""Tests for engine.generation.counters."""

from __future__ import annotations

import pytest

from engine.generation.counters import Tally


def test_the_speed_follows_what_was_written_while_computing() -> None:
    tally = Tally()
    for _ in range(200):
        tally.generated_tokens += 4
        tally.note_step(0.1)
    assert tally.tokens_per_second == pytest.approx(40, rel=0.01)
    assert tally.steps == 200


def test_a_long_step_counts_as_much_as_many_short_ones() -> None:
    tally = Tally()
    tally.generated_tokens += 30
    tally.note_step(3.0)
    assert tally.tokens_per_second == 10
    tally.note_step(0.5)
    assert tally.tokens_per_second == 7.5


def test_a_step_that_took_no_time_changes_no_speed() -> None:
    tally = Tally(tokens_per_second=5.0)
    tally.note_step(0.0)
    assert tally.tokens_per_second == 5.0
