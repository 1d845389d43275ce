"""Tests for app.models.conversation and app.models.answering: no word is lost, every question ends once."""

from __future__ import annotations

import pytest

from app.chats.errors import ChatsHeld, ChatsUnusable
from app.models.answering import SAVE_MS, Answering
from app.models.conversation import ConversationModel
from app.models.titles import title_from
from engine import protocol
from engine.protocol import Alternative, Filters, Manner
from tests.helpers.answers import finished, found, passage, tokens
from tests.helpers.chat_desk import Desk

DEATH = "The engine crashed (SIGABRT). It is restarting."


def test_an_answer_knows_whether_files_were_still_being_read(client, store):
    desk = Desk(client, store)
    is_reading = True
    answering = Answering(client, store.record, store.add_variant, is_reading=lambda: is_reading)
    model = ConversationModel(answering, store)
    for expected in (True, False):
        is_reading = expected
        model.ask("What notice applies?")
        turn_id = model.turns[-1].turn_id
        client.tell(finished(turn_id))
        assert model.turn(turn_id).was_reading is expected
    # What was said of the first is still said when the second has been asked.
    assert [turn.was_reading for turn in model.turns] == [True, False]
    # It is not stored: what is opened later is as it is then.
    desk.model.open(model.conversation_id)
    assert [turn.was_reading for turn in desk.model.turns] == [False, False]


def test_a_question_is_stored_shown_and_asked(desk):
    turn_id = desk.ask("  What notice applies?  ")
    (ask,) = desk.asked()
    assert (ask.question_id, ask.text, ask.transcript) == (turn_id, "What notice applies?", ())
    assert ask.conversation_id == desk.model.conversation_id
    assert desk.recorded(turn_id).state == "asked"
    assert desk.said == [("added", turn_id)]
    assert desk.model.title == "What notice applies?"
    assert desk.model.is_answering


def test_white_space_asks_nothing(desk):
    desk.model.ask(" \n\t")
    assert desk.asked() == []
    assert desk.model.conversation_id is None


def test_an_answer_streams_and_each_piece_is_told_once(desk):
    turn_id = desk.ask()
    desk.said.clear()
    desk.client.tell(
        protocol.AnswerState(question_id=turn_id, state="searching"),
        found(turn_id),
        tokens(turn_id, "Three "),
        tokens(turn_id, "months."),
        finished(turn_id, "Three months."),
    )
    assert desk.said == [
        ("changed", "searching"),
        ("changed", "searching"),
        ("changed", "writing"),
        ("text", "Three "),
        ("text", "months."),
        ("changed", "finished"),
    ]
    assert desk.recorded(turn_id).state == "finished"
    assert not desk.model.is_answering


def test_the_change_to_writing_does_not_hold_the_text_that_is_told_next(desk):
    turn_id = desk.ask()
    texts = []
    desk.model.turn_changed.connect(lambda changed: texts.append(desk.view(changed).text))
    desk.client.tell(tokens(turn_id, "Three"))
    assert texts == [""]
    assert desk.view(turn_id).text == "Three"


def test_text_is_on_disk_soon_after_it_arrives(desk, qtbot):
    assert SAVE_MS <= 500
    turn_id = desk.ask()
    desk.client.tell(tokens(turn_id, "Half an "))
    qtbot.wait_until(lambda: desk.recorded(turn_id).text == "Half an ")
    desk.client.tell(tokens(turn_id, "answer"))
    qtbot.wait_until(lambda: desk.recorded(turn_id).text == "Half an answer")
    assert desk.recorded(turn_id).state == "writing"


def test_earlier_answers_of_the_branch_are_the_transcript_also_stopped_ones(desk):
    first = desk.ask("one")
    desk.client.tell(finished(first, "a", segments=({"n": 1}, {"n": 2})))
    second = desk.ask("two")
    desk.client.tell(protocol.AnswerCancelled(question_id=second))
    third = desk.ask("three")
    desk.client.tell(tokens(third, "Half an"), protocol.AnswerCancelled(question_id=third, segments=({"n": 3},)))
    fourth = desk.ask("four")
    desk.client.tell(finished(fourth, "c", segments=({"n": 4},)))
    desk.ask("five")
    assert desk.asked()[-1].transcript == ({"n": 1}, {"n": 2}, {"n": 3}, {"n": 4})


def test_the_transcript_is_the_same_after_a_restart_of_the_window(desk, client):
    first = desk.ask("one")
    desk.client.tell(finished(first, "a", segments=({"n": 1},)))
    again = Desk(client, desk.store)
    again.model.open(desk.model.conversation_id)
    again.ask("two")
    assert again.asked()[-1].transcript == ({"n": 1},)


