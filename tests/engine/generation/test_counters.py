"""Tests for engine.generation.counters."""

from __future__ import annotations

import pytest

from engine.generation.counters import Tally, count
from tests.helpers.loop_parts import Parts, ScriptedBeams, prompt


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


def test_cells_are_counted_by_request_and_shared_ones_once() -> None:
    parts = Parts(num_cells=200)
    single, several = parts.running(prompt(1, 10), ((7, 8),)), parts.running(prompt(30, 20), ((7, 8), (5, 6)))
    search = parts.running(prompt(60, 10), ((7, 8), (5, 6)))
    search.beams = ScriptedBeams()
    unread = parts.reading(prompt(90, 10), ((), ()), 0)
    parts.waiting(prompt(120, 10))
    preempted = parts.running(prompt(150, 10), ((7,),))
    parts.admission.preempt(preempted)

    counted = count(parts.groups, parts.cells, parts.residence.saved_bytes, parts.tally)
    assert counted.cells_by_request == (
        (single.request_id, 11),
        (several.request_id, 22),
        (search.request_id, 12),
        (unread.request_id, 0),
    )
    assert counted.cells_used == 11 + 22 + 12
    assert counted.cells_saved == 20 + 10
    assert counted.cells_free == 200 - 45
    assert counted.utilisation == 45 / 200
    assert (counted.num_running, counted.num_waiting, counted.num_preempted) == (4, 1, 1)
    assert counted.swapped_bytes == parts.residence.saved_bytes > 0
    assert counted.preempted_by_swap == 1


def test_the_share_of_cells_in_use_is_the_mean_over_the_steps_in_which_somebody_lacked_some() -> None:
    parts = Parts()
    assert count(parts.groups, parts.cells, 0, parts.tally).busy_utilisation == 0
    for share in (0.5, 1.0):
        parts.tally.note_busy(share)
    assert count(parts.groups, parts.cells, 0, parts.tally).busy_utilisation == 0.75


def test_nobody_writes_at_any_speed_while_nothing_runs() -> None:
    parts = Parts()
    parts.tally.tokens_per_second = 5.0
    assert count(parts.groups, parts.cells, 0, parts.tally).tokens_per_second == 0
    parts.running(prompt(1, 10))
    assert count(parts.groups, parts.cells, 0, parts.tally).tokens_per_second == 5
