"""Tests for engine.api.history."""

from __future__ import annotations

import pytest

from engine.api.history import Conversations, Searched, as_it_was_said, said
from engine.api.requests import ChatMessage
from engine.core import Filters
from engine.errors import BadRequest
from engine.generation.transcript import turns_of_transcript

ANYWHERE = Searched()
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


@pytest.mark.parametrize(
    ("pairs", "instructions", "question"),
    [
        ((("system", "Say hello."),), "", "Say hello."),
        ((("system", "Be brief."), ("developer", "Say hello."), ("system", " ")), "Be brief.", "Say hello."),
        ((("system", "Be brief."), ("user", "One?"), ("assistant", "")), "Be brief.", "One?"),
        ((("system", "Say hello."), ("assistant", " \n")), "", "Say hello."),
    ],
)
def test_what_is_to_be_answered_need_not_be_the_last_message(
    pairs: tuple[tuple[str, str], ...], instructions: str, question: str
):
    told = said(messages(*pairs))
    assert (told.instructions, told.before, told.question) == (instructions, (), question)


@pytest.mark.parametrize("pairs", [(), (("system", " "),), (("assistant", ""),), (("user", "a"), ("assistant", "b"))])
def test_without_a_question_at_its_end_it_is_refused(pairs: tuple[tuple[str, str], ...]):
    with pytest.raises(BadRequest, match="last message"):
        said(messages(*pairs))


def test_a_role_that_nobody_has_is_refused():
    with pytest.raises(BadRequest, match="tool"):
        said(messages(("user", "a"), ("tool", "b"), ("user", "c")))


def test_what_was_answered_here_goes_on_from_its_transcript():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    begun = conversations.of(first, ANYWHERE)
    assert begun.transcript == ()
    conversations.note(first, "1.", begun, SEGMENTS)
    # White space around an answer is not kept by everybody.
    following = conversations.of(said(messages(("user", "One?"), ("assistant", " 1.\n"), ("user", "Two?"))), ANYWHERE)
    assert following.transcript == SEGMENTS
    assert following.conversation_id == begun.conversation_id


def test_a_model_by_itself_is_told_nothing_of_what_was_read_before():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    begun = conversations.of(first, ANYWHERE)
    conversations.note(first, "1.", begun, SEGMENTS)
    second = said(messages(("user", "One?"), ("assistant", "1."), ("user", "Two?")))
    alone = conversations.of(second, None)
    (turn,) = turns_of_transcript(alone.transcript, ())
    assert (turn.question, turn.answer, turn.searches) == ("One?", "1.", False)
    assert alone.conversation_id != begun.conversation_id
    conversations.note(second, "2.", alone, as_it_was_said((("user", "Two?"), ("assistant", "2."))))
    third = said(messages(("user", "One?"), ("assistant", "1."), ("user", "Two?"), ("assistant", "2."), ("user", "3?")))
    assert conversations.of(third, None).conversation_id == alone.conversation_id


IN_WORK, IN_HOME = Searched("Work"), Searched("Home")
LEASES = Searched("Work", Filters(paths=("/docs/leases",), formats=("pdf",)))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        *[(IN_WORK, IN_WORK), (LEASES, LEASES), (IN_WORK, ANYWHERE), (LEASES, IN_WORK)],
        (LEASES, Searched(filters=Filters(formats=("pdf",)))),
        (LEASES, Searched("Work", Filters(formats=("pdf",), reads_question=False))),
    ],
)
def test_a_conversation_goes_on_where_all_that_was_read_may_be_read(before: Searched, now: Searched):
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    begun = conversations.of(first, before)
    conversations.note(first, "1 [1].", begun, SEGMENTS)
    following = conversations.of(said(messages(("user", "One?"), ("assistant", "1 [1]."), ("user", "Two?"))), now)
    assert following.transcript == SEGMENTS
    assert following.conversation_id == begun.conversation_id