def test_regenerating_adds_a_variant_and_erases_nothing(desk):
    first = desk.ask("one")
    desk.client.tell(finished(first, "old answer", segments=({"n": 1},)))
    desk.said.clear()
    desk.model.regenerate(first)
    (shown,) = desk.model.turns
    assert shown.turn_id != first
    assert (shown.question, shown.branch_index, shown.num_branches) == ("one", 1, 2)
    assert desk.asked()[-1].transcript == ()
    assert desk.said[0] == ("conversation",)
    desk.client.tell(finished(shown.turn_id, "new answer"))
    desk.model.switch_branch(shown.turn_id, -1)
    assert [turn.text for turn in desk.model.turns] == ["old answer"]
    desk.model.switch_branch(first, 1)
    assert [turn.text for turn in desk.model.turns] == ["new answer"]


def test_editing_in_the_middle_starts_a_branch_there(desk):
    first = desk.ask("one")
    desk.client.tell(finished(first, "1", segments=({"n": 1},)))
    second = desk.ask("two")
    desk.client.tell(finished(second, "2"))
    third = desk.ask("three")
    desk.client.tell(finished(third, "3"))
    desk.model.edit(second, "zwei")
    assert [turn.question for turn in desk.model.turns] == ["one", "zwei"]
    assert desk.asked()[-1].transcript == ({"n": 1},)
    edited = desk.model.turns[-1].turn_id
    desk.model.switch_branch(edited, -1)
    assert [turn.question for turn in desk.model.turns] == ["one", "two", "three"]


def test_the_branch_that_was_shown_last_is_shown_again(desk, client):
    first = desk.ask("one")
    desk.client.tell(finished(first, "old"))
    desk.model.regenerate(first)
    desk.model.switch_branch(desk.model.turns[0].turn_id, -1)
    again = Desk(client, desk.store)
    again.model.open(desk.model.conversation_id)
    assert [turn.turn_id for turn in again.model.turns] == [first]


@pytest.mark.parametrize("step", [-1, 1, 0, 5])
def test_there_is_no_branch_beyond_the_ends(desk, step):
    turn_id = desk.ask()
    desk.said.clear()
    desk.model.switch_branch(turn_id, step)
    assert desk.said == []


def test_regenerating_stops_the_answer_that_is_being_written(desk):
    first = desk.ask()
    desk.client.tell(tokens(first, "Half"))
    desk.model.regenerate(first)
    assert desk.client.asked(protocol.CANCEL) == [protocol.CancelQuestion(question_id=first)]


def test_editing_an_earlier_question_stops_the_answer_to_a_later_one_that_nobody_sees_then(desk):
    first = desk.ask("one")
    desk.client.tell(finished(first, "1"))
    second = desk.ask("two")
    desk.client.tell(tokens(second, "Half"))
    desk.model.edit(first, "eins")
    assert desk.client.asked(protocol.CANCEL) == [protocol.CancelQuestion(question_id=second)]


def test_a_stopped_answer_ends_as_cancelled_with_its_text(desk):
    turn_id = desk.ask()
    desk.client.tell(tokens(turn_id, "Half"))
    desk.model.stop(turn_id)
    desk.model.stop(turn_id)
    assert len(desk.client.asked(protocol.CANCEL)) == 1
    desk.client.tell(protocol.AnswerCancelled(question_id=turn_id))
    assert (desk.view(turn_id).state, desk.view(turn_id).text) == ("cancelled", "Half")
    assert desk.recorded(turn_id).state == "cancelled"
    desk.model.stop(turn_id)
    assert len(desk.client.asked(protocol.CANCEL)) == 1


def test_a_refused_question_fails_with_the_reason(desk):
    turn_id = desk.ask()
    desk.client.refuse(protocol.ASK, "There is no collection 'Flat'.", "NothingThere", "Choose another.")
    view = desk.view(turn_id)
    assert (view.state, view.error_sentence) == ("failed", "There is no collection 'Flat'. Choose another.")


def test_a_failed_answer_keeps_its_text_and_says_why(desk):
    turn_id = desk.ask()
    desk.client.tell(
        tokens(turn_id, "Half"),
        protocol.AnswerFailed(question_id=turn_id, kind="DecodeFailed", sentence="It failed."),
    )
    assert desk.recorded(turn_id).text == "Half"
    assert desk.recorded(turn_id).error_sentence == "It failed."


# --- answers that go on ---


def cut_off(desk: Desk, turn_id: str, text: str = "Three ", **changes) -> None:
    desk.client.tell(found(turn_id), finished(turn_id, text, **{"finish_reason": "length", **changes}))


