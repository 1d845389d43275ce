"""Tests for engine.generation.cell_shortage."""

from __future__ import annotations

from dataclasses import replace

from engine.generation.cell_shortage import CellShortage
from engine.generation.needs import cells_soon
from tests.helpers.loop_parts import PLAIN, Parts, prompt


def test_whoever_lacks_cells_is_noted_with_room_to_go_on_for_a_while() -> None:
    shortage, group = CellShortage(), Parts().waiting(prompt(1, 100))
    assert shortage.note(group, 64, 4096)
    assert shortage.wanted_cells == cells_soon(group) > group.num_tokens


def test_the_largest_of_several_says_how_many_are_wanted() -> None:
    shortage, parts = CellShortage(), Parts()
    large, small = (parts.waiting(prompt(1, num_tokens)) for num_tokens in (400, 100))
    assert shortage.note(large, 64, 4096)
    wanted = shortage.wanted_cells
    assert shortage.note(small, 64, 4096)
    assert shortage.wanted_cells == wanted


def test_more_than_may_be_is_never_wanted_and_always_more_than_there_are() -> None:
    shortage, group = CellShortage(), Parts().waiting(prompt(1, 100))
    assert shortage.note(group, 64, 105)
    assert shortage.wanted_cells == 105
    shortage.reset()
    assert shortage.note(group, 1000, 4096)
    assert shortage.wanted_cells == 1001


def test_no_more_cells_are_wanted_for_what_can_have_none_or_is_not_worth_it() -> None:
    shortage, parts = CellShortage(), Parts()
    group = parts.waiting(prompt(1, 100))
    assert not shortage.note(group, 4096, 4096)
    assert not shortage.note(parts.waiting(prompt(1, 100), sampling=replace(PLAIN, max_tokens=0)), 64, 4096)
    group.makes_do = True
    assert not shortage.note(group, 64, 4096)
    assert shortage.wanted_cells == 0


def test_where_there_are_no_more_all_make_do_and_only_prompts_that_are_longer_end_at_once() -> None:
    shortage, parts = CellShortage(), Parts()
    begun = parts.waiting(prompt(1, 100), [[1, 2, 3]])
    long = parts.waiting(prompt(1, 100))
    short = parts.waiting(prompt(1, 20))
    for group in (begun, long, short):
        assert shortage.note(group, 64, 4096)
    assert shortage.make_do(64) == [long]
    assert all(group.makes_do for group in (begun, long, short))
    assert (shortage.wanted_cells, shortage.make_do(64)) == (0, [])
