"""Tests for engine.memory.sharing."""

from __future__ import annotations

import pytest

from engine.memory.measured import Beside, Measured, Split
from engine.memory.sharing import UNMEASURED, Sharing, chosen, pass_threads, ways

WAYS = ((4, 4), (4, 1), (3, 1), (2, 2), (1, 1))


def table(*gains: tuple[int, int, float]) -> Measured:
    measured = Measured()
    for write, scan, gain in gains:
        measured = measured.with_beside(Beside(Split(), write, scan, gain / 2, gain / 2))
    return measured


def test_what_gets_most_done_is_chosen():
    sharing = chosen(table((4, 4, 1.1), (4, 1, 1.3), (3, 1, 1.2)), Split(), WAYS)
    assert (sharing.write_threads, sharing.scan_threads, sharing.in_turn) == (4, 1, False)


def test_where_all_ways_together_get_less_done_they_take_turns():
    assert chosen(table((2, 2, 0.7), (1, 1, 0.9)), Split(), WAYS).in_turn
    # A difference this small may be noise: no answer waits for that.
    assert not chosen(table((2, 2, 0.98)), Split(), WAYS).in_turn


def test_a_pass_that_outlasts_the_search_keeps_all_threads():
    apart = Sharing(1, 1)
    assert pass_threads(apart, 0.3, search_seconds=0.4) == 1
    assert pass_threads(apart, 3.4, search_seconds=0.4) is None
    # Steps of answers are what was measured, also with a search that should have ended by now.
    assert pass_threads(apart, 0.0, search_seconds=-1.0) == 1
    assert pass_threads(UNMEASURED, 0.0, search_seconds=1.0) is None


def test_nothing_is_decided_by_what_was_never_measured():
    assert chosen(Measured(), Split(), WAYS) == UNMEASURED
    assert chosen(table((2, 2, 0.5)), Split(is_repacked=False), WAYS) == UNMEASURED
    # Nor by what this process can no longer do.
    assert chosen(table((8, 8, 0.5)), Split(), WAYS) == UNMEASURED


def test_measured_anew_replaces_and_other_layers_forget():
    first = table((2, 2, 0.5), (1, 1, 0.6))
    again = first.with_beside(Beside(Split(), 2, 2, 0.6, 0.6))
    assert sorted(one.gain for one in again.beside) == pytest.approx([0.6, 1.2])
    assert len(again.with_beside(Beside(Split(8), 2, 2, 0.5, 0.5)).beside) == 1


def test_ways_are_few_and_leave_the_model_a_thread():
    assert ways(2, 2) == ((2, 2), (2, 1), (1, 1))
    assert ways(1, 1) == ((1, 1),)
    assert ways(8, 16) == ((8, 16), (8, 4), (4, 4))