def test_an_answer_that_was_cut_off_goes_on_in_its_place(desk):
    first = desk.ask("one")
    desk.client.tell(finished(first, "1", segments=({"n": 1},)))
    turn_id = desk.ask("two")
    cut_off(desk, turn_id, segments=({"n": 2},))
    desk.said.clear()
    desk.model.go_on(turn_id)
    ask = desk.asked()[-1]
    assert (ask.question_id, ask.text, ask.transcript, ask.num_answers) == (turn_id, "two", ({"n": 1},), 1)
    view = desk.view(turn_id)
    assert (ask.unfinished.text, ask.unfinished.segments) == ("Three ", ({"n": 2},))
    assert (ask.unfinished.passages, ask.unfinished.quotes, ask.unfinished.scope) == (
        view.passages,
        view.quotes,
        view.scope,
    )
    assert desk.model.is_answering
    desk.client.tell(tokens(turn_id, "months."), finished(turn_id, "Three months.", segments=({"n": 3},)))
    assert desk.said == [
        ("changed", "queued"),
        ("changed", "writing"),
        ("text", "months."),
        ("changed", "finished"),
    ]
    assert (desk.view(turn_id).text, desk.view(turn_id).num_branches) == ("Three months.", 1)
    assert desk.recorded(turn_id).text == "Three months."
    desk.ask("three")
    assert desk.asked()[-1].transcript == ({"n": 1}, {"n": 3})


def test_of_several_answers_the_one_that_is_shown_goes_on(desk):
    turn_id = desk.ask()
    cut_off(desk, turn_id, alternatives=(Alternative("Six ", (), "length", ({"n": 2},)),))
    desk.model.switch_branch(turn_id, 1)
    (shown,) = desk.model.turns
    desk.model.go_on(shown.turn_id)
    assert (desk.asked()[-1].question_id, desk.asked()[-1].unfinished.text) == (shown.turn_id, "Six ")
    desk.client.tell(finished(shown.turn_id, "Six weeks."))
    desk.model.switch_branch(shown.turn_id, -1)
    assert [(turn.text, turn.num_branches) for turn in desk.model.turns] == [("Three ", 2)]


def test_what_came_to_its_end_does_not_go_on(desk):
    turn_id = desk.ask()
    desk.client.tell(tokens(turn_id, "Three "))
    desk.model.go_on(turn_id)
    desk.client.tell(finished(turn_id))
    desk.model.go_on(turn_id)
    desk.model.go_on("nobody")
    assert len(desk.asked()) == 1


def test_an_answer_whose_engine_dies_while_it_goes_on_keeps_all_that_was_seen_of_it(desk):
    turn_id = desk.ask()
    cut_off(desk, turn_id, segments=({"n": 1},))
    desk.model.go_on(turn_id)
    desk.client.tell(tokens(turn_id, "mon"))
    desk.client.die(DEATH)
    view = desk.view(turn_id)
    assert (view.state, view.text, view.error_sentence) == ("failed", "Three mon", DEATH)
    assert desk.recorded(turn_id).text == "Three mon"
    desk.client.become_ready()
    assert len(desk.asked()) == 2
    desk.model.go_on(turn_id)
    assert (desk.asked()[-1].unfinished.text, desk.asked()[-1].unfinished.segments) == ("Three mon", ({"n": 1},))


def test_one_that_is_stopped_before_a_word_is_as_it_was(desk):
    turn_id = desk.ask()
    cut_off(desk, turn_id, segments=({"n": 1},))
    desk.model.go_on(turn_id)
    desk.model.stop(turn_id)
    desk.client.tell(protocol.AnswerCancelled(question_id=turn_id))
    outcome = desk.recorded(turn_id)
    assert (outcome.state, outcome.text, outcome.segments) == ("cancelled", "Three ", ({"n": 1},))


def test_one_that_the_window_left_unfinished_goes_on_after_a_restart(desk, client):
    turn_id = desk.ask()
    desk.client.tell(found(turn_id), tokens(turn_id, "Three "))
    passages = desk.view(turn_id).passages
    desk.answering.close()
    again = Desk(client, desk.store)
    again.model.open(desk.model.conversation_id)
    again.model.go_on(turn_id)
    unfinished = again.asked()[-1].unfinished
    assert (unfinished.text, unfinished.passages, unfinished.segments) == ("Three ", passages, ())


def test_without_an_engine_it_says_so_and_stays(desk):
    turn_id = desk.ask()
    cut_off(desk, turn_id)
    desk.client.give_up()
    desk.model.go_on(turn_id)
    assert (desk.view(turn_id).state, desk.view(turn_id).text) == ("failed", "Three ")


