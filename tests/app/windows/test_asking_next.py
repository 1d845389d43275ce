"""Tests for app.windows.asking_next: waiting questions and the context, through the window."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.models import AppModels
from app.models.waiting_questions import MOST_WAITING
from app.windows import closing
from app.windows.main_window import MainWindow
from engine import protocol
from engine.protocol import ContextUse, Scope
from tests.helpers.answers import finished
from tests.helpers.shown_values import passage


def enter(window, text: str) -> None:
    window.chat.prompt.set_text(text)
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)


def last(models) -> str:
    return models.conversation.turns[-1].turn_id


def questions(models) -> list[str]:
    return [turn.question for turn in models.conversation.turns]


def with_use(turn_id: str, use: ContextUse) -> protocol.AnswerFinished:
    notice = finished(turn_id)
    return notice.model_copy(update={"timings": notice.timings.model_copy(update={"context": use})})


@pytest.fixture
def shown(window, models):
    """The list above the prompt, with two questions behind a running answer."""
    for text in ("First?", "Second & last?", "Third?"):
        enter(window, text)
    QApplication.processEvents()
    return window.chat.asking_next.waiting_list


def test_a_question_is_taken_while_an_answer_is_written_and_asked_when_it_is_done(window, models, client, shown, qtbot):
    assert window.chat.prompt.text == ""
    assert shown.isVisible()
    assert shown.notes == ("Asked next, when this answer is done", "Asked after that")
    assert [text.text() for text in shown.texts] == ["Second && last?", "Third?"]
    assert not shown.ask_button(0).isVisible()
    assert questions(models) == ["First?"]
    client.tell(finished(last(models)))
    qtbot.waitUntil(lambda: questions(models) == ["First?", "Second & last?"])
    assert shown.notes == ("Asked next, when this answer is done",)
    client.tell(finished(last(models)))
    qtbot.waitUntil(lambda: len(questions(models)) == 3)
    assert not shown.isVisible()


def test_escape_stops_the_answer_alone_and_the_waiting_questions_offer_to_be_asked(
    window, models, client, shown, qtbot
):
    first = last(models)
    QTest.keyClick(window, Qt.Key.Key_Escape)
    client.tell(protocol.AnswerCancelled(question_id=first))
    qtbot.waitUntil(lambda: shown.ask_button(0).isVisible())
    assert shown.notes[0] == "Not asked, because the answer before it was not completed."
    assert shown.ask_button(0).text() == "Ask now"
    assert questions(models) == ["First?"]
    shown.ask_button(0).setFocus()
    shown.ask_button(0).click()
    assert questions(models) == ["First?", "Second & last?"]
    assert shown.notes == ("Asked next, when this answer is done",)
    # The button is gone; the focus is where the next question is written.
    assert window.focusWidget() is window.chat.prompt.field


def test_while_another_answer_runs_a_held_question_offers_to_be_asked_next(window, models, client, shown, qtbot):
    window.chat.stop()
    client.tell(protocol.AnswerCancelled(question_id=last(models)))
    qtbot.waitUntil(lambda: shown.ask_button(0).isVisible())
    models.conversation.regenerate(last(models))
    assert shown.ask_button(0).text() == "Ask next"
    shown.ask_button(0).click()
    assert not shown.ask_button(0).isVisible()


def test_a_click_puts_a_waiting_question_back_and_what_is_being_written_stays(window, models, shown):
    window.chat.prompt.set_text("A draft")
    shown.texts[0].click()
    assert window.chat.prompt.text == "Second & last?\n\nA draft"
    assert [one.text for one in models.waiting.shown] == ["Third?"]
    assert window.focusWidget() is window.chat.prompt.field
    shown.remove_button(0).click()
    assert models.waiting.shown == ()
    assert not shown.isVisible()


def test_one_too_many_stays_in_the_prompt_and_says_why(window, models):
    for number in range(MOST_WAITING + 1):
        enter(window, f"Question {number}?")
    enter(window, "One too many?")
    assert window.chat.prompt.text == "One too many?"
    assert "20 questions are waiting in this chat already." in window.message_bar.sentence


def test_waiting_questions_stay_with_their_chat_and_come_back_at_the_next_start(
    window, models, client, store, shown, qtbot
):
    first = models.conversation.conversation_id
    window.chat_actions.new_chat()
    assert not shown.isVisible()
    window.chat_actions.open_chat(first)
    assert shown.isVisible()
    # Kept at once, not only when the window is closed.
    assert closing.waiting_in(models.settings.settings.unsent_waiting) == {first: ("Second & last?", "Third?")}
    window.close()
    models.close()
    QApplication.processEvents()

    again = AppModels(client, models._chat_store, models.settings, None, models.pasted_folder)
    later = MainWindow()
    qtbot.addWidget(later)
    later.attach(again)
    chats = later.chats.list.model()
    assert chats.index(0, 0).data(Qt.ItemDataRole.AccessibleDescriptionRole) == "Unsent text"
    later.chat_actions.open_chat(first)
    made = later.chat.asking_next.waiting_list
    assert [text.text() for text in made.texts] == ["Second && last?", "Third?"]
    assert made.ask_button(0).text() == "Ask now"
    assert questions(again) == ["First?"]
    made.ask_button(0).click()
    assert closing.waiting_in(again.settings.settings.unsent_waiting) == {first: ("Third?",)}
    again.close()


def test_waiting_questions_of_a_deleted_chat_are_not_taken_again(window, models, client, shown, qtbot):
    models.chat_list.delete(models.conversation.conversation_id)
    later = MainWindow()
    qtbot.addWidget(later)
    again = AppModels(client, models._chat_store, models.settings, None, models.pasted_folder)
    later.attach(again)
    assert again.waiting.texts == {}
    again.close()


@pytest.mark.parametrize("text", ["{", "[1]", '"a"', '{"a": "b"}', '{"a": [1, " ", null]}', '{"a": {"b": "c"}}'])
def test_waiting_questions_that_are_none_of_ours_are_none(text):
    assert closing.waiting_in(text) == {}


def test_the_ring_shows_how_full_the_context_was_with_the_last_answer(window, models, client):
    use = ContextUse(8192, instructions=210, passages=1900, conversation=700, answer=390, reserve=1024)
    enter(window, "First?")
    client.tell(with_use(last(models), use))
    ring = window.chat.asking_next.context_ring
    assert ring.isVisible()
    assert ring.accessibleName() == "3,200 of 8,192 tokens of the context were in use after the last answer"
    for line in ("Passages from your files: 1,900", "Conversation: 700", "Kept free for an answer: 1,024"):
        assert line in ring.toolTip().splitlines()
    # While the next one is written, and where it has none, the figures stay; a chat without answers has none.
    enter(window, "Second?")
    client.tell(protocol.AnswerCancelled(question_id=last(models)))
    assert ring.isVisible()
    first = models.conversation.conversation_id
    window.chat_actions.new_chat()
    assert not ring.isVisible()
    # They are stored with the answer.
    window.chat_actions.open_chat(first)
    assert ring.isVisible()
    assert ring.accessibleName().startswith("3,200 of 8,192")


def test_an_answer_says_that_the_oldest_questions_are_no_longer_read(window, models, client):
    enter(window, "First?")
    client.tell(with_use(last(models), ContextUse(8192, conversation=4000, turns_left_out=4)))
    view = window.chat.conversation.widget_of(last(models))
    assert view._note.text() == "The oldest 4 questions are no longer read by the model."
    assert view._note.isVisible()
    assert "A larger “Context length”" in window.chat.asking_next.context_ring.toolTip()
    enter(window, "Second?")
    client.tell(with_use(last(models), ContextUse(8192, conversation=4000, turns_left_out=1)))
    assert window.chat.conversation.widget_of(last(models))._note.text() == (
        "The oldest question is no longer read by the model."
    )


def test_quotes_fill_no_context(window, models, client):
    enter(window, "First?")
    client.tell(finished(last(models), model=None))
    assert "context_ring" not in window.chat.asking_next.__dict__


def test_who_has_scrolled_up_stays_there_when_a_waiting_question_is_asked(window, models, client, qtbot):
    enter(window, "First?")
    client.tell(finished(last(models), "A long answer. " * 2_000))
    for text in ("Second?", "Third?"):
        enter(window, text)
    QApplication.processEvents()
    view = window.chat.conversation
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() > 0)
    view.verticalScrollBar().setValue(0)
    assert not view.is_following
    client.tell(finished(last(models)))
    qtbot.waitUntil(lambda: questions(models) == ["First?", "Second?", "Third?"])
    QApplication.processEvents()
    assert view.verticalScrollBar().value() == 0
    assert [widget.turn.question for widget in view.turn_views()] == questions(models)


def test_a_page_that_is_being_read_stays_open_when_a_waiting_question_is_asked(window, models, client, shown, qtbot):
    answering = last(models)
    passages = (passage(1),)
    client.tell(protocol.AnswerFound(question_id=answering, passages=passages, quotes=(), scope=Scope(1, 1, 1)))
    models.sources.open_passage(0)
    assert models.sources.selected == 0
    client.tell(finished(answering, passages=passages))
    qtbot.waitUntil(lambda: len(questions(models)) == 2)
    assert (models.sources.selected, models.sources.turn_id) == (0, answering)
