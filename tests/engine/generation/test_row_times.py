"""Tests for engine.generation.row_times: what attention takes token by token is learnt from answers."""

from __future__ import annotations

import pytest

from engine.generation.row_times import RowTimes
from engine.generation.rows import Extent, Filling, computed_tokens

RECKONED = Filling(True, 0.0014)
TOKEN_SECONDS, PASS_SECONDS, CELL_SECONDS = 5.2e-3, 42e-3, 27e-6


def written(times: RowTimes, start: int, num_tokens: int, cell_seconds: float = CELL_SECONDS) -> None:
    for end in range(start, start + num_tokens):
        # As noisy as a machine is, and the same each time.
        noise = 1.0 + 0.05 * ((end * 7919) % 13 - 6) / 6
        times.note([Extent(1, end)], noise * (PASS_SECONDS + cell_seconds * end))


def read(times: RowTimes, *batch: Extent) -> None:
    times.note(batch, TOKEN_SECONDS * computed_tokens(batch, RECKONED.cell_cost))


def learning() -> RowTimes:
    times = RowTimes()
    times.begin(RECKONED.cell_cost)
    return times


def test_the_slope_of_what_tokens_take_is_what_their_attention_takes() -> None:
    times = learning()
    read(
        times,
        Extent(128, 128),
    )
    for start in (300, 900, 600, 1200):
        written(times, start, 40)
    learnt = times.learnt(RECKONED)
    assert learnt.row_cost == pytest.approx(CELL_SECONDS / TOKEN_SECONDS, rel=0.2)
    assert learnt.pass_cost == pytest.approx(PASS_SECONDS / TOKEN_SECONDS, rel=0.2)
    assert (learnt.in_fours, learnt.cell_cost) == (True, RECKONED.cell_cost)


def test_nothing_is_learnt_from_few_passes_or_those_of_one_length_or_without_a_prompt() -> None:
    few = learning()
    read(few, Extent(128, 128))
    for start in (300, 900):
        written(few, start, 15)
    alike = learning()
    read(alike, Extent(128, 128))
    for _ in range(4):
        written(alike, 600, 40)
    unread = learning()
    for start in (300, 900):
        written(unread, start, 40)
    assert [times.learnt(RECKONED) for times in (few, alike, unread)] == [RECKONED] * 3
    # Where attention is not computed by tiles there is nothing to fill up.
    read(unread, Extent(128, 128))
    assert unread.learnt(Filling(True)) == Filling(True)
    assert unread.learnt(RECKONED) != RECKONED


def test_answers_that_are_written_together_tell_the_same_though_more_of_them_take_longer_anyhow() -> None:
    times = learning()
    read(times, Extent(128, 128))
    for lengths in ((300, 350), (600, 900), (400, 900, 1000), (200, 300, 250)):
        for step in range(20):
            seconds = len(lengths) * PASS_SECONDS + CELL_SECONDS * (sum(lengths) + step * len(lengths))
            times.note([Extent(1, length + step) for length in lengths], seconds)
    assert times.learnt(RECKONED).row_cost == pytest.approx(CELL_SECONDS / TOKEN_SECONDS, rel=0.05)


def test_passes_with_prompts_and_those_that_were_held_up_say_nothing() -> None:
    times = learning()
    read(times, Extent(128, 128))
    for start in (300, 900):
        written(times, start, 40)
    before = times.learnt(RECKONED)
    times.note([Extent(1, 4000)], 20.0)
    times.note([Extent(1, 700), Extent(20, 900)], 5.0)
    times.note([Extent(20, 700)], 5.0)
    assert times.learnt(RECKONED) == before
    # A disk that had to wake holds up a prompt for once.
    times.note([Extent(128, 128)], 60.0)
    assert times.learnt(RECKONED).row_cost > before.row_cost / 1.3


def test_no_noise_makes_attention_faster_than_by_tiles_or_endless() -> None:
    falling, rising = learning(), learning()
    for times, cell_seconds in ((falling, -20e-6), (rising, 1e-3)):
        read(times, Extent(128, 128))
        for start in (300, 900):
            written(times, start, 40, cell_seconds)
    assert falling.learnt(RECKONED).row_cost == RECKONED.tile_cost
    assert rising.learnt(RECKONED).row_cost == 16 * RECKONED.cell_cost


def test_a_context_over_weights_in_another_order_begins_anew() -> None:
    times = learning()
    read(times, Extent(128, 128))
    for start in (300, 900):
        written(times, start, 40)
    times.begin(RECKONED.cell_cost)
    assert times.learnt(RECKONED) != RECKONED
    other = Filling(False, 0.0006)
    times.begin(other.cell_cost)
    assert times.learnt(other) == other