# --- several answers to one question ---


def other(text: str, **segment: object) -> Alternative:
    return Alternative(text, (), "stop", ({"role": "assistant", **segment},))


def three_answers(desk: Desk, turn_id: str) -> None:
    others = (other("Six weeks.", n=2), other("A year.", n=3))
    desk.client.tell(finished(turn_id, "Three months.", segments=({"n": 1},), alternatives=others))


def test_as_many_answers_are_asked_for_as_are_wanted(desk):
    wanted = 1
    model = ConversationModel(desk.answering, desk.store, answers_wanted=lambda: wanted)
    model.ask("one")
    wanted = 3
    model.ask("two")
    model.regenerate(model.turns[-1].turn_id, 4)
    assert [ask.num_answers for ask in desk.asked()] == [1, 3, 4]


def test_further_answers_become_branches_beside_the_first_which_stays_shown(desk):
    turn_id = desk.ask()
    three_answers(desk, turn_id)
    view = desk.view(turn_id)
    assert (view.text, view.branch_index, view.num_branches) == ("Three months.", 0, 3)
    told = [(view.text, view.branch_index, view.num_branches)]
    for _ in range(2):
        desk.model.switch_branch(desk.model.turns[-1].turn_id, 1)
        (view,) = desk.model.turns
        told.append((view.text, view.branch_index, view.num_branches))
    assert told == [("Three months.", 0, 3), ("Six weeks.", 1, 3), ("A year.", 2, 3)]
    assert view.passages == (passage(),)
    assert view.model == "tiny"


def test_a_conversation_goes_on_from_the_answer_that_is_shown(desk):
    turn_id = desk.ask()
    three_answers(desk, turn_id)
    desk.model.switch_branch(turn_id, 1)
    following = desk.ask("And then?")
    assert desk.asked()[-1].transcript == ({"role": "assistant", "n": 2},)
    desk.client.tell(finished(following, "Then nothing."))
    desk.model.switch_branch(desk.model.turns[0].turn_id, 1)
    assert [turn.text for turn in desk.model.turns] == ["A year."]
    desk.model.switch_branch(desk.model.turns[0].turn_id, -1)
    assert [turn.text for turn in desk.model.turns] == ["Six weeks.", "Then nothing."]


def test_further_answers_are_there_after_a_restart_and_the_shown_one_is_shown_again(desk, client):
    turn_id = desk.ask()
    three_answers(desk, turn_id)
    again = Desk(client, desk.store)
    again.model.open(desk.model.conversation_id)
    assert [(turn.text, turn.num_branches) for turn in again.model.turns] == [("Three months.", 3)]
    again.model.switch_branch(turn_id, 2)
    again.ask("And then?")
    assert again.asked()[-1].transcript == ({"role": "assistant", "n": 3},)


def test_further_answers_of_a_chat_that_is_not_shown_are_found_in_it(desk):
    turn_id = desk.ask()
    chat = desk.model.conversation_id
    desk.model.new_chat()
    desk.said.clear()
    three_answers(desk, turn_id)
    assert desk.said == []
    desk.model.open(chat)
    assert desk.view(turn_id).num_branches == 3


def test_answers_that_say_the_same_are_shown_once_and_counted(desk):
    turn_id = desk.ask()
    same = (other("Three months."), other("A year."), other(" A year.\n"))
    desk.client.tell(finished(turn_id, "Three months.", alternatives=same))
    assert (desk.view(turn_id).num_branches, desk.view(turn_id).num_alike) == (2, 2)


def test_three_more_answers_join_those_there_were(desk):
    turn_id = desk.ask()
    three_answers(desk, turn_id)
    desk.model.regenerate(turn_id, 3)
    (view,) = desk.model.turns
    desk.client.tell(
        finished(view.turn_id, "A decade.", alternatives=(other("A century."), other("A millennium.")))
    )  # fmt: skip
    assert (desk.view(view.turn_id).branch_index, desk.view(view.turn_id).num_branches) == (3, 6)


def test_an_answer_shown_beside_the_one_that_is_written_counts_what_comes_with_it(desk):
    first = desk.ask()
    desk.client.tell(finished(first, "A decade."))
    desk.model.regenerate(first, 3)
    second = desk.model.turns[-1].turn_id
    desk.model.switch_branch(second, -1)
    three_answers(desk, second)
    assert (desk.view(first).branch_index, desk.view(first).num_branches) == (0, 4)


