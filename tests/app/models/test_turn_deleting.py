"""Tests for app.models.turn_deleting: single questions are deleted, and restored with undo."""

from __future__ import annotations

import pytest

from app.models.turn_deleting import TurnDeleting
from engine import protocol
from tests.helpers.answers import finished
from tests.helpers.chat_desk import Desk


@pytest.fixture
def deleting(desk) -> TurnDeleting:
    return TurnDeleting(desk.model)


def answered(desk: Desk, text: str, number: int) -> str:
    turn_id = desk.ask(text)
    desk.client.tell(finished(turn_id, f"Answer {number}.", segments=({"n": number},)))
    return turn_id


def questions(desk: Desk) -> list[str]:
    return [turn.question for turn in desk.model.turns]


def test_the_next_prompt_holds_nothing_of_a_deleted_question(desk, deleting):
    ids = [answered(desk, text, number) for number, text in enumerate(("one", "two", "three"), start=1)]
    desk.said.clear()
    assert deleting.delete(ids[1])
    assert questions(desk) == ["one", "three"]
    assert desk.said == [("conversation",)]
    desk.ask("four")
    assert desk.asked()[-1].transcript == ({"n": 1}, {"n": 3})


def test_a_deleted_question_is_gone_when_the_chat_is_opened_again(desk, deleting):
    ids = [answered(desk, text, number) for number, text in enumerate(("one", "two"), start=1)]
    chat = desk.model.conversation_id
    deleting.delete(ids[1])
    desk.model.new_chat()
    desk.model.open(chat)
    assert questions(desk) == ["one"]
    desk.ask("three")
    assert desk.asked()[-1].transcript == ({"n": 1},)


def test_undo_brings_questions_back_the_last_one_first(desk, deleting, qtbot):
    ids = [answered(desk, text, number) for number, text in enumerate(("one", "two", "three"), start=1)]
    deleting.delete(ids[2])
    deleting.delete(ids[0])
    assert questions(desk) == ["two"]
    with qtbot.wait_signal(deleting.restored) as restored:
        deleting.undo()
    assert restored.args == [ids[0]]
    assert questions(desk) == ["one", "two"]
    assert deleting.can_undo
    deleting.undo()
    assert questions(desk) == ["one", "two", "three"]
    assert not deleting.can_undo
    deleting.undo()
    desk.ask("four")
    assert desk.asked()[-1].transcript == ({"n": 1}, {"n": 2}, {"n": 3})


def test_what_was_asked_since_is_kept_beside_a_restored_question(desk, deleting):
    first, second = answered(desk, "one", 1), answered(desk, "two", 2)
    deleting.delete(second)
    answered(desk, "other", 3)
    deleting.undo()
    assert questions(desk) == ["one", "two"]
    assert desk.view(second).num_branches == 2
    desk.model.switch_branch(second, 1)
    assert questions(desk) == ["one", "other"]
    assert desk.model.turns[0].turn_id == first


def test_of_several_variants_another_one_takes_the_place(desk, deleting):
    first = answered(desk, "one", 1)
    desk.model.regenerate(first)
    second = desk.model.turns[-1].turn_id
    desk.client.tell(finished(second, "Another."))
    assert desk.view(second).num_branches == 2
    deleting.delete(second)
    assert [turn.turn_id for turn in desk.model.turns] == [first]
    assert desk.view(first).num_branches == 1
    deleting.undo()
    assert [turn.turn_id for turn in desk.model.turns] == [second]
    assert desk.view(second).num_branches == 2


def test_what_followed_a_deleted_variant_stands_beside_the_others(desk, deleting):
    first = answered(desk, "one", 1)
    desk.model.regenerate(first)
    second = desk.model.turns[-1].turn_id
    desk.client.tell(finished(second, "Another."))
    third = answered(desk, "three", 3)
    deleting.delete(second)
    assert [turn.turn_id for turn in desk.model.turns] == [third]
    assert desk.view(third).num_branches == 2


