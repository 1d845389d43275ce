"""Tests for app.windows.filter_choices, days_dialog and app.widgets.filter_bar: what a question is confined to."""

from __future__ import annotations

from datetime import date

import pytest
from PySide6.QtCore import QDate, QPoint, QRect, Qt
from PySide6.QtGui import QCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog

from app import theme
from app.windows.days_dialog import DaysDialog
from engine import protocol
from engine.protocol import Collection, Filters, Scope
from tests.helpers.shown_values import passage
from tests.helpers.told_library import tell_library

COLLECTION = Collection("Documents", ("/docs/lease", "/docs/R & D"), {"indexed": 2}, 6)
PDF = Filters(formats=("pdf",))


@pytest.fixture
def bar(window, client):
    tell_library(client, COLLECTION)
    return window.chat.filters


def entries(bar, submenu: str):
    bar.menu.aboutToShow.emit()
    menu = next(action.menu() for action in bar.menu.actions() if action.text() == submenu)
    return {action.text(): action for action in menu.actions() if not action.isSeparator()}


def ask(window, text: str) -> protocol.Ask:
    QTest.keyClicks(window.chat.prompt.field, text)
    QTest.keyClick(window.chat.prompt.field, Qt.Key.Key_Return)
    return window._models.client.asked(protocol.ASK)[-1]


def finish(client, turn_id: str, scope: Scope) -> None:
    found = {"passages": (passage(1),), "quotes": (), "scope": scope}
    timings = protocol.Timings(
        queued_s=0, retrieval_s=0, prefill_s=0, ttft_s=0, total_s=0, prompt_tokens=0, generated_tokens=0
    )
    answer = protocol.Answer(text="Because. [1]", citations=(), model="tiny", finish_reason="stop", **found)
    client.tell(protocol.AnswerFinished(question_id=turn_id, answer=answer, timings=timings))


def test_a_kind_of_file_is_chosen_shown_asked_with_and_taken_away(bar, window, models):
    entries(bar, "Kind of file")["PDF files"].trigger()
    (chip,) = bar.chips()
    assert chip.accessibleName() == "Remove the filter: PDF files"
    assert entries(bar, "Kind of file")["PDF files"].isChecked()
    assert ask(window, "Why?").filters == PDF
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
    assert bar.chips() == ()
    assert models.conversation.filters == Filters()


def test_a_button_does_not_look_pointed_at_once_its_menu_was_closed_elsewhere(bar):
    for where, is_pointed_at in ((bar.button.rect().center(), True), (QPoint(-400, -400), False)):
        bar.button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, True)
        QCursor.setPos(bar.button.mapToGlobal(where))
        bar.menu.popup(bar.button.mapToGlobal(bar.button.rect().bottomLeft()))
        bar.menu.hide()
        assert bar.button.underMouse() is is_pointed_at


def test_the_model_picker_does_not_look_pointed_at_once_its_list_has_closed(window):
    picker = window.chat.model_picker
    picker.open_popup()
    picker.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, True)
    QCursor.setPos(picker.mapToGlobal(QPoint(-400, -400)))
    picker.popup.close()
    assert not picker.underMouse()


def test_choosing_what_to_search_leaves_the_keyboard_with_the_question(bar, window):
    for button in (bar.button, window.chat.model_picker, window.chat.collection_picker):
        assert not button.focusPolicy() & Qt.FocusPolicy.ClickFocus
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_linked_folders_are_offered_and_other_places_can_be_chosen(bar, window, models, monkeypatch):
    offered = entries(bar, "Folder or file")
    assert list(offered) == ["/docs/lease", "/docs/R && D", "Choose a folder…", "Choose files…"]
    offered["/docs/R && D"].trigger()
    entries(bar, "Folder or file")["Choose files…"].trigger()
    (dialog,) = bar.findChildren(QFileDialog)
    dialog.filesSelected.emit(["/docs/lease/a.pdf"])
    dialog.reject()
    assert models.conversation.filters.paths == ("/docs/R & D", "/docs/lease/a.pdf")
    assert [chip.text().strip() for chip in bar.chips()] == ["in R && D", "in a.pdf"]