def test_further_answers_the_disk_refused_are_saved_when_there_is_room_again(desk):
    turn_id = desk.ask()
    connection = desk.store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    long = tuple(other(f"{number} " * 100_000) for number in range(2))
    desk.client.tell(finished(turn_id, "Three months.", alternatives=long))
    connection.execute("PRAGMA max_page_count = 1000000")
    desk.answering.save()
    stored = desk.store.turns(desk.model.conversation_id)
    assert [turn.outcome.text for turn in stored] == ["Three months.", *(one.text for one in long)]
    assert len({turn.question for turn in stored}) == 1


# --- engine deaths ---


def test_when_the_engine_dies_while_writing_the_text_is_kept_and_the_turn_says_what_happened(desk):
    turn_id = desk.ask()
    desk.client.tell(tokens(turn_id, "Half an answer"))
    desk.client.die(DEATH)
    view = desk.view(turn_id)
    assert (view.state, view.text, view.error_sentence) == ("failed", "Half an answer", DEATH)
    assert desk.recorded(turn_id).text == "Half an answer"
    desk.client.become_ready()
    assert len(desk.asked()) == 1
    desk.model.regenerate(turn_id)
    assert len(desk.asked()) == 2


def test_a_question_nobody_has_begun_to_answer_is_asked_again_once(desk):
    turn_id = desk.ask()
    desk.client.tell(protocol.AnswerState(question_id=turn_id, state="searching"), found(turn_id))
    desk.client.die(DEATH)
    assert desk.view(turn_id).state == "queued"
    desk.client.become_ready()
    assert [ask.question_id for ask in desk.asked()] == [turn_id, turn_id]
    desk.client.die(DEATH)
    assert (desk.view(turn_id).state, desk.view(turn_id).error_sentence) == ("failed", DEATH)
    desk.client.become_ready()
    assert len(desk.asked()) == 2


def test_a_question_asked_while_the_engine_restarts_is_asked_once_it_is_back(desk):
    desk.client.die(DEATH)
    turn_id = desk.ask()
    assert desk.asked() == []
    desk.client.become_ready()
    assert [ask.question_id for ask in desk.asked()] == [turn_id]
    desk.client.tell(finished(turn_id))
    assert desk.view(turn_id).state == "finished"


def test_a_question_that_waits_for_the_engine_can_be_stopped(desk):
    desk.client.die(DEATH)
    turn_id = desk.ask()
    desk.model.stop(turn_id)
    assert desk.view(turn_id).state == "cancelled"
    desk.client.become_ready()
    assert desk.asked() == []


def test_an_engine_that_dies_while_stopping_an_answer_has_stopped_it(desk):
    turn_id = desk.ask()
    desk.model.stop(turn_id)
    desk.client.die(DEATH)
    assert desk.view(turn_id).state == "cancelled"


def test_when_the_engine_is_given_up_all_open_questions_fail(desk):
    first, second = desk.ask("one"), desk.ask("two")
    desk.client.tell(tokens(first, "Half"))
    desk.client.give_up("It ended three times.")
    assert [turn.state for turn in desk.model.turns] == ["failed", "failed"]
    assert desk.view(second).error_sentence == "It ended three times."
    third = desk.ask("three")
    assert desk.view(third).state == "failed"
    assert "Start it again" in desk.view(third).error_sentence


def test_closing_ends_open_questions_as_cancelled_with_their_text(desk):
    turn_id = desk.ask()
    desk.client.tell(tokens(turn_id, "Half"))
    desk.answering.close()
    recorded = desk.recorded(turn_id)
    assert (recorded.state, recorded.text) == ("cancelled", "Half")
    assert recorded.error_sentence


def test_an_answer_the_engine_ends_because_it_was_told_to_end_was_not_stopped_by_anybody(desk):
    first, second = desk.ask("one"), desk.ask("two")
    desk.model.stop(first)
    desk.client.tell(*(protocol.AnswerCancelled(question_id=turn_id) for turn_id in (first, second)))
    desk.answering.close()
    assert desk.recorded(first).error_sentence == ""
    assert "was closed" in desk.recorded(second).error_sentence
    assert desk.recorded(second).state == "cancelled"


# --- several chats ---


def test_an_answer_goes_on_while_another_chat_is_shown(desk):
    first = desk.ask("one")
    chat = desk.model.conversation_id
    desk.client.tell(tokens(first, "Half "))
    desk.model.new_chat()
    desk.said.clear()
    desk.client.tell(tokens(first, "an answer"))
    assert desk.said == []
    desk.model.open(chat)
    assert desk.view(first).text == "Half an answer"
    assert desk.view(first).state == "writing"
    desk.client.tell(tokens(first, "."), finished(first, "Whole."))
    assert desk.view(first).text == "Whole."
    desk.model.new_chat()
    desk.model.open(chat)
    assert desk.view(first).text == "Whole."


