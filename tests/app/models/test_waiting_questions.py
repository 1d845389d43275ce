"""Tests for app.models.waiting_questions: what is asked by itself, in which chat, and what waits for the user."""

from __future__ import annotations

import pytest

from app.models.waiting_questions import MOST_WAITING, WaitingQuestions
from engine import protocol
from engine.protocol import Manner, RagdollError
from tests.helpers.answers import finished, tokens


@pytest.fixture
def waiting(desk) -> WaitingQuestions:
    return WaitingQuestions(desk.answering, desk.model)


def texts(waiting: WaitingQuestions) -> list[str]:
    return [one.text for one in waiting.shown]


def held(waiting: WaitingQuestions) -> list[str]:
    return [one.text for one in waiting.shown if one.is_held]


def asked(desk) -> list[str]:
    return [ask.text for ask in desk.asked()]


def cancel(desk, turn_id: str) -> None:
    desk.model.stop(turn_id)
    desk.client.tell(protocol.AnswerCancelled(question_id=turn_id))


def test_without_a_running_answer_a_question_is_asked_at_once(desk, waiting):
    assert waiting.ask("one")
    assert (asked(desk), texts(waiting)) == (["one"], [])


def test_questions_wait_and_follow_one_by_one_with_the_finished_answers_before_them(desk, waiting, qtbot):
    first = desk.ask("one")
    for text in (" two ", "three", " \n"):
        waiting.ask(text)
    assert (asked(desk), texts(waiting), held(waiting)) == (["one"], ["two", "three"], [])
    desk.client.tell(finished(first, "1", segments=({"n": 1},)))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "two"])
    assert desk.asked()[-1].transcript == ({"n": 1},)
    assert (texts(waiting), held(waiting)) == (["three"], [])
    second = desk.model.turns[-1].turn_id
    desk.client.tell(finished(second, "2", segments=({"n": 2},)))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "two", "three"])
    assert desk.asked()[-1].transcript == ({"n": 1}, {"n": 2})
    assert waiting.shown == ()


def fail(desk, turn_id: str) -> None:
    desk.client.tell(protocol.AnswerFailed(question_id=turn_id, kind="BadRequest", sentence="No room."))


@pytest.mark.parametrize("end", [cancel, fail])
def test_after_an_answer_that_was_stopped_or_failed_nothing_is_asked_by_itself(desk, waiting, qtbot, end):
    first = desk.ask("one")
    waiting.ask("two")
    waiting.ask("three")
    desk.client.tell(tokens(first, "Half an"))
    end(desk, first)
    qtbot.waitUntil(lambda: held(waiting) == ["two", "three"])
    assert asked(desk) == ["one"]
    # The user goes on: this one is asked, and what is behind it follows by itself.
    waiting.ask_held(waiting.shown[0].question_id)
    assert (asked(desk), texts(waiting), held(waiting)) == (["one", "two"], ["three"], [])
    desk.client.tell(finished(desk.model.turns[-1].turn_id))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "two", "three"])


def test_what_is_before_a_held_question_that_is_asked_stays_held(desk, waiting, qtbot):
    first = desk.ask("one")
    waiting.ask("two")
    waiting.ask("three")
    cancel(desk, first)
    qtbot.waitUntil(lambda: len(held(waiting)) == 2)
    waiting.ask_held(waiting.shown[1].question_id)
    desk.client.tell(finished(desk.model.turns[-1].turn_id))
    qtbot.wait(1)
    assert (asked(desk), held(waiting)) == (["one", "three"], ["two"])


def test_while_another_answer_runs_a_held_question_is_asked_after_it(desk, waiting, qtbot):
    cancelled = desk.ask("one")
    waiting.ask("two")
    cancel(desk, cancelled)
    qtbot.waitUntil(lambda: held(waiting) == ["two"])
    running = desk.ask("three")
    waiting.ask_held(waiting.shown[0].question_id)
    assert (asked(desk), held(waiting)) == (["one", "three"], [])
    desk.client.tell(finished(running))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "three", "two"])


def test_a_waiting_question_can_be_removed_and_is_not_asked_then(desk, waiting, qtbot):
    first = desk.ask("one")
    waiting.ask("two")
    waiting.ask("three")
    assert waiting.remove(waiting.shown[0].question_id) == "two"
    assert waiting.remove("unknown") == ""
    desk.client.tell(finished(first))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "three"])


