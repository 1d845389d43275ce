"""Tests for engine.api.history."""

from __future__ import annotations

import pytest

from engine.api.history import Conversations, as_it_was_said, said
from engine.api.requests import ChatMessage
from engine.errors import BadRequest
from engine.generation.conversation import turns_of_transcript

SEGMENTS = ({"role": "user", "question": "One?", "passages": []}, {"role": "assistant", "text": "1."})


def messages(*pairs: tuple[str, str]) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(role=role, content=text) for role, text in pairs)


def test_a_conversation_is_instructions_what_was_said_and_the_question():
    told = said(messages(("system", "Be brief."), ("user", "One?"), ("assistant", "1."), ("user", "Two?")))
    assert told.instructions == "Be brief."
    assert told.before == (("user", "One?"), ("assistant", "1."))
    assert told.question == "Two?"


def test_messages_of_one_role_that_follow_each_other_are_one():
    told = said(messages(("developer", "A."), ("user", "This:"), ("system", "B."), ("user", "What is it?")))
    assert (told.instructions, told.question, told.before) == ("A.\n\nB.", "This:\n\nWhat is it?", ())


@pytest.mark.parametrize("pairs", [(), (("system", "Be brief."),), (("user", "a"), ("assistant", "b"))])
def test_without_a_question_at_its_end_it_is_refused(pairs: tuple[tuple[str, str], ...]):
    with pytest.raises(BadRequest, match="last message"):
        said(messages(*pairs))


def test_a_role_that_nobody_has_is_refused():
    with pytest.raises(BadRequest, match="tool"):
        said(messages(("user", "a"), ("tool", "b"), ("user", "c")))


def test_what_was_answered_here_goes_on_from_its_transcript():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    begun = conversations.of(first)
    assert begun.transcript == ()
    conversations.note(first, "1.", begun, SEGMENTS)
    # White space around an answer is not kept by everybody.
    following = conversations.of(said(messages(("user", "One?"), ("assistant", " 1.\n"), ("user", "Two?"))))
    assert following.transcript == SEGMENTS
    assert following.conversation_id == begun.conversation_id


def test_a_model_by_itself_is_told_nothing_of_what_was_read_before():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    begun = conversations.of(first)
    conversations.note(first, "1.", begun, SEGMENTS)
    second = said(messages(("user", "One?"), ("assistant", "1."), ("user", "Two?")))
    alone = conversations.of(second, is_verbatim=True)
    (turn,) = turns_of_transcript(alone.transcript, ())
    assert (turn.question, turn.answer, turn.searches) == ("One?", "1.", False)
    assert alone.conversation_id != begun.conversation_id
    conversations.note(second, "2.", alone, as_it_was_said((("user", "Two?"), ("assistant", "2."))))
    third = said(messages(("user", "One?"), ("assistant", "1."), ("user", "Two?"), ("assistant", "2."), ("user", "3?")))
    assert conversations.of(third, is_verbatim=True).conversation_id == alone.conversation_id


def test_instructions_may_change_in_between():
    conversations = Conversations()
    first = said(messages(("system", "Today is Monday."), ("user", "One?")))
    conversations.note(first, "1.", conversations.of(first), SEGMENTS)
    words = (("system", "Today is Tuesday."), ("user", "One?"), ("assistant", "1."), ("user", "Two?"))
    assert conversations.of(said(messages(*words))).transcript == SEGMENTS


def test_what_was_changed_since_is_read_as_it_was_said():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    conversations.note(first, "1.", conversations.of(first), SEGMENTS)
    other = conversations.of(said(messages(("user", "One?"), ("assistant", "Uno."), ("user", "Two?"))))
    (turn,) = turns_of_transcript(other.transcript, ())
    assert (turn.question, turn.answer, turn.searches) == ("One?", "Uno.", False)


def test_only_the_newest_are_remembered():
    conversations = Conversations(most=2)
    asked = [said(messages(("user", f"{n}?"))) for n in range(3)]
    for one in asked:
        conversations.note(one, "Yes.", conversations.of(one), SEGMENTS)
    told = [
        conversations.of(said(messages(("user", f"{n}?"), ("assistant", "Yes."), ("user", "Sure?")))) for n in range(3)
    ]
    assert [one.transcript == SEGMENTS for one in told] == [False, True, True]


def test_an_answer_that_nobody_asked_for_stands_in_the_history():
    transcript = as_it_was_said((("assistant", "Welcome."), ("user", "One?"), ("assistant", "1.")))
    turns = turns_of_transcript(transcript, ())
    assert [(turn.question, turn.answer) for turn in turns] == [("", "Welcome."), ("One?", "1.")]
