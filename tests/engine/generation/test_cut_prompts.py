"""Tests for engine.generation.cut_prompts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from engine.generation import cut_prompts
from engine.generation.cut_prompts import MAX_PIECES, MAX_REMEMBERED, CutPrompts
from engine.generation.knowledge_tree import Piece, cut, pieces_of
from engine.generation.segment import Segment
from tests.helpers.kept import Room, passage, turn


@pytest.fixture
def cuts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was cut, each time that it was."""
    cuts: list[object] = []

    def noted(segments: Sequence[Segment], made: object) -> list[Piece]:
        cuts.append(segments)
        return pieces_of(segments)

    monkeypatch.setattr(cut_prompts, "pieces_of", noted)
    return cuts


def prompt_of(number: int) -> tuple[Segment, ...]:
    return turn(0, 32), passage(number), turn(number, 4)


def test_a_prompt_is_cut_once_however_often_it_is_looked_for(cuts):
    prompts, first, other = CutPrompts(), prompt_of(1), prompt_of(2)
    for _ in range(10):
        assert prompts.pieces_of(first) == pieces_of(first)
        assert prompts.pieces_of(other) == pieces_of(other)
    assert cuts == [first, other]


def test_what_may_change_is_cut_anew(cuts):
    prompts, segments = CutPrompts(), [*prompt_of(1)]
    assert len(prompts.pieces_of(segments)) == 2
    segments.append(passage(2))
    assert len(prompts.pieces_of(segments)) == 3
    assert (len(cuts), len(prompts)) == (2, 0)


def test_passages_in_another_order_are_not_hashed_again(monkeypatch: pytest.MonkeyPatch):
    made: list[object] = []
    monkeypatch.setattr(cut_prompts, "cut", lambda segments: (made.append(segments), cut(segments))[1])
    prompts, before, passages = CutPrompts(), turn(0, 32), [passage(number) for number in range(4)]
    for order in permutations(passages):
        segments = [before, *order]
        assert prompts.pieces_of(segments) == pieces_of(segments)
    assert len(made) == 5
    for number in range(2 * MAX_PIECES):
        prompts.pieces_of([passage(number)])
    assert len(prompts._pieces) == MAX_PIECES


def test_prompts_that_come_and_go_are_never_taken_for_one_another():
    prompts = CutPrompts()
    for number in range(10 * MAX_REMEMBERED):
        # It may well lie where one was that has gone.
        segments = prompt_of(number)
        assert prompts.pieces_of(segments) == pieces_of(segments)
    assert len(prompts) == MAX_REMEMBERED


def test_what_is_looked_for_again_and_again_stays_known_while_others_come_and_go(cuts):
    prompts, waiting = CutPrompts(), prompt_of(0)
    for number in range(10 * MAX_REMEMBERED):
        prompts.pieces_of(waiting)
        prompts.pieces_of(prompt_of(number))
    assert sum(segments is waiting for segments in cuts) == 1


def test_a_keeper_cuts_a_prompt_once_from_the_first_look_until_it_is_kept(tmp_path, cuts):
    room, waiting = Room(tmp_path), prompt_of(1)
    for _ in range(5):
        room.keeper.peek(waiting)
        room.keeper.let_go(room.keeper.find(waiting))
    room.close()
    assert cuts == [waiting]
