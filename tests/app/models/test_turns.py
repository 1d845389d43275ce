"""Tests for app.models.turns: the life of an answer, as values."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from app.models.turn_records import outcome_of, view_of
from app.models.turns import TurnView, after, failed, going_on
from engine import protocol
from engine.protocol import Refresh
from tests.helpers.answers import finished, found, passage, tokens

FRESH = TurnView("t", "What notice applies?")


def lived(*notices: protocol.Notice) -> TurnView:
    return reduce(after, notices, FRESH)


def test_an_answer_is_queued_searched_read_written_and_finished():
    states = [
        protocol.AnswerState(question_id="t", state="queued", ahead=2),
        protocol.AnswerState(question_id="t", state="searching"),
        found("t"),
        protocol.AnswerState(question_id="t", state="reading"),
        tokens("t", "Three "),
        tokens("t", "months."),
        finished("t"),
    ]
    views = [lived(*states[: count + 1]) for count in range(len(states))]
    assert [view.state for view in views] == [
        "queued",
        "searching",
        "searching",
        "reading",
        "writing",
        "writing",
        "finished",
    ]
    assert views[0].ahead == 2
    assert views[2].passages == (passage(),)
    assert views[5].text == "Three months."
    assert views[6].text == "Three months [1]."
    assert views[6].segments
    assert views[6].timings.generated_tokens == 7


def test_thoughts_come_before_the_text_and_stay_beside_it():
    thinking = lived(*(protocol.AnswerThoughts(question_id="t", text=text) for text in ("They ", "ask.")))
    assert (thinking.state, thinking.thoughts, thinking.text) == ("writing", "They ask.", "")
    ended = after(after(thinking, tokens("t", "So.")), finished("t", "So.", thoughts="They ask."))
    assert (ended.text, ended.thoughts) == ("So.", "They ask.")


@pytest.mark.parametrize(
    "end",
    [
        finished("t"),
        protocol.AnswerCancelled(question_id="t"),
        protocol.AnswerFailed(question_id="t", kind="DecodeFailed", sentence="It failed."),
    ],
)
def test_a_turn_ends_once(end):
    ended = lived(tokens("t", "Half"), end)
    assert ended.has_ended
    for late in (tokens("t", "more"), finished("t", "other"), protocol.AnswerCancelled(question_id="t")):
        assert after(ended, late) == ended


def test_what_was_written_stays_when_an_answer_is_cancelled_or_fails():
    assert lived(tokens("t", "Half"), protocol.AnswerCancelled(question_id="t")).text == "Half"
    failure = protocol.AnswerFailed(question_id="t", kind="NoCells", sentence="No room.", way_out="Ask again.")
    view = lived(tokens("t", "Half"), failure)
    assert (view.text, view.error_sentence) == ("Half", "No room. Ask again.")


def refreshed(first_passage: int, *passages: protocol.Passage) -> protocol.AnswerRefreshed:
    refresh = Refresh(5, first_passage, len(passages))
    return protocol.AnswerRefreshed(question_id="t", refresh=refresh, passages=passages)


def test_passages_that_come_while_writing_stand_behind_the_others():
    view = lived(found("t"), tokens("t", "Three"), refreshed(1, passage(1)), tokens("t", " months"))
    assert (view.state, view.text, view.passages) == ("writing", "Three months", (passage(), passage(1)))
    assert view.refreshes == (Refresh(5, 1, 1),)
    again = after(view, refreshed(2, passage(2), passage(3)))
    assert again.passages == (passage(), passage(1), passage(2), passage(3))
    assert again.refreshes == (Refresh(5, 1, 1), Refresh(5, 2, 2))


def test_what_is_recalled_of_earlier_turns_stands_behind_the_others():
    recalled = protocol.AnswerRecalled(question_id="t", passages=(passage(4),))
    view = lived(found("t"), tokens("t", "Three"), recalled, tokens("t", " [2]"), refreshed(2, passage(1)))
    assert view.passages == (passage(), passage(4), passage(1))
    assert view.refreshes == (Refresh(5, 2, 1),)


def test_a_turn_is_the_same_after_being_stored(store):
    refreshes = (Refresh(5, 1, 1),)
    whole = lived(found("t"), tokens("t", "Three"), finished("t", refreshes=refreshes))
    assert whole.refreshes == refreshes
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, FRESH.question)
    store.record(turn.turn_id, outcome_of(whole))
    (stored,) = store.turns(chat.conversation_id)
    again = view_of(stored, 1, 3)
    assert (again.branch_index, again.num_branches) == (1, 3)
    for name in ("question", "state", "text", "quotes", "passages", "citations", "scope", "timings", "model"):
        assert getattr(again, name) == getattr(whole, name), name
    assert (again.segments, again.refreshes) == (whole.segments, whole.refreshes)


def test_file_names_that_are_not_utf8_survive_storing(store):
    source = passage(document="/docs/na\udcefve.pdf")
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, "?")
    store.record(turn.turn_id, outcome_of(lived(found("t", source))))
    assert view_of(store.turns(chat.conversation_id)[0]).passages == (source,)


def test_a_part_that_cannot_be_read_costs_that_part_only(store):
    chat = store.create_conversation("chat")
    turn = store.add_turn(chat.conversation_id, None, "?")
    outcome = outcome_of(failed(lived(finished("t")), "x"))
    from dataclasses import replace

    store.record(turn.turn_id, replace(outcome, passages=({"of": "another version"},)))
    view = view_of(store.turns(chat.conversation_id)[0])
    assert view.passages == ()
    assert view.text == "Three months [1]."


@pytest.mark.parametrize(
    ("values", "is_unfinished"),
    [
        ({"state": "finished", "model": "tiny", "finish_reason": "length"}, True),
        ({"state": "finished", "model": "tiny", "finish_reason": "stop"}, False),
        ({"state": "finished", "model": None, "finish_reason": "length"}, False),
        ({"state": "cancelled"}, True),
        ({"state": "failed"}, True),
        ({"state": "failed", "text": " "}, False),
        ({"state": "writing"}, False),
    ],
)
def test_an_answer_that_broke_off_is_unfinished(values, is_unfinished):
    assert replace(FRESH, **{"text": "Three", **values}).is_unfinished is is_unfinished


def test_an_answer_that_goes_on_grows_and_keeps_all_it_has():
    cut = lived(found("t"), tokens("t", "Three "), finished("t", "Three ", finish_reason="length"))
    begun = going_on(cut)
    assert not begun.has_ended
    assert (begun.text, begun.passages, begun.scope, begun.segments) == (
        cut.text,
        cut.passages,
        cut.scope,
        cut.segments,
    )
    grown = after(begun, tokens("t", "months."))
    assert (grown.state, grown.text) == ("writing", "Three months.")
    stopped = after(grown, protocol.AnswerCancelled(question_id="t"))
    assert (stopped.state, stopped.text, stopped.segments) == ("cancelled", "Three months.", cut.segments)
    segments = ({"n": 1},)
    assert after(grown, protocol.AnswerCancelled(question_id="t", segments=segments)).segments == segments


@pytest.mark.parametrize(("thinking_s", "told_s"), [(0, 12), (3, 3)])
def test_an_answer_that_went_on_tells_how_long_was_thought_before_it(thinking_s, told_s):
    ends = [finished("t", text, thoughts="They ask.", finish_reason="length") for text in ("Three ", "Three months.")]
    first, second = (
        end.model_copy(update={"timings": end.timings.model_copy(update={"thinking_s": seconds})})
        for end, seconds in zip(ends, (12, thinking_s), strict=True)
    )
    grown = after(going_on(lived(first)), second)
    assert (grown.timings.thinking_s, grown.timings.total_s) == (told_s, second.timings.total_s)
