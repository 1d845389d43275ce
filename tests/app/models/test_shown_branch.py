"""Tests for app.models.shown_branch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.chats import Turn
from app.chats.records import Outcome
from app.models.shown_branch import ShownBranch
from app.models.turn_records import view_of
from app.models.turns import TurnView


def turn(turn_id: str, parent_id: str | None, state: str = "finished", text: str = "") -> Turn:
    return Turn(turn_id, "chat", parent_id, f"{turn_id}?", 0.0, Outcome(state=state, text=text))


def nothing_newer(turn_id: str) -> TurnView | None:
    return None


def shown(branch: ShownBranch) -> list[tuple[str, int, int]]:
    return [(view.turn_id, view.branch_index, view.num_branches) for view in branch.views]


def test_a_turn_that_is_added_beside_another_takes_its_place_and_all_that_followed_is_left():
    branch = ShownBranch((turn("a", None), turn("b", "a"), turn("c", "b")), nothing_newer)
    assert shown(branch) == []
    assert branch.show(None) == frozenset()
    assert (shown(branch), branch.last_id) == ([("a", 0, 1), ("b", 0, 1), ("c", 0, 1)], "c")
    assert branch.add(turn("b2", "a")) == {"b", "c"}
    assert (shown(branch), branch.last_id) == ([("a", 0, 1), ("b2", 1, 2)], "b2")


def test_other_answers_are_counted_by_the_one_that_is_shown_in_their_place():
    first = turn("a", None)
    branch = ShownBranch((first, turn("b", "a")), nothing_newer)
    branch.show("b")
    others = [replace(view_of(first), turn_id=turn_id) for turn_id in ("a2", "a3")]
    assert branch.add_beside(first, others) == "a"
    assert shown(branch) == [("a", 0, 3), ("b", 0, 1)]
    # Of a place that is not on the branch, none.
    branch.show("a2")
    assert branch.add_beside(turn("b", "a"), [replace(view_of(turn("b", "a")), turn_id="b2")]) is None


def test_only_what_has_ended_becomes_part_of_the_tree():
    branch = ShownBranch((), nothing_newer)
    branch.add(turn("a", None, "asked"))
    (asked,) = branch.views
    assert branch.change(replace(asked, state="writing", text="Thr"))
    assert [branch.view("a").text, branch.tree.find("a").outcome.text] == ["Thr", ""]
    assert branch.change(replace(asked, state="finished", text="Three."))
    assert [branch.view("a").text, branch.tree.find("a").outcome.text] == ["Three.", "Three."]
    assert not branch.change(replace(asked, turn_id="elsewhere"))


@pytest.mark.parametrize("state", ["asked", "writing"])
def test_what_nobody_answers_any_more_was_interrupted(state):
    branch = ShownBranch((turn("a", None, state, "Thr"),), nothing_newer)
    branch.show(None)
    (view,) = branch.views
    assert (view.state, view.text) == ("failed", "Thr")
    assert view.error_sentence == "Ragdoll was closed before this answer was complete."


def test_an_answer_that_could_not_be_saved_is_what_counts():
    stored = turn("a", None, "asked")
    ended = replace(view_of(stored), state="finished", text="Three.")
    branch = ShownBranch((stored,), {"a": ended}.get)
    branch.show(None)
    assert branch.views[0].text == branch.tree.find("a").outcome.text == "Three."
    assert [one.outcome.text for one in branch.ended()] == ["Three."]


def test_turns_that_stay_as_they_are_stay_the_same_values():
    branch = ShownBranch((turn("a", None), turn("b", "a")), nothing_newer)
    branch.show(None)
    before = branch.views
    branch.add(turn("c", "b"))
    assert all(view is known for view, known in zip(branch.views, before, strict=False))
    branch.add(turn("b2", "a"))
    assert branch.views[0] is before[0]
    branch.show("b")
    assert shown(branch) == [("a", 0, 1), ("b", 0, 2)]