def test_notices_for_questions_of_nobody_are_passed_over(desk):
    turn_id = desk.ask()
    desk.said.clear()
    desk.client.tell(tokens("somebody-else", "x"), finished("somebody-else"), protocol.LibraryChanged())
    assert desk.said == []
    assert desk.view(turn_id).text == ""


def test_export_holds_the_branch_that_is_shown(desk):
    turn_id = desk.ask("one?")
    desk.client.tell(finished(turn_id, "The answer [1].", passages=(passage(),)))
    text = desk.model.export_markdown()
    assert text.startswith("# one?\n\n## one?\n\nThe answer [1].")
    assert "1. /docs/lease-0.pdf, page 1" in text


# --- a disk that does not let us ---


def test_text_the_disk_refuses_is_told_once_shown_and_saved_when_there_is_room_again(desk, qtbot):
    turn_id = desk.ask()
    connection = desk.store._connection
    told = []
    desk.model.store_failed.connect(lambda sentence, way_out: told.append(sentence))
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    desk.client.tell(tokens(turn_id, "long " * 100_000))
    desk.answering.save()
    desk.answering.save()
    desk.client.tell(finished(turn_id, "long " * 100_000))
    assert len(told) == 1
    assert "full" in told[0]
    assert desk.view(turn_id).state == "finished"
    connection.execute("PRAGMA max_page_count = 1000000")
    desk.answering.save()
    assert desk.recorded(turn_id).state == "finished"


def test_an_answer_the_disk_refused_is_part_of_the_conversation_that_is_opened_again(desk):
    turn_id = desk.ask()
    conversation_id = desk.model.conversation_id
    connection = desk.store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    desk.client.tell(finished(turn_id, "long " * 100_000))
    assert desk.recorded(turn_id).state == "asked"
    desk.model.new_chat()
    desk.model.open(conversation_id)
    assert desk.view(turn_id).state == "finished"
    connection.execute("PRAGMA max_page_count = 1000000")
    desk.ask("And then?")
    assert desk.asked()[-1].transcript == ({"role": "assistant", "text": "long " * 100_000},)


class Refusing:
    """A store of which some turns meet a damaged page, or all a file that another program holds."""

    def __init__(self, store):
        self.store, self.bad, self.tried = store, {}, []

    def record(self, turn_id, outcome):
        self.tried.append(turn_id)
        if turn_id in self.bad:
            raise self.bad[turn_id]
        self.store.record(turn_id, outcome)


def open_answers(client, store, *questions):
    """A window with these questions, each in a chat of its own."""
    refusing = Refusing(store)
    answering = Answering(client, refusing.record)
    model, turn_ids = ConversationModel(answering, store), []
    for question in questions:
        model.new_chat()
        model.ask(question)
        turn_ids.append(model.turns[-1].turn_id)
    return refusing, answering, turn_ids


def test_a_turn_that_cannot_be_written_holds_up_no_other_answer(client, store):
    refusing, answering, (bad, worse, *good) = open_answers(client, store, "one", "two", "three", "four")
    refusing.bad = {bad: ChatsUnusable("The first page is damaged."), worse: ChatsUnusable("So is another.")}
    told = []
    answering.store_failed.connect(lambda sentence, _: told.append(sentence))
    for turn_id in (bad, worse, *good):
        client.tell(finished(turn_id, "An answer."))
    assert told == ["The first page is damaged."]
    assert answering.store_problem.sentence == "The first page is damaged."
    assert {
        turn.turn_id: turn.outcome.state for one in store.conversations() for turn in store.turns(one.conversation_id)
    } == {bad: "asked", worse: "asked", **dict.fromkeys(good, "finished")}
    refusing.bad.clear()
    answering.save()
    assert answering.store_problem is None


def test_a_file_that_another_program_holds_is_waited_for_once_and_not_for_each_answer(client, store):
    refusing, answering, turn_ids = open_answers(client, store, "one", "two", "three")
    refusing.bad = dict.fromkeys(turn_ids, ChatsHeld("Another program holds it."))
    for turn_id in turn_ids:
        client.tell(finished(turn_id, "An answer."))
    refusing.tried.clear()
    answering.save()
    assert refusing.tried == turn_ids[:1]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("What notice applies?", "What notice applies?"),
        ("first line\nsecond line", "first line"),
        ("word " * 30, "word word word word word word word word word word word word…"),
        ("租" * 100, "租" * 60 + "…"),
        ("", ""),
    ],
)
def test_a_title_is_the_first_line_cut_at_a_word(question, title):
    assert title_from(question) == title