def test_dates_are_chosen_by_their_usual_names_or_between_two_days(bar, models):
    entries(bar, "Changed")["Last year"].trigger()
    year = date.today().year - 1
    assert models.conversation.filters.changed_until == f"{year}-12-31"
    assert entries(bar, "Changed")["Last year"].isChecked()
    entries(bar, "Changed")["Between two days…"].trigger()
    (dialog,) = bar.findChildren(DaysDialog)
    assert dialog.since.date() == QDate(year, 1, 1)
    dialog.since.setDate(QDate(2025, 6, 1))
    dialog.has_until.setChecked(False)
    dialog.use.click()
    assert models.conversation.filters == Filters(changed_since="2025-06-01")
    entries(bar, "Changed")["Any time"].trigger()
    assert models.conversation.filters == Filters()


@pytest.mark.parametrize("scale", [1.0, 1.8])
def test_days_are_not_cut_whatever_the_font(qtbot, scale):
    theme.appearance().choose("light", scale)
    dialog = DaysDialog(date(2025, 6, 1), date(2025, 1, 1))
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitExposed(dialog)
    line = dialog.since.lineEdit()
    margins = line.textMargins()
    room = line.width() - margins.left() - margins.right()
    assert room > line.fontMetrics().horizontalAdvance(line.text())
    theme.appearance().choose("light")


def test_two_days_in_the_wrong_order_are_put_right(qtbot):
    dialog = DaysDialog(date(2025, 6, 1), date(2025, 1, 1))
    qtbot.addWidget(dialog)
    with qtbot.waitSignal(dialog.chosen) as chosen:
        dialog.use.click()
    assert chosen.args == [date(2025, 1, 1), date(2025, 6, 1)]


def test_chips_belong_to_their_chat_and_come_back_with_it(bar, window, models, client):
    models.conversation.set_filters(PDF)
    asked = ask(window, "Why?")
    models.conversation.set_filters(Filters(changed_since="2025-01-01"))
    window.chat_actions.new_chat()
    assert bar.chips() == ()
    window.chat_actions.open_chat(asked.conversation_id)
    assert [chip.text().strip() for chip in bar.chips()] == ["changed since 2025-01-01"]
    assert models.conversation.turns[0].filters == PDF


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (Scope(1, 1, 1, 1, 1), "Searched 1 chunk in 1 file"),
        (Scope(1, 2, 1, 30, 1), "Searched 30 chunks in 1 file"),
    ],
)
def test_what_was_searched_is_told_as_grammar_has_it(bar, window, client, scope: Scope, words: str):
    finish(client, ask(window, "Why?").question_id, scope)
    (turn,) = window.chat.conversation.turn_views()
    assert words in turn.scope.toolTip()


def test_everything_can_be_searched_instead_with_one_click(bar, window, models, client):
    models.conversation.set_filters(PDF)
    first = ask(window, "Why, in the files of 2024?")
    finish(client, first.question_id, Scope(1, 2, 1, 30, 4, ("changed in 2024",)))
    (turn,) = window.chat.conversation.turn_views()
    assert turn.confined.text() == "Searched: PDF files · From your question: changed in 2024"
    assert "Searched 30 chunks in 4 files" in turn.scope.toolTip()
    turn.everything.click()
    again = client.asked(protocol.ASK)[-1]
    assert (again.text, again.filters) == (first.text, Filters(reads_question=False))
    assert [chip.text().strip() for chip in bar.chips()] == ["PDF files"]
    finish(client, again.question_id, Scope(1, 9, 1))
    (turn,) = window.chat.conversation.turn_views()
    assert not turn.everything.isVisible()
    assert turn.turn.num_branches == 2


def test_in_a_chat_on_a_collection_it_is_said_that_only_that_one_is_searched_instead(bar, window, models, client):
    models.conversation.set_collection("R & D")
    first = ask(window, "Why, in the files of 2024?")
    finish(client, first.question_id, Scope(1, 2, 1, 30, 4, ("changed in 2024",)))
    (turn,) = window.chat.conversation.turn_views()
    assert turn.everything.text() == "Search all of R && D instead"
    assert turn.everything.accessibleName() == "Search all of R & D instead"
    models.conversation.set_collection("A collection with a name that no line has room for")
    assert turn.everything.accessibleName() == "Search all of A collection wit…ne has room for instead"
    models.conversation.set_collection(None)
    assert turn.everything.text() == "Search everything instead"
    models.conversation.set_collection("R & D")
    turn.everything.click()
    assert client.asked(protocol.ASK)[-1].collection == "R & D"