def test_a_chat_that_is_not_open_goes_on_with_its_own_settings_and_no_other_changes(desk, waiting, qtbot):
    saved: list[str] = []
    desk.model.conversation_saved.connect(saved.append)
    desk.model.set_manner(Manner(instructions="In verse."))
    first = desk.ask("one")
    waiting.ask("two")
    chat_id = desk.model.conversation_id
    desk.model.new_chat()
    other = desk.ask("elsewhere")
    assert (waiting.shown, waiting.held_chats) == ((), frozenset())
    saved.clear()
    desk.client.tell(finished(first, "1", segments=({"n": 1},)))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "elsewhere", "two"])
    ask = desk.asked()[-1]
    assert (ask.conversation_id, ask.transcript, ask.manner.instructions) == (chat_id, ({"n": 1},), "In verse.")
    assert [turn.turn_id for turn in desk.model.turns] == [other]
    # The list of chats looks again.
    assert saved == [chat_id]
    desk.model.open(chat_id)
    assert [turn.question for turn in desk.model.turns] == ["one", "two"]
    assert desk.model.is_answering


def test_settings_that_the_disk_does_not_have_yet_apply_in_a_chat_that_is_not_open(desk, waiting, qtbot, monkeypatch):
    first = desk.ask("one")
    waiting.ask("two")

    def refuse(*_: object) -> None:
        raise RagdollError("The disk is full.")

    with monkeypatch.context() as patches:
        patches.setattr(desk.store, "set_manner", refuse)
        desk.model.set_manner(Manner(instructions="In verse."))
        desk.model.new_chat()
        desk.client.tell(finished(first))
        qtbot.waitUntil(lambda: asked(desk) == ["one", "two"])
    assert desk.asked()[-1].manner.instructions == "In verse."


def test_another_branch_that_is_shown_does_not_change_by_itself(desk, waiting, qtbot):
    first = desk.ask("one")
    desk.client.tell(finished(first))
    desk.model.regenerate(first)
    running = desk.model.turns[-1].turn_id
    waiting.ask("two")
    desk.model.switch_branch(running, -1)
    desk.client.tell(finished(running))
    qtbot.waitUntil(lambda: held(waiting) == ["two"])
    assert [turn.turn_id for turn in desk.model.turns] == [first]
    assert asked(desk) == ["one", "one"]


def test_a_question_that_cannot_be_saved_stays(desk, waiting, qtbot, monkeypatch):
    first = desk.ask("one")
    waiting.ask("two")
    refused: list[str] = []
    desk.model.question_refused.connect(refused.append)

    def refuse(*_: object, **__: object) -> None:
        raise RagdollError("The disk is full.")

    with monkeypatch.context() as patches:
        patches.setattr(desk.store, "add_turn", refuse)
        desk.client.tell(finished(first))
        qtbot.waitUntil(lambda: held(waiting) == ["two"])
        waiting.ask_held(waiting.shown[0].question_id)
        assert held(waiting) == ["two"]
    # It is shown as waiting, so it does not come back into the prompt as well.
    assert refused == []
    waiting.ask_held(waiting.shown[0].question_id)
    assert (asked(desk), texts(waiting)) == (["one", "two"], [])


def test_without_an_engine_the_others_are_held(desk, waiting, qtbot):
    first = desk.ask("one")
    waiting.ask("two")
    waiting.ask("three")
    desk.client.tell(finished(first))
    desk.client.state = "failed"
    qtbot.waitUntil(lambda: held(waiting) == ["three"])
    assert [turn.state for turn in desk.model.turns] == ["finished", "failed"]
    assert [turn.question for turn in desk.model.turns] == ["one", "two"]


def test_an_engine_that_is_restarted_changes_nothing(desk, waiting, qtbot):
    first = desk.ask("one")
    waiting.ask("two")
    desk.client.die()
    desk.client.become_ready()
    assert (texts(waiting), held(waiting)) == (["two"], [])
    desk.client.tell(finished(first))
    qtbot.waitUntil(lambda: asked(desk) == ["one", "one", "two"])


def test_the_chat_of_a_waiting_question_may_be_deleted(desk, waiting, qtbot):
    first = desk.ask("one")
    waiting.ask("two")
    chat_id = desk.model.conversation_id
    desk.client.tell(finished(first))
    desk.store.delete(chat_id)
    desk.model.new_chat()
    qtbot.waitUntil(lambda: waiting.held_chats == {chat_id})
    assert asked(desk) == ["one"]


def test_no_more_than_a_few_wait_in_a_chat(desk, waiting, qtbot):
    desk.ask("one")
    assert all(waiting.ask(f"more {number}") for number in range(MOST_WAITING))
    with qtbot.waitSignal(waiting.too_many):
        assert not waiting.ask("one more")
    assert len(waiting.shown) == MOST_WAITING


def test_after_a_restart_they_wait_for_the_user(desk, waiting):
    first = desk.ask("one")
    waiting.ask("two")
    waiting.ask("three")
    kept = waiting.texts
    assert kept == {desk.model.conversation_id: ("two", "three")}
    desk.client.tell(finished(first))
    again = WaitingQuestions(desk.answering, desk.model)
    again.take(kept)
    assert held(again) == ["two", "three"]
    again.ask_held(again.shown[0].question_id)
    assert asked(desk)[-1] == "two"
