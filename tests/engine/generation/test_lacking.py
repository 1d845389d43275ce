"""Tests for engine.generation.lacking."""

from __future__ import annotations

from dataclasses import replace

from engine.generation.lacking import Lacking
from engine.generation.needs import cells_soon
from tests.helpers.loop_parts import PLAIN, Parts, prompt


def test_whoever_lacks_cells_is_noted_with_room_to_go_on_for_a_while() -> None:
    lacking, group = Lacking(), Parts().waiting(prompt(1, 100))
    assert lacking.note(group, 64, 4096)
    assert lacking.wanted_cells == cells_soon(group) > group.num_tokens


def test_the_largest_of_several_says_how_many_are_wanted() -> None:
    lacking, parts = Lacking(), Parts()
    large, small = (parts.waiting(prompt(1, num_tokens)) for num_tokens in (400, 100))
    assert lacking.note(large, 64, 4096)
    wanted = lacking.wanted_cells
    assert lacking.note(small, 64, 4096)
    assert lacking.wanted_cells == wanted


def test_more_than_may_be_is_never_wanted_and_always_more_than_there_are() -> None:
    lacking, group = Lacking(), Parts().waiting(prompt(1, 100))
    assert lacking.note(group, 64, 105)
    assert lacking.wanted_cells == 105
    lacking.look_anew()
    assert lacking.note(group, 1000, 4096)
    assert lacking.wanted_cells == 1001


def test_no_more_cells_are_wanted_for_what_can_have_none_or_is_not_worth_it() -> None:
    lacking, parts = Lacking(), Parts()
    group = parts.waiting(prompt(1, 100))
    assert not lacking.note(group, 4096, 4096)
    assert not lacking.note(parts.waiting(prompt(1, 100), sampling=replace(PLAIN, max_tokens=0)), 64, 4096)
    group.makes_do = True
    assert not lacking.note(group, 64, 4096)
    assert lacking.wanted_cells == 0


def test_where_there_are_no_more_all_make_do_and_only_prompts_that_are_longer_end_at_once() -> None:
    lacking, parts = Lacking(), Parts()
    begun = parts.waiting(prompt(1, 100), [[1, 2, 3]])
    long = parts.waiting(prompt(1, 100))
    short = parts.waiting(prompt(1, 20))
    for group in (begun, long, short):
        assert lacking.note(group, 64, 4096)
    assert lacking.make_do(64) == [long]
    assert all(group.makes_do for group in (begun, long, short))
    assert (lacking.wanted_cells, lacking.make_do(64)) == (0, [])
