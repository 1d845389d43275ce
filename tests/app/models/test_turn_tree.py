"""Tests for app.models.turn_tree."""

from __future__ import annotations

import pytest

from app.chats import Turn
from app.chats.records import Outcome
from app.models.turn_tree import TurnTree


def turn(turn_id: str, parent_id: str | None, state: str = "finished") -> Turn:
    outcome = Outcome(state=state, segments=() if state == "failed" else ({"of": turn_id},))
    return Turn(turn_id, "chat", parent_id, f"{turn_id}?", 0.0, outcome)


# a ─ b ─ d      (b2 and b3 came with b; c stands below b2)
#   ├ b2 ─ c
#   └ b3
A, B, B2, B3, C, D = TURNS = (
    turn("a", None), turn("b", "a"), turn("b2", "a"), turn("b3", "a", "failed"), turn("c", "b2"), turn("d", "b"),
)  # fmt: skip
TREE = TurnTree(TURNS)


def test_turns_beside_each_other_are_counted():
    assert [TREE.places()[one.turn_id] for one in (A, B, B3)] == [(0, 1), (0, 3), (2, 3)]


@pytest.mark.parametrize(
    ("of", "step", "leaf"), [(B, 1, "c"), (B2, 1, "b3"), (B2, -1, "d"), (B, -1, None), (B3, 1, None), (B, 0, None)]
)
def test_the_branch_beside_a_turn_is_shown_to_its_end(of, step, leaf):
    assert TREE.leaf_beside(of, step) == leaf


def test_the_transcript_is_of_all_that_was_written_on_the_branch():
    assert TREE.transcript("c") == ({"of": "a"}, {"of": "b2"}, {"of": "c"})
    assert TREE.transcript("b3") == ({"of": "a"},)
    assert TREE.transcript(None) == ()


def test_a_change_makes_another_tree():
    changed = TREE.with_changed(turn("d", "b", "cancelled")).with_added(turn("e", "d"))
    assert changed.find("d").outcome.state == "cancelled"
    assert [one.turn_id for one in changed.branch("e")] == ["a", "b", "d", "e"]
    assert TREE.find("d") == D
    assert TREE.find("e") is None