def test_a_chat_that_leaves_files_out_asks_the_model_alone_and_is_so_when_it_is_opened_again(desk, client, store):
    desk.model.set_collection("Flat")
    desk.model.set_filters(Filters(formats=("pdf",)))
    desk.model.leave_files_out()
    turn_id = desk.ask("Say it politely.")
    (ask,) = desk.asked()
    assert (ask.searches, ask.collection, ask.filters) == (False, None, Filters())
    assert not desk.view(turn_id).searches
    again = Desk(client, store)
    again.model.open(desk.model.conversation_id)
    assert (again.model.searches, again.model.collections, again.view(turn_id).searches) == (False, ("Flat",), False)
    # What is chosen now counts for what is asked next.
    again.model.set_collection("Flat")
    assert (again.model.searches, store.conversation(again.model.conversation_id).searches) == (True, True)
    assert again.view(again.ask("And in my lease?")).searches
    assert (again.asked()[-1].searches, again.asked()[-1].collection) == (True, "Flat")


def test_several_collections_are_asked_together(desk, client, store):
    desk.model.set_filters(Filters(formats=("pdf",)))
    desk.model.set_collections(("Flat", "Tea"))
    turn_id = desk.ask()
    asked = desk.asked()[-1]
    assert (asked.collection, asked.filters) == (None, Filters(formats=("pdf",), collections=("Flat", "Tea")))
    # What is chosen below the question is kept apart from where it is asked.
    assert desk.model.filters == desk.view(turn_id).filters == Filters(formats=("pdf",))
    client.tell(finished(turn_id))
    desk.model.search_everything(turn_id)
    assert desk.asked()[-1].filters == Filters(reads_question=False, collections=("Flat", "Tea"))
    desk.model.leave_files_out()
    desk.ask("Say it politely.")
    assert (desk.asked()[-1].collection, desk.asked()[-1].filters) == (None, Filters())
    again = Desk(client, store)
    again.model.open(desk.model.conversation_id)
    assert (again.model.collections, again.model.searches) == (("Flat", "Tea"), False)
    again.model.attach(["/docs/lease.pdf"])
    again.ask("And in this one?")
    assert again.asked()[-1].filters == Filters(paths=("/docs/lease.pdf",))


def test_of_several_collections_those_that_are_gone_are_left_out(client, store):
    gone = set()
    model = ConversationModel(Answering(client, store.record), store, is_gone=lambda name: name in gone)
    model.set_collections(("Flat", "Tea", "Work"))

    def asked() -> tuple[object, object]:
        model.ask("What notice applies?")
        ask = client.asked(protocol.ASK)[-1]
        client.tell(finished(ask.question_id))
        return ask.collection, ask.filters.collections

    gone |= {"Tea"}
    assert asked() == (None, ("Flat", "Work"))
    gone |= {"Work"}
    assert asked() == ("Flat", ())
    # The engine says that there is no such collection; all files are none of what was chosen.
    gone |= {"Flat"}
    assert asked() == (None, ("Flat", "Tea", "Work"))
    gone.clear()
    assert asked() == (None, ("Flat", "Tea", "Work"))


def test_what_is_asked_again_is_asked_as_it_was(desk):
    desk.model.leave_files_out()
    alone = desk.ask("Say it politely.")
    desk.client.tell(finished(alone))
    desk.model.set_collection(None)
    desk.model.regenerate(alone)
    desk.client.tell(finished(desk.model.turns[-1].turn_id))
    desk.model.search_everything(alone)
    assert [ask.searches for ask in desk.asked()] == [False, False, True]
    searched = desk.model.turns[-1].turn_id
    desk.client.tell(finished(searched))
    desk.model.leave_files_out()
    desk.model.regenerate(searched)
    assert desk.asked()[-1].searches


def test_an_edited_question_is_asked_where_the_next_one_would_be(desk):
    searched = desk.ask("What notice applies?")
    desk.client.tell(finished(searched))
    desk.model.leave_files_out()
    desk.model.edit(searched, "Say it politely.")
    assert not desk.asked()[-1].searches
    alone = desk.model.turns[-1].turn_id
    desk.client.tell(finished(alone))
    desk.model.set_collection("Flat")
    desk.model.edit(alone, "What does the lease say?")
    assert (desk.asked()[-1].searches, desk.asked()[-1].collection) == (True, "Flat")


