"""Tests for app.chats.copies."""

from __future__ import annotations

from app.chats import Conversation, Turn
from app.chats.copies import under_new_ids
from app.chats.records import Outcome

CHAT = Conversation("chat", "Lease", 1.0, 2.0, True, ("Flat",), "b", {"paths": ["/a"]}, "m.gguf", False, {"min_p": 0.1})


FINISHED = Outcome(state="finished", text="Yes.")


def turn(turn_id: str, parent_id: str | None, outcome: Outcome = FINISHED) -> Turn:
    return Turn(turn_id, "chat", parent_id, f"{turn_id}?", 3.0, outcome, {"paths": ["/b"]}, False)


def test_a_copy_has_ids_of_its_own_and_is_otherwise_the_same():
    whole = under_new_ids(CHAT, [turn("a", None), turn("b", "a"), turn("b2", "a")])
    ids = [one.turn_id for one in whole.turns]
    assert len({*ids, "a", "b", "b2"}) == 6
    assert whole.conversation.conversation_id != "chat"
    assert [one.parent_id for one in whole.turns] == [None, ids[0], ids[0]]
    assert {one.conversation_id for one in whole.turns} == {whole.conversation.conversation_id}
    assert whole.conversation.leaf_id == ids[1]
    assert (whole.conversation.model, whole.conversation.manner) == ("m.gguf", {"min_p": 0.1})
    assert (whole.turns[0].filters, whole.turns[0].searches, whole.turns[0].outcome.text) == (
        {"paths": ["/b"]},
        False,
        "Yes.",
    )


def test_parents_and_a_last_turn_that_are_not_copied_are_left_out():
    whole = under_new_ids(CHAT, [turn("c", "b")])
    assert whole.turns[0].parent_id is None
    assert whole.conversation.leaf_id is None


def test_in_a_copy_nothing_is_being_answered():
    half = Outcome(state="writing", text="Half an")
    whole = under_new_ids(CHAT, [turn("a", None, half), turn("b", "a", Outcome()), turn("c", "b")])
    assert [one.outcome.state for one in whole.turns] == ["cancelled", "cancelled", "finished"]
    assert whole.turns[0].outcome.text == "Half an"
