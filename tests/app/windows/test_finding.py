"""Tests for finding something in the open chat."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app import theme
from app.chats.errors import ChatsUnusable
from app.chats.records import Outcome
from engine import protocol

CTRL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier
NUM_TURNS = 60


def add_chat(models, title: str, answers: list[str]) -> str:
    store = models.conversation._store
    chat = store.create_conversation(title)
    parent = None
    for number, answer in enumerate(answers):
        turn = store.add_turn(chat.conversation_id, parent, f"Question {number}?")
        store.record(turn.turn_id, Outcome(state="finished", text=answer, model="tiny"))
        parent = turn.turn_id
    models.chat_list.refresh()
    return chat.conversation_id


@pytest.fixture
def long_chat(window, models) -> str:
    """Sixty turns, of which the second, the fortieth and the last one speak of a needle."""
    answers = [f"Answer {number}.\n\n" + "Hay. " * 200 for number in range(NUM_TURNS)]
    for number in (1, 39, NUM_TURNS - 1):
        answers[number] += "\n\nA **Née**dle here."
    chat = add_chat(models, "Haystack", answers)
    window.chat_actions.open_chat(chat)
    settle()
    return chat


def settle() -> None:
    for _ in range(8):
        QApplication.processEvents()


def wait_until_looked_through(window) -> None:
    finding = window.chat._finding
    while finding is not None and finding._is_looking:
        QApplication.processEvents()
    settle()


def bar_of(window):
    return window.chat._finding._bar


def look_for(window, text: str) -> None:
    QTest.keyClick(window, Qt.Key.Key_F, CTRL)
    bar_of(window).field.setText(text)
    QTest.keyClick(bar_of(window).field, Qt.Key.Key_Return)
    wait_until_looked_through(window)


def question_at(window, models) -> str:
    """The question of the turn that the match one is at stands in."""
    turn_id, _ = window.chat._finding._at
    return models.conversation.turn(turn_id).question


def is_in_sight(window) -> bool:
    view = window.chat.conversation
    turn_id, _ = window.chat._finding._at
    text, place = view.widget_of(turn_id).place_found()
    top = text.mapTo(view.viewport(), place.topLeft()).y()
    return 0 <= top <= view.viewport().height() - place.height()


def test_ctrl_f_opens_a_line_in_which_one_finds_something(window, models, long_chat):
    look_for(window, "needle")
    bar = bar_of(window)
    assert bar.isVisible()
    assert bar.field.hasFocus() or window.focusWidget() is bar.field
    assert bar.place.text() == "3 of 3"
    assert (question_at(window, models), is_in_sight(window)) == ("Question 59?", True)


def test_turns_that_are_no_widgets_yet_are_brought_in(window, models, long_chat):
    look_for(window, "needle")
    bar, view = bar_of(window), window.chat.conversation
    for key, modifier, question, place in (
        (Qt.Key.Key_Return, SHIFT, "Question 39?", "2 of 3"),
        (Qt.Key.Key_Return, SHIFT, "Question 1?", "1 of 3"),
        (Qt.Key.Key_Return, SHIFT, "Question 59?", "3 of 3"),
        (Qt.Key.Key_F3, NONE, "Question 1?", "1 of 3"),
        (Qt.Key.Key_F3, NONE, "Question 39?", "2 of 3"),
        (Qt.Key.Key_F3, SHIFT, "Question 1?", "1 of 3"),
    ):
        QTest.keyClick(bar.field, key, modifier)
        settle()
        assert (question_at(window, models), bar.place.text()) == (question, place)
        assert is_in_sight(window)
        assert len(view.turn_views()) <= 40
    assert [turn.turn.turn_id for turn in view.turn_views()] == [
        turn.turn_id for turn in models.conversation.turns[: len(view.turn_views())]
    ]


def test_questions_and_code_are_found_as_well(window, models):
    window.chat_actions.open_chat(add_chat(models, "Code", ["```\nx = question\n```"]))
    look_for(window, "QUESTION")
    assert bar_of(window).place.text() == "1 of 2"


def test_what_is_not_there_is_said(window, long_chat):
    look_for(window, "thimble")
    bar = bar_of(window)
    assert (bar.place.text(), bar.next.isEnabled(), bar.before.isEnabled()) == ("Not found", False, False)
    bar.field.setText("")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert bar.place.text() == ""


def test_escape_closes_the_line_takes_the_marks_and_gives_the_keyboard_back(window, models, long_chat):
    look_for(window, "needle")
    QTest.keyClick(bar_of(window).field, Qt.Key.Key_Escape)
    assert not bar_of(window).isVisible()
    assert window.focusWidget() is window.chat.prompt.field
    view = window.chat.conversation.turn_views()[-1]
    assert not any(text.extraSelections() for text in view.markdown.texts())
    look_for(window, "needle")
    window.chat.prompt.setFocus()
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert not bar_of(window).isVisible()


def test_what_was_being_typed_when_the_line_was_closed_is_not_looked_for_any_more(window, long_chat, qtbot):
    look_for(window, "needle")
    QTest.keyClicks(bar_of(window).field, "s")
    QTest.keyClick(bar_of(window).field, Qt.Key.Key_Escape)
    with qtbot.assert_not_emitted(bar_of(window).sought, wait=2 * bar_of(window)._typing.interval()):
        settle()
    assert not bar_of(window).isVisible()


def test_what_is_written_meanwhile_is_found_too(window, models, client, qtbot):
    window.chat_actions.open_chat(add_chat(models, "Growing", ["A needle."]))
    look_for(window, "needle")
    models.conversation.ask("More?")
    turn_id = models.conversation.turns[-1].turn_id
    client.tell(protocol.AnswerTokens(question_id=turn_id, text="Another needle."))
    qtbot.wait_until(lambda: bar_of(window).place.text() == "1 of 2")
    view = window.chat.conversation.widget_of(turn_id)
    qtbot.wait_until(lambda: bool(view.markdown.texts()))
    window.chat._finding._look_again()
    assert view.markdown.texts()[0].extraSelections()


@pytest.fixture
def made_bare(monkeypatch) -> list[str]:
    """The texts that are made ready for being compared."""
    from app.widgets import turn_texts

    texts: list[str] = []
    bare = turn_texts.bare

    def recorded(text: str) -> str:
        texts.append(text)
        return bare(text)

    monkeypatch.setattr(turn_texts, "bare", recorded)
    return texts


def test_a_turn_that_is_as_before_is_not_read_again_for_other_words_or_while_another_one_is_written(
    window, models, client, long_chat, made_bare, qtbot
):
    look_for(window, "needle")
    assert any("Answer 39." in text for text in made_bare)
    models.conversation.ask("More?")
    qtbot.wait_until(lambda: "More?" in made_bare)
    made_bare.clear()
    turn_id = models.conversation.turns[-1].turn_id
    client.tell(protocol.AnswerTokens(question_id=turn_id, text="Another needle."))
    qtbot.wait_until(lambda: bar_of(window).place.text() == "3 of 4")
    look_for(window, "needle here")
    assert bar_of(window).place.text() == "3 of 3"
    assert not any("Answer" in text or "Question" in text for text in made_bare)


def test_a_long_chat_is_looked_through_a_little_at_a_time(window, models, long_chat, monkeypatch):
    monkeypatch.setattr("app.windows.finding._STEP_S", 0)
    QTest.keyClick(window, Qt.Key.Key_F, CTRL)
    bar = bar_of(window)
    bar.field.setText("needle")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert (bar.place.text(), bar.next.isEnabled()) == ("Searching…", False)
    wait_until_looked_through(window)
    assert (bar.place.text(), question_at(window, models)) == ("3 of 3", "Question 59?")


def test_looking_ends_when_something_else_is_looked_for_or_nothing_any_more(window, models, long_chat, monkeypatch):
    monkeypatch.setattr("app.windows.finding._STEP_S", 0)
    QTest.keyClick(window, Qt.Key.Key_F, CTRL)
    bar = bar_of(window)
    for words in ("thimble", "needle"):
        bar.field.setText(words)
        QTest.keyClick(bar.field, Qt.Key.Key_Return)
    wait_until_looked_through(window)
    assert bar.place.text() == "3 of 3"
    bar.field.setText("needle here")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    wait_until_looked_through(window)
    assert not bar.isVisible()
    view = window.chat.conversation.turn_views()[-1]
    assert not any(text.extraSelections() for text in view.markdown.texts())


def test_what_comes_while_a_chat_is_looked_through_is_found_as_well(
    window, models, client, long_chat, monkeypatch, qtbot
):
    monkeypatch.setattr("app.windows.finding._STEP_S", 0)
    QTest.keyClick(window, Qt.Key.Key_F, CTRL)
    bar_of(window).field.setText("needle")
    QTest.keyClick(bar_of(window).field, Qt.Key.Key_Return)
    models.conversation.ask("Another needle?")
    qtbot.wait_until(lambda: bar_of(window).place.text().endswith("of 4"))


def test_in_another_chat_something_else_is_looked_for(window, models, long_chat):
    look_for(window, "needle")
    window.chat_actions.open_chat(add_chat(models, "Other", ["A needle."]))
    assert not bar_of(window).isVisible()


def test_a_chat_that_was_searched_for_opens_at_what_was_found(window, models, long_chat):
    window.chat_actions.new_chat()
    search(window, "here")
    assert bar_of(window).isVisible()
    assert (bar_of(window).text, bar_of(window).place.text()) == ("here", "1 of 3")
    assert (question_at(window, models), is_in_sight(window)) == ("Question 1?", True)


def search(window, text: str) -> None:
    """Searches the list of chats and opens the first one."""
    window.chats.search.setText(text)
    QTest.keyClick(window.chats.search, Qt.Key.Key_Return)
    window.chats.list.clicked.emit(window.chats.list.model().index(0, 0))
    wait_until_looked_through(window)


def test_of_words_that_stand_apart_the_longest_one_is_gone_to(window, models, long_chat):
    window.chat_actions.new_chat()
    search(window, "here answer")
    assert (bar_of(window).text, question_at(window, models)) == ("answer", "Question 0?")


def test_a_chat_that_was_found_by_its_title_opens_as_ever(window, models, long_chat):
    window.chat_actions.new_chat()
    search(window, "haystack")
    assert window.chat._finding is None or not bar_of(window).isVisible()
    assert models.conversation.conversation_id == long_chat


def test_a_chat_that_cannot_be_read_is_not_looked_through(window, models, long_chat, monkeypatch):
    add_chat(models, "Unread", ["A thimble here."])

    def fail(_conversation_id: str) -> None:
        raise ChatsUnusable("The chats cannot be used just now.", "Try again.")

    monkeypatch.setattr(models.conversation._store, "turns", fail)
    search(window, "thimble")
    assert models.conversation.conversation_id == long_chat
    assert window.chat._finding is None


def test_an_empty_chat_and_other_pages_have_nothing_to_find(window, models, long_chat):
    window.go_to("library")
    QTest.keyClick(window, Qt.Key.Key_F, CTRL)
    assert window.chat._finding is None
    window.chat_actions.new_chat()
    QTest.keyClick(window, Qt.Key.Key_F, CTRL)
    QTest.keyClick(window, Qt.Key.Key_F3)
    assert window.chat._finding is None


def test_marks_have_the_colours_of_the_theme(window, models):
    window.chat_actions.open_chat(add_chat(models, "Growing", ["A needle, a needle."]))
    look_for(window, "needle")
    theme.appearance().choose("dark")
    settle()
    (text,) = window.chat.conversation.turn_views()[0].markdown.texts()
    _, second = text.extraSelections()
    assert second.format.background().color().name() == theme.DARK.mark
    assert second.cursor.selectedText() == "needle"


def test_a_match_in_a_long_line_of_code_is_brought_into_sight(window, models):
    window.chat_actions.open_chat(add_chat(models, "Wide", ["```\n" + "x" * 400 + " needle\n```"]))
    look_for(window, "needle")
    (text,) = window.chat.conversation.turn_views()[0].markdown.texts()
    place = text.place_of(0)
    assert text.viewport().rect().contains(QPoint(place.left(), place.center().y()))


def test_the_line_is_named_for_screen_readers(window, long_chat):
    look_for(window, "needle")
    bar = bar_of(window)
    named = (bar.field, bar.before, bar.next, bar.close_button)
    assert all(widget.accessibleName() for widget in named)