@pytest.mark.parametrize("again", [lambda model, turn_id: model.edit(turn_id, "And it?"), ConversationModel.regenerate])
def test_what_is_asked_again_is_about_the_files_that_were_attached_since(client, store, again):
    model = ConversationModel(Answering(client, store.record), store, has_files=lambda: False)
    model.ask("Summarise the lease.")
    alone = model.turns[-1].turn_id
    client.tell(finished(alone))
    model.attach(["/docs/lease.pdf"])
    again(model, alone)
    asked = client.asked(protocol.ASK)[-1]
    assert (asked.searches, asked.filters.paths) == (True, ("/docs/lease.pdf",))
    client.tell(finished(model.turns[-1].turn_id))
    # They can be left out again, attached as they are.
    model.leave_files_out()
    again(model, alone)
    assert not client.asked(protocol.ASK)[-1].searches


def test_without_any_files_the_model_alone_is_asked_until_there_are_some(client, store):
    has_files = False
    answering = Answering(client, store.record)
    model = ConversationModel(answering, store, has_files=lambda: has_files)
    model.ask("one")
    client.tell(finished(model.turns[-1].turn_id))
    has_files = True
    model.ask("two")
    assert [ask.searches for ask in client.asked(protocol.ASK)] == [False, True]


def test_a_file_that_is_attached_to_a_chat_is_asked_also_where_files_were_left_out_or_there_were_none(client, store):
    model = ConversationModel(Answering(client, store.record), store, has_files=lambda: False)
    model.leave_files_out()
    assert not model.asks_files
    model.attach(["/docs/lease.pdf"])
    assert (model.searches, model.asks_files) == (True, True)


def test_what_is_attached_is_searched_whichever_collection_the_chat_is_on_by_then(desk):
    desk.model.attach(["/docs/lease.pdf"])
    desk.model.set_collection("Contracts")
    turn_id = desk.ask()
    desk.client.tell(finished(turn_id))
    desk.model.regenerate(turn_id)
    assert [(ask.collection, ask.filters.paths) for ask in desk.asked()] == [(None, ("/docs/lease.pdf",))] * 2
    # The chat is on it still, for what is asked without them.
    desk.model.detach(["/docs/lease.pdf"])
    desk.ask("And in the others?")
    assert (desk.asked()[-1].collection, desk.asked()[-1].filters.paths) == ("Contracts", ())


def test_an_answer_of_the_model_alone_goes_on_alone(desk):
    desk.model.leave_files_out()
    turn_id = desk.ask("Say it politely.")
    desk.client.tell(tokens(turn_id, "Would you "))
    desk.client.tell(finished(turn_id, "Would you ", finish_reason="length"))
    desk.model.set_collection(None)
    desk.model.go_on(turn_id)
    ask = desk.asked()[-1]
    assert (ask.unfinished is not None, ask.searches) == (True, False)


OWN = Manner(instructions="In verse.", temperature=0.9, thinks=False)


def test_what_a_chat_has_of_its_own_goes_with_each_of_its_questions(desk):
    desk.model.set_manner(OWN)
    first = desk.ask("one?")
    desk.client.tell(tokens(first, "Roses "))
    desk.client.tell(finished(first, "Roses ", finish_reason="length"))
    desk.model.go_on(first)
    desk.client.tell(finished(first))
    desk.model.regenerate(first)
    second = desk.model.turns[-1].turn_id
    desk.client.tell(finished(second))
    desk.model.edit(second, "other?")
    third = desk.model.turns[-1].turn_id
    desk.client.tell(finished(third))
    desk.model.search_everything(third)
    assert [ask.manner for ask in desk.asked()] == [OWN] * 5
    desk.client.tell(finished(desk.model.turns[-1].turn_id))
    desk.model.leave_files_out()
    desk.ask("alone?")
    assert (desk.asked()[-1].searches, desk.asked()[-1].manner) == (False, OWN)


def test_a_question_is_asked_again_as_it_was_where_an_engine_has_died_or_was_not_there_yet(desk):
    desk.client.state = "starting"
    desk.model.set_manner(OWN)
    desk.ask()
    desk.model.set_manner(Manner())
    desk.client.become_ready()
    desk.client.die(DEATH)
    desk.client.become_ready()
    assert [ask.manner for ask in desk.asked()] == [OWN, OWN]


def test_a_chat_knows_the_instructions_that_it_was_read_with(desk):
    desk.client.tell(finished(desk.ask(), model=None))
    assert not desk.model.was_read
    desk.client.tell(finished(desk.ask()))
    assert desk.model.was_read
    desk.model.set_manner(OWN)
    assert desk.model.read_with is None
    desk.ask()
    assert desk.model.read_with == OWN.instructions


def test_what_a_chat_has_of_its_own_is_exported_with_it(desk):
    desk.model.set_manner(OWN)
    desk.ask("one?")
    assert "> In verse.\n\n*Settings of this chat: temperature 0.9.*" in desk.model.export_markdown()