def test_a_chat_may_lose_all_its_questions_and_go_on(desk, deleting):
    only = answered(desk, "one", 1)
    deleting.delete(only)
    assert desk.model.turns == []
    assert desk.model.conversation_id is not None
    desk.ask("two")
    assert desk.asked()[-1].transcript == ()
    assert questions(desk) == ["two"]


def test_a_question_that_is_being_answered_is_not_deleted(desk, deleting):
    first = answered(desk, "one", 1)
    running = desk.ask("two")
    assert not deleting.delete(running)
    assert not deleting.delete("unknown")
    assert questions(desk) == ["one", "two"]
    # One before it may go: the running answer ends in its place all the same.
    assert deleting.delete(first)
    desk.client.tell(finished(running, "Answer."))
    assert desk.view(running).state == "finished"
    assert desk.recorded(running).text == "Answer."
    deleting.undo()
    assert questions(desk) == ["one", "two"]


def test_undo_is_of_the_open_chat(desk, deleting):
    ids = [answered(desk, "one", 1), answered(desk, "two", 2)]
    chat = desk.model.conversation_id
    deleting.delete(ids[1])
    desk.model.new_chat()
    assert not deleting.can_undo
    deleting.undo()
    desk.model.open(chat)
    assert deleting.can_undo
    deleting.undo()
    assert questions(desk) == ["one", "two"]


def test_what_the_disk_refuses_is_told_and_changes_nothing(desk, deleting, store, qtbot):
    turn_id = answered(desk, "one", 1)
    store._connection.execute("PRAGMA query_only = ON")
    with qtbot.wait_signal(deleting.store_failed):
        assert not deleting.delete(turn_id)
    assert questions(desk) == ["one"]
    assert not deleting.can_undo
    store._connection.execute("PRAGMA query_only = OFF")
    deleting.delete(turn_id)
    store._connection.execute("PRAGMA query_only = ON")
    with qtbot.wait_signal(deleting.store_failed):
        deleting.undo()
    assert deleting.can_undo
    store._connection.execute("PRAGMA query_only = OFF")
    deleting.undo()
    assert questions(desk) == ["one"]


def test_a_question_that_is_gone_is_in_the_way_of_no_other(desk, deleting, store, qtbot):
    ids = [answered(desk, "one", 1), answered(desk, "two", 2)]
    deleting.delete(ids[0])
    deleting.delete(ids[1])
    store._connection.execute("DELETE FROM turns WHERE turn_id = ?", (ids[1],))
    with qtbot.wait_signal(deleting.store_failed) as failed:
        deleting.undo()
    assert "cannot be brought back" in failed.args[0]
    deleting.undo()
    assert questions(desk) == ["one"]


def test_other_answers_that_come_after_a_deletion_stand_beside_theirs(desk, deleting):
    first = answered(desk, "one", 1)
    desk.model.regenerate(first, 2)
    running = desk.model.turns[-1].turn_id
    desk.model.switch_branch(running, -1)
    deleting.delete(first)
    assert [turn.turn_id for turn in desk.model.turns] == [running]
    other = protocol.Alternative(text="Otherwise.", thoughts="", citations=(), finish_reason="stop", segments=())
    desk.client.tell(finished(running, "Answer.", alternatives=(other,)))
    assert desk.view(running).num_branches == 2
    deleting.undo()
    assert desk.view(first).num_branches == 3


def test_undo_keeps_an_answer_that_is_being_written_in_sight(desk, deleting):
    ids = [answered(desk, text, number) for number, text in enumerate(("one", "two"), start=1)]
    deleting.delete(ids[1])
    desk.ask("two, rephrased")
    deleting.undo()
    assert questions(desk) == ["one", "two, rephrased"]
    assert desk.model.is_answering
    # What came back stands beside it.
    desk.model.switch_branch(desk.model.turns[-1].turn_id, -1)
    assert questions(desk) == ["one", "two"]