@pytest.mark.parametrize(
    ("before", "now"),
    [
        *[(IN_WORK, IN_HOME), (ANYWHERE, IN_HOME), (IN_WORK, LEASES)],
        (LEASES, Searched("Work", Filters(paths=("/docs",)))),
        (IN_WORK, Searched("Work", Filters(changed_since="2026-01-01"))),
    ],
)
def test_what_was_read_elsewhere_is_not_read_again_and_no_number_leads_to_it(before: Searched, now: Searched):
    conversations = Conversations()
    first = said(messages(("user", "One [1]?")))
    begun = conversations.of(first, before)
    conversations.note(first, "1 [1].", begun, SEGMENTS)
    following = conversations.of(said(messages(("user", "One [1]?"), ("assistant", "1 [1]."), ("user", "Two?"))), now)
    (turn,) = turns_of_transcript(following.transcript, ())
    assert (turn.question, turn.answer, turn.passages, turn.searches) == ("One [1]?", "1.", (), False)
    assert following.conversation_id != begun.conversation_id


def test_who_has_read_in_two_places_may_not_go_on_in_one_of_them():
    conversations = Conversations()
    words, answer = [("user", "One?")], "Yes."
    for where in (IN_WORK, ANYWHERE):
        asked = said(messages(*words))
        conversations.note(asked, answer, conversations.of(asked, where), SEGMENTS)
        words += [("assistant", answer), ("user", "And?")]
    assert conversations.of(said(messages(*words)), ANYWHERE).transcript == (*SEGMENTS, *SEGMENTS)
    alone = conversations.of(said(messages(*words)), IN_WORK)
    assert not any(turn.searches for turn in turns_of_transcript(alone.transcript, ()))


def test_what_a_model_said_by_itself_goes_on_from_there_with_files():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    conversations.note(first, "1.", conversations.of(first, None), SEGMENTS)
    following = conversations.of(said(messages(("user", "One?"), ("assistant", "1."), ("user", "Two?"))), IN_HOME)
    assert following.transcript == SEGMENTS
    assert following.searched == IN_HOME


def test_instructions_may_change_in_between():
    conversations = Conversations()
    first = said(messages(("system", "Today is Monday."), ("user", "One?")))
    conversations.note(first, "1.", conversations.of(first, ANYWHERE), SEGMENTS)
    words = (("system", "Today is Tuesday."), ("user", "One?"), ("assistant", "1."), ("user", "Two?"))
    assert conversations.of(said(messages(*words)), ANYWHERE).transcript == SEGMENTS


def test_what_was_changed_since_is_read_as_it_was_said():
    conversations = Conversations()
    first = said(messages(("user", "One?")))
    conversations.note(first, "1.", conversations.of(first, ANYWHERE), SEGMENTS)
    other = conversations.of(said(messages(("user", "One?"), ("assistant", "Uno."), ("user", "Two?"))), ANYWHERE)
    (turn,) = turns_of_transcript(other.transcript, ())
    assert (turn.question, turn.answer, turn.searches) == ("One?", "Uno.", False)


def test_only_the_newest_are_remembered():
    conversations = Conversations(most=2)
    asked = [said(messages(("user", f"{n}?"))) for n in range(3)]
    for one in asked:
        conversations.note(one, "Yes.", conversations.of(one, ANYWHERE), SEGMENTS)
    told = [
        conversations.of(said(messages(("user", f"{n}?"), ("assistant", "Yes."), ("user", "Sure?"))), ANYWHERE)
        for n in range(3)
    ]
    assert [one.transcript == SEGMENTS for one in told] == [False, True, True]


def test_an_answer_that_nobody_asked_for_stands_in_the_history():
    transcript = as_it_was_said((("assistant", "Welcome."), ("user", "One?"), ("assistant", "1.")))
    turns = turns_of_transcript(transcript, ())
    assert [(turn.question, turn.answer) for turn in turns] == [("", "Welcome."), ("One?", "1.")]
