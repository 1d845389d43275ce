"""Tests for app.chats.branches."""

from __future__ import annotations

from app.chats import Turn
from app.chats.branches import branch, leaf_after, newest_leaf, variants, without


def turn(turn_id: str, parent_id: str | None) -> Turn:
    return Turn(turn_id, "chat", parent_id, f"{turn_id}?", 0.0)


# a ─ b ─ c      (c2 is c edited; b2 is b regenerated, d followed it)
#   │   └ c2
#   └ b2 ─ d
A, B, C, C2, B2, D = TURNS = (
    turn("a", None),
    turn("b", "a"),
    turn("c", "b"),
    turn("c2", "b"),
    turn("b2", "a"),
    turn("d", "b2"),
)


def test_a_branch_leads_from_the_first_turn_to_its_leaf():
    assert branch(TURNS, "c") == (A, B, C)
    assert branch(TURNS, "d") == (A, B2, D)
    assert branch(TURNS, "b") == (A, B)


def test_without_a_known_leaf_the_newest_branch_is_shown():
    assert branch(TURNS, None) == branch(TURNS, "gone") == (A, B2, D)
    assert branch((), None) == ()


def test_turns_that_name_each_other_as_parents_do_not_hang_us():
    assert branch((turn("x", "y"), turn("y", "x")), "x") == (turn("y", "x"), turn("x", "y"))


def test_variants_share_their_parent():
    assert variants(TURNS, C2) == (C, C2)
    assert variants(TURNS, A) == (A,)


def test_the_newest_leaf_takes_the_newest_way_on():
    assert newest_leaf(TURNS, "b") == "c2"
    assert newest_leaf(TURNS, "a") == "d"
    assert newest_leaf(TURNS, "c") == "c"


def test_a_branch_that_was_left_later_is_newer_than_a_turn_that_stands_beside_its_beginning():
    # e2 is another answer that came with e; f went on from e.
    turns = (turn("e", None), turn("e2", None), turn("f", "e"))
    assert newest_leaf(turns, "e") == "f"
    assert newest_leaf((turn("root", None), turn("e", "root"), turn("e2", "root"), turn("f", "e")), "root") == "f"


def test_what_followed_a_turn_that_is_gone_follows_the_turn_before_it():
    kept = without(TURNS, {"b"})
    assert [(turn.turn_id, turn.parent_id) for turn in kept] == [
        ("a", None),
        ("c", "a"),
        ("c2", "a"),
        ("b2", "a"),
        ("d", "b2"),
    ]
    assert [turn.turn_id for turn in branch(kept, "c")] == ["a", "c"]
    assert [(turn.turn_id, turn.parent_id) for turn in without(TURNS, {"a", "b"})] == [
        ("c", None),
        ("c2", None),
        ("b2", None),
        ("d", "b2"),
    ]
    assert without(TURNS, {"unknown"}) == TURNS


def test_turns_that_are_gone_and_name_each_other_as_parents_do_not_hang_us():
    circle = (turn("x", "y"), turn("y", "x"), turn("z", "x"))
    assert without(circle, {"x", "y"}) == (turn("z", None),)


def test_in_the_place_of_the_last_turn_its_variant_is_shown_else_the_turn_before_it():
    assert leaf_after(TURNS, "c2", "c2") == "c"
    assert leaf_after(TURNS, "d", "d") == "b2"
    assert leaf_after((A,), "a", "a") is None
    # The end of the branch stays if a turn before it is gone.
    assert leaf_after(TURNS, "b", "c") == "c"
    assert leaf_after(TURNS, "unknown", "c") == "c"