def test_where_no_files_were_searched_the_chats_collection_is_offered(bar, window, models, client):
    models.conversation.set_collection("R & D")
    models.conversation.leave_files_out()
    models.conversation.ask("Say hello.")
    (asked,) = client.asked(protocol.ASK)
    assert not asked.searches
    finish(client, asked.question_id, Scope(0, 0, 0))
    (turn,) = window.chat.conversation.turn_views()
    assert turn.everything.accessibleName() == "Search R & D instead"
    turn.everything.click()
    again = client.asked(protocol.ASK)[-1]
    assert (again.searches, again.collection) == (True, "R & D")


def test_how_much_of_a_long_document_was_read_is_said_under_its_summary_and_when_the_chat_is_opened_again(
    bar, window, client
):
    asked = ask(window, "Summarise lease.pdf")
    finish(client, asked.question_id, Scope(18, 96, 1, 96, 1, ("only “lease.pdf”",), reads_through=True))
    (turn,) = window.chat.conversation.turn_views()
    told = turn.scope.text()
    assert told.startswith("read 18 of 96 passages of ")
    window.chat_actions.new_chat()
    window.chat_actions.open_chat(asked.conversation_id)
    (turn,) = window.chat.conversation.turn_views()
    assert turn.scope.text() == told


def test_what_was_put_to_the_model_alone_can_be_searched_for_instead(window, models, client):
    models.conversation.leave_files_out()
    first = ask(window, "Why?")
    finish(client, first.question_id, Scope(0, 0, 0))
    (turn,) = window.chat.conversation.turn_views()
    assert turn.everything.isVisible()
    turn.everything.click()
    again = client.asked(protocol.ASK)[-1]
    assert (again.text, again.searches) == ("Why?", True)


def test_a_follow_up_says_what_it_was_searched_with_and_can_be_searched_for_alone(window, models, client):
    first = ask(window, "Who pays for repairs?")
    finish(client, first.question_id, Scope(1, 2, 1, 30, 4))
    follow_up = ask(window, "And in case of fire?")
    together = "together with the question before"
    finish(client, follow_up.question_id, Scope(1, 2, 1, 30, 4, (together, "only “lease.pdf”")))
    before, turn = window.chat.conversation.turn_views()
    assert not before.confined.isVisible()
    assert turn.confined.text() == f"From your question: {together} · only “lease.pdf”"
    turn.everything.click()
    again = client.asked(protocol.ASK)[-1]
    assert (again.text, again.transcript) == (follow_up.text, follow_up.transcript)
    assert again.filters == Filters(reads_question=False)


def is_in_sight(bar, chip) -> bool:
    return bar.viewport().rect().contains(QRect(chip.mapTo(bar.viewport(), QPoint(0, 0)), chip.size()))


@pytest.mark.parametrize("scale", [1.0, 1.6])
def test_many_chips_go_on_in_the_next_line_and_below_three_lines_they_are_scrolled(bar, window, models, qtbot, scale):
    theme.appearance().choose("light", scale)
    window.resize(760, 520)
    models.conversation.set_filters(Filters(paths=tuple(f"/docs/a folder with number {n}" for n in range(40))))
    qtbot.waitUntil(lambda: 2 * bar.button.height() < bar.height() == bar.sizeHint().height())
    assert bar.widget().layout().num_lines > 3
    assert bar.height() <= 3 * bar.button.height() + 12
    card = window.chat.prompt
    assert card.rect().contains(bar.geometry())
    assert not is_in_sight(bar, bar.chips()[-1])
    bar.button.setFocus()
    for chip in bar.chips():
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
        assert window.focusWidget() is chip
        assert is_in_sight(bar, chip)


def test_a_long_name_is_cut_where_its_cross_would_be_out_of_sight(bar, window, models, qtbot):
    window.resize(1000, 700)
    models.conversation.set_filters(Filters(paths=("/docs/Quarterly reports & the board 2024",)))
    models.conversation.ask("Why?")
    (chip,) = bar.chips()
    qtbot.waitUntil(lambda: is_in_sight(bar, chip))
    assert chip.text().strip() == "in Quarterly reports && the board 2024"
    theme.appearance().choose("light", 1.6)
    window.resize(760, 520)
    qtbot.waitUntil(lambda: "…" in chip.text())
    qtbot.waitUntil(lambda: is_in_sight(bar, chip))
    assert chip.width() >= chip.sizeHint().width()
    theme.appearance().choose("light")
    window.resize(1000, 700)
    qtbot.waitUntil(lambda: "…" not in chip.text())
