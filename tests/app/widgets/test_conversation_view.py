"""Tests for app.widgets.conversation_view and app.widgets.turn_widget."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QKeySequence, QMouseEvent, QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app import theme
from app.models.standings import HERE, Standing
from app.models.turns import after, going_on
from app.widgets.conversation_view import ConversationView
from app.widgets.prompt_edit import LONG_CHARACTERS, MAX_CHARACTERS
from app.widgets.turn_column import MAX_TURN_WIDGETS
from app.widgets.turn_sentences import scope_sentence, timing_sentence
from engine import protocol
from engine.protocol import Filters, Scope
from tests.helpers.shown_values import passage, quote, turn


@pytest.fixture
def view(qtbot):
    made = ConversationView()
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


def settle(times: int = 5) -> None:
    for _ in range(times):
        QApplication.processEvents()


def shown(view) -> list[str]:
    return [widget.turn.turn_id for widget in view.turn_views()]


def scroll_to(view, end: str, until) -> None:
    """Drags the scroll bar to "top" or "bottom" again and again, as whoever reads a long chat does."""
    bar = view.verticalScrollBar()
    for _ in range(60):
        if until():
            return
        bar.setValue(0 if end == "top" else bar.maximum())
        settle()
        assert len(view.turn_views()) <= MAX_TURN_WIDGETS == 40
    raise AssertionError(f"never came to the {end}: {shown(view)}")


def test_a_long_conversation_begins_with_its_newest_turns_and_never_has_more_than_forty_widgets(view):
    view.show_turns([turn(number) for number in range(120)])
    settle()
    assert shown(view)[-1] == "t119"
    scroll_to(view, "top", lambda: shown(view)[0] == "t0")
    assert len(view.turn_views()) == MAX_TURN_WIDGETS
    scroll_to(view, "bottom", lambda: shown(view)[-1] == "t119")


def test_larger_text_is_shown_whole(view):
    look = theme.appearance()
    look.choose("light")
    text = "A paragraph with some words in it. " * 20 + "\n\n```python\nx = 1\ny = 2\n```"
    view.show_turns([replace(turn(1, text=text), question="What notice applies to the lease? " * 8)])
    settle()
    (widget,) = view.turn_views()
    parts = (widget.bubble, *widget.markdown.block_views())
    before = [part.height() for part in parts]
    look.choose("light", 2.0)
    settle()
    prose = parts[1]
    assert prose.height() >= prose.document().size().height()
    assert all(part.height() > 1.3 * height for part, height in zip(parts, before, strict=True))
    look.choose("light")
    settle()
    assert [part.height() for part in parts] == before


def test_turns_that_do_not_fill_a_tall_window_are_joined_by_older_ones(view, qtbot):
    view.resize(700, 3000)
    view.show_turns([turn(number) for number in range(100)])
    qtbot.waitUntil(lambda: view.verticalScrollBar().maximum() > 120)
    settle()
    assert shown(view)[-1] == "t99"
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()


def test_what_was_read_stays_in_place_when_older_turns_come(view):
    view.show_turns([turn(number) for number in range(100)])
    settle()
    bar = view.verticalScrollBar()
    bar.setValue(100)
    anchor = view.turn_views()[0]
    where = anchor.y() - bar.value()
    settle()
    assert view.turn_views()[0] is not anchor
    assert abs((anchor.y() - bar.value()) - where) <= 2


def test_a_new_turn_keeps_the_widgets_of_the_old_ones(view):
    turns = [turn(number) for number in range(3)]
    view.show_turns(turns)
    before = view.turn_views()
    view.show_turns([*turns, turn(3)])
    assert view.turn_views()[:3] == before


def test_another_conversation_replaces_all(view):
    view.show_turns([turn(number) for number in range(3)])
    view.show_turns([turn(number) for number in range(10, 12)])
    assert shown(view) == ["t10", "t11"]


def test_streaming_keeps_the_end_in_sight(view, qtbot):
    open_turn = turn(1, state="writing", text="")
    view.show_turns([open_turn])
    for _ in range(40):
        open_turn = replace(open_turn, text=f"{open_turn.text}A paragraph.\n\n")
        view.append_text(open_turn, "A paragraph.\n\n")
    bar = view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 200)
    settle()
    assert bar.value() == bar.maximum()


def test_who_scrolls_up_while_it_streams_is_left_alone(view, qtbot):
    open_turn = turn(1, state="writing", text="A paragraph.\n\n" * 60)
    view.show_turns([open_turn])
    bar = view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 200)
    settle()
    bar.setValue(bar.maximum() // 2)
    where = bar.value()
    assert not view.is_following
    open_turn = replace(open_turn, text=open_turn.text + "More. " * 200)
    view.append_text(open_turn, "More. " * 200)
    view.turn_views()[-1].markdown.finish()
    settle()
    assert bar.value() == where
    bar.setValue(bar.maximum())
    assert view.is_following


def test_wishes_say_which_turn_they_are_about(view, qtbot):
    view.show_turns([turn(1, passages=(passage(1), passage(2)), quotes=(quote(1),), scope=Scope(2, 9, 2))])
    widget = view.widget_of("t1")
    with qtbot.waitSignal(view.retry_wanted) as retried:
        widget.regenerate.click()
    assert retried.args == ["t1"]
    with qtbot.waitSignal(view.source_wanted) as wanted:
        widget.markdown.citation_clicked.emit(2)
    assert wanted.args == ["t1", 1]
    with qtbot.waitSignal(view.source_wanted) as wanted:
        widget.quotes.opened.emit(1)
    assert wanted.args == ["t1", 1]
    with qtbot.waitSignal(view.selected) as selected:
        widget.scope.click()
    assert selected.args == ["t1"]


@pytest.mark.parametrize(
    ("state", "words"),
    [("queued", "Waiting…"), ("searching", "Searching…"), ("reading", "Reading 2 passages…"), ("writing", "Writing…")],
)
def test_the_state_is_said_in_words(view, state, words):
    text = "Three" if state == "writing" else ""
    view.show_turns([turn(1, state=state, text=text, passages=(passage(1), passage(2)))])
    assert view.widget_of("t1").state_sentence == words


def test_an_answer_of_which_there_is_no_word_yet_is_being_read_for(view):
    writing = turn(1, state="writing", text="", passages=(passage(1),))
    view.show_turns([writing])
    widget = view.widget_of("t1")
    assert widget.state_sentence == "Reading 1 passage…"
    view.append_text(replace(writing, text="Three"), "Three")
    assert widget.state_sentence == "Writing…"


def test_a_conversation_stands_in_the_middle_with_and_without_a_scroll_bar(view, qtbot):
    view.resize(1100, 500)
    left = []
    for number_of_turns in (1, 30):
        view.show_turns([turn(number) for number in range(number_of_turns)])
        qtbot.waitUntil(lambda: bool(view.verticalScrollBar().maximum()) is (len(left) > 0))
        settle()
        left.append(view.turn_views()[-1].mapTo(view, QPoint(0, 0)).x())
    assert left[0] == left[1]
    assert left[0] == pytest.approx(170, abs=1)


def test_a_queued_turn_says_how_many_are_before_it(view):
    view.show_turns([turn(1, state="queued", text="", ahead=3)])
    assert "3" in view.widget_of("t1").state_sentence


def test_quotes_are_there_before_the_answer_and_fold_when_it_is_written(view):
    found = turn(1, state="reading", text="", passages=(passage(1),), quotes=(quote(0),))
    view.show_turns([found])
    quotes = view.widget_of("t1").quotes
    assert quotes.isVisible()
    assert quotes.is_open
    view.update_turn(replace(found, state="finished", text="Written. [1]"))
    assert not quotes.is_open


def test_quotes_of_an_answer_that_was_written_before_are_folded_until_somebody_opens_them(view):
    written = turn(1, text="Written. [1]", passages=(passage(1),), quotes=(quote(0),))
    view.show_turns([written])
    quotes = view.widget_of("t1").quotes
    assert not quotes.is_open
    quotes.set_open(True)
    view.update_turn(replace(written, num_branches=3))
    assert quotes.is_open


def test_without_a_model_the_quotes_are_the_answer(view):
    view.show_turns([turn(1, text="> Quote. [1]", model=None, passages=(passage(1),), quotes=(quote(0),))])
    widget = view.widget_of("t1")
    assert widget.quotes.is_open
    assert not widget.markdown.isVisible()


def test_a_failure_says_why_and_offers_another_try(view, qtbot):
    view.show_turns([turn(1, state="failed", text="Half an ans", error_sentence="The engine ended.")])
    widget = view.widget_of("t1")
    assert widget.outcome.sentence == "The engine ended."
    assert widget.markdown.text == "Half an ans"
    with qtbot.waitSignal(view.retry_wanted):
        widget.outcome.retry_wanted.emit()


def test_a_stopped_answer_keeps_its_text(view):
    view.show_turns([turn(1, state="cancelled", text="Half an ans")])
    widget = view.widget_of("t1")
    assert "stopped" in widget.outcome.sentence
    assert widget.markdown.text == "Half an ans"


def test_branches_are_counted_and_switched(view, qtbot):
    view.show_turns([turn(1, branch_index=0, num_branches=2)])
    widget = view.widget_of("t1")
    assert not widget.earlier.isEnabled()
    with qtbot.waitSignal(view.branch_wanted) as wanted:
        widget.later.click()
    assert wanted.args == ["t1", 1]


def test_more_answers_can_be_had_of_a_model_and_not_of_quotes(view, qtbot):
    view.show_turns([turn()])
    (widget,) = view.turn_views()
    with qtbot.waitSignal(view.more_wanted) as signal:
        widget.more.click()
    assert signal.args == ["t1", 3]
    view.update_turn(turn(model=None, quotes=(quote(0),)))
    assert widget.more.isHidden()
    view.update_turn(turn(state="failed", error_sentence="It failed."))
    assert widget.more.isHidden()


def test_an_answer_that_had_no_more_room_says_so_and_can_go_on(view, qtbot):
    view.show_turns(
        [turn(n, finish_reason=reason, passages=(passage(1),)) for n, reason in ((1, "length"), (2, "stop"))]
    )
    outcome = view.widget_of("t1").outcome
    assert outcome.sentence.startswith("The answer was cut off. Continue it,")
    assert view.widget_of("t2").outcome.isHidden()
    with qtbot.waitSignal(view.go_on_wanted) as wanted:
        outcome.go_on.click()
    assert wanted.args == ["t1"]


def test_only_a_model_goes_on_with_an_answer(view):
    view.show_turns([turn(1, finish_reason="length"), turn(2, state="cancelled", text="Half"), turn(3, state="failed")])
    outcomes = [widget.outcome for widget in view.turn_views()]
    assert not any(outcome.go_on.isHidden() for outcome in outcomes)
    view.show_model(False)
    assert all(outcome.go_on.isHidden() for outcome in outcomes)
    assert (
        outcomes[0].sentence
        == "The answer was cut off. Raise “Maximum answer length” or “Context length” in the settings."
    )
    view.show_model(True)
    assert not any(outcome.go_on.isHidden() for outcome in outcomes)


def test_what_has_no_words_cannot_go_on(view):
    view.show_turns(
        [turn(1, state="cancelled", text=""), turn(2, state="failed", text="", error_sentence="It failed.")]
    )
    assert all(widget.outcome.go_on.isHidden() for widget in view.turn_views())


def test_an_answer_that_goes_on_grows_where_it_is(view, qtbot):
    cut = turn(1, finish_reason="length", text="Half an", passages=(passage(1),))
    view.show_turns([cut])
    (widget,) = view.turn_views()
    begun = going_on(cut)
    view.update_turn(begun)
    assert (widget.outcome.isHidden(), widget.state_sentence) == (True, "Waiting…")
    view.update_turn(replace(begun, state="writing"))
    view.append_text(replace(begun, state="writing", text="Half an answer"), " answer")
    assert widget.state_sentence == "Writing…"
    qtbot.waitUntil(lambda: "Half an answer" in widget.markdown.block_views()[0].toPlainText())
    assert view.turn_views() == (widget,)


@pytest.mark.parametrize(
    ("num_alike", "words"),
    [
        (0, ""),
        (1, "3 answers were written; duplicates are shown once."),
        (2, "All 3 answers are the same. A higher temperature in the settings makes them differ."),
    ],
)
def test_answers_that_came_out_alike_are_told_of(view, num_alike, words):
    view.show_turns([turn(num_answers=3, num_alike=num_alike, passages=(passage(1),))])
    (widget,) = view.turn_views()
    assert widget._note.text() == words
    assert widget._note.isHidden() == (not words)


def test_beams_that_came_out_alike_are_no_answers_that_somebody_asked_for(view):
    view.show_turns([turn(num_answers=1, num_alike=2, beam_width=4, passages=(passage(1),))])
    assert view.turn_views()[0]._note.text() == ""


def test_while_several_answers_are_written_it_says_which_is_seen(view):
    view.show_turns([turn(state="writing", num_answers=3)])
    assert view.turn_views()[0].state_sentence == "Writing 3 answers; this is the first…"


def test_while_beams_are_compared_it_says_why_nothing_can_be_read_yet(view):
    view.show_turns(
        [after(turn(state="reading"), protocol.AnswerState(question_id="t", state="writing", beam_width=4))]
    )
    assert view.turn_views()[0].state_sentence == "Comparing 4 beams; the answer appears when it is complete…"


def test_an_edited_question_is_told_and_nothing_is_erased(view, qtbot):
    view.show_turns([turn(1)])
    bubble = view.widget_of("t1").bubble
    bubble._on_edit()
    bubble._editor.set_text("Another question?")
    with qtbot.waitSignal(view.edited) as edited:
        bubble._editor.field.entered.emit()
    assert edited.args == ["t1", "Another question?"]
    assert bubble.question == "Question 1?"


def test_what_was_written_into_a_question_is_there_again_after_something_far_away_was_looked_at(view):
    turns = [turn(number) for number in range(80)]
    view.show_turns(turns)
    settle()
    bubble = view.widget_of("t79").bubble
    bubble._on_edit()
    bubble._editor.set_text("Another question?")
    settle()
    view.show_match("question", ("t3", 0))
    settle()
    assert view.widget_of("t79") is None
    changed = replace(turns[-1], text="Another needle.")
    view.update_turn(changed)
    view.show_match("needle", ("t79", 0))
    settle()
    again = view.widget_of("t79")
    assert (again.turn, again.isVisible()) == (changed, True)
    assert (again.bubble._editor.text, again.bubble._editor.isVisible()) == ("Another question?", True)
    assert again.place_found() is not None
    assert shown(view).count("t79") == 1


@pytest.mark.parametrize("is_far", [False, True])
def test_what_was_written_into_a_question_is_there_again_after_another_chat_was_looked_at(view, is_far):
    view.show_turns([turn(number) for number in range(80)])
    bubble = view.widget_of("t79").bubble
    bubble._on_edit()
    bubble._editor.set_text("Another question?")
    settle()
    if is_far:
        view.show_match("question", ("t3", 0))
    view.show_turns([turn(100)])
    view.show_turns([turn(number) for number in range(80)])
    settle()
    again = view.widget_of("t79").bubble
    assert (again._editor.text, again._editor.isVisible()) == ("Another question?", True)
    # The keyboard is where the next question is written, and so it looks.
    assert not again._editor.property("focused")
    # What was asked, or left as it was, is offered no more.
    again._editor.field.entered.emit()
    view.show_turns([turn(100)])
    view.show_turns([turn(number) for number in range(80)])
    assert view.widget_of("t79").bubble._editor is None


def test_a_question_of_another_chat_into_which_nothing_was_written_is_shown_as_it_is(view):
    view.show_turns([turn(1)])
    view.widget_of("t1").bubble._on_edit()
    view.show_turns([turn(100)])
    view.show_turns([turn(1)])
    assert view.widget_of("t1").bubble._editor is None


def test_escape_leaves_the_question_as_it_was(view, qtbot):
    view.show_turns([turn(1)])
    bubble = view.widget_of("t1").bubble
    asked = []
    view.edited.connect(lambda *args: asked.append(args))
    stopped = QShortcut(QKeySequence("Esc"), view)
    stopped.activated.connect(lambda: asked.append("the window's Escape"))
    bubble._on_edit()
    field = bubble._editor.field
    field.setPlainText("Another question?")
    view.activateWindow()
    field.setFocus()
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert (asked, bubble._editor, bubble._bubble.isHidden()) == ([], None, False)
    bubble._on_edit()
    assert bubble._editor.text == "Question 1?"


def test_an_edited_question_takes_text_and_no_files(view):
    view.show_turns([turn(1)])
    bubble = view.widget_of("t1").bubble
    bubble._on_edit()
    editor = bubble._editor
    assert editor.attach.isHidden()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/docs/report.pdf")])
    data.setText("/docs/report.pdf")
    editor.field.selectAll()
    editor.field.insertFromMimeData(data)
    assert editor.text == "/docs/report.pdf"
    picture = QMimeData()
    picture.setImageData(QImage(8, 6, QImage.Format.Format_RGB32))
    assert not editor.field.canInsertFromMimeData(picture)


@pytest.mark.parametrize(("length", "is_pasted"), [(LONG_CHARACTERS, True), (MAX_CHARACTERS, False)])
def test_of_a_long_text_no_file_is_offered_where_a_question_is_edited(view, length, is_pasted):
    view.show_turns([turn(1)])
    bubble = view.widget_of("t1").bubble
    bubble._on_edit()
    data = QMimeData()
    data.setText("x" * length)
    bubble._editor.field.insertFromMimeData(data)
    offer = bubble._editor.paste_offer
    assert (bubble._editor.text != "Question 1?", offer.isHidden()) == (is_pasted, is_pasted)
    # Nothing is lost without a word.
    words = "" if is_pasted else "This text has 50,000 characters; a question can have 50,000 at most."
    assert (offer.words.text(), offer.keep.isVisible()) == (words, False)


def test_copy_gives_the_markdown(view):
    view.show_turns([turn(1, text="**Bold** [1]")])
    view.widget_of("t1").copy.click()
    assert QGuiApplication.clipboard().text() == "**Bold** [1]"


def test_scope_and_timings_are_said_in_words():
    from engine.protocol import Timings

    timings = Timings(
        queued_s=0, retrieval_s=0.1, prefill_s=1, ttft_s=1.2, total_s=6.2, prompt_tokens=9, generated_tokens=156
    )
    told = turn(1, scope=Scope(6, 1212, 3), timings=timings)
    assert scope_sentence(told) == "from 6 of 1,212 passages in 3 files"
    assert timing_sentence(told) == "First token after 1.2 s · 31.0 tokens/s · 6.2 s in total"
    assert scope_sentence(turn(1)) == timing_sentence(turn(1)) == ""


def test_what_was_not_read_again_is_said():
    from engine.protocol import Timings

    times = {"queued_s": 0, "retrieval_s": 0.1, "prefill_s": 0.1, "ttft_s": 0.2, "total_s": 0.3}
    timings = Timings(**times, prompt_tokens=1024, generated_tokens=1, cached_tokens=812)
    assert "812 of 1,024 prompt tokens from the cache" in timing_sentence(turn(1, timings=timings))


def test_quotes_of_documents_that_are_away_or_were_removed_are_marked(view):
    now = {1: Standing("removed"), 2: HERE, 3: Standing("offline", "The drive is not connected.")}
    view.show_standings(lambda passage: now[passage.document_id])
    quotes = (quote(0), quote(1), quote(2))
    view.show_turns([turn(1, passages=(passage(1), passage(2), passage(3)), quotes=quotes)])
    lines = view.turn_views()[0].quotes.quote_lines()
    assert [line.standing.words for line in lines] == ["removed", "", "offline"]
    assert lines[0].accessibleName() == "Quote from file-1.pdf · p. 7 · removed"
    now[3] = HERE
    view.show_standings(lambda passage: now[passage.document_id])
    assert [line.standing.words for line in lines] == ["removed", "", ""]


def test_the_place_of_a_quote_is_said_as_the_document_calls_it(view):
    budget = replace(quote(0), place="sheet “Budget”, rows 12–18")
    view.show_turns([turn(1, passages=(passage(1),), quotes=(budget,))])
    (line,) = view.turn_views()[0].quotes.quote_lines()
    assert line.accessibleName() == "Quote from file-1.pdf · sheet “Budget”, rows 12–18"


def test_an_answer_that_found_nothing_says_so(view):
    view.show_turns([turn(1, text="", model=None, passages=(passage(1),)), turn(2, text="", model=None)])
    nearest, nothing = (widget.nothing for widget in view.turn_views())
    assert nearest.text() == "Not found in your files. The sources are the closest passages."
    assert nothing.text() == "Not found in your files."
    view.update_turn(turn(2))
    assert not view.turn_views()[1].nothing.isVisible()
    view.update_turn(turn(1, text="", model=None, was_reading=True))
    assert nearest.text() == "Not found in the files that had been indexed by then. Ask again when all are indexed."


def test_the_line_under_an_answer_of_quotes_counts_them(view):
    one, two = (tuple(quote(index) for index in range(number)) for number in (1, 2))
    view.show_turns([turn(1, model=None, quotes=one), turn(2, model=None, quotes=two)])
    assert [widget._note.text().partition(" is ")[2] for widget in view.turn_views()] == [
        "chosen, so the answer is this quote.",
        "chosen, so the answer is these quotes.",
    ]


def test_the_end_stays_in_sight_when_an_answer_brings_more_than_text(view):
    view.show_turns([turn(number) for number in range(8)] + [turn(9, state="searching", text="", model=None)])
    settle()
    filters = Filters(formats=("pdf",))
    quotes = tuple(quote(index) for index in range(3))
    view.update_turn(turn(9, model=None, quotes=quotes, passages=(passage(1),), filters=filters))
    settle()
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum()
    assert view.viewport().rect().bottom() >= view.turn_views()[-1].mapTo(view.viewport(), QPoint(0, 0)).y()


def test_a_follow_up_for_which_nothing_new_was_found_may_rest_on_what_was_found_before(view):
    view.show_turns([turn(1, state="writing"), turn(2, state="queued", text="")])
    view.update_turn(turn(1))
    assert view.widget_of("t1")._note.text().endswith("this answer is not based on them.")
    view.update_turn(turn(1, passages=(passage(1),)))
    view.update_turn(turn(2))
    assert view.widget_of("t2")._note.text() == "Nothing new was found in your files for this question."
    view.update_turn(turn(2, was_reading=True))
    assert view.widget_of("t2")._note.text().endswith("in the files that had been indexed by then.")


def press_beside(view, button: Qt.MouseButton) -> None:
    """QTest would warn that nobody does anything about it."""
    kind, where, none = QEvent.Type.MouseButtonPress, QPointF(2, 2), Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(view.widget(), QMouseEvent(kind, where, where, button, button, none))


def test_a_press_beside_the_answers_ends_what_is_selected(view):
    view.show_turns([turn(1, text="One.\n\nTwo."), turn(2, text="Three.")])
    answer = view.widget_of("t1").markdown
    answer.selection.select_all()
    press_beside(view, Qt.MouseButton.RightButton)
    assert all(text.textCursor().hasSelection() for text in answer.texts())
    press_beside(view, Qt.MouseButton.LeftButton)
    assert not any(text.textCursor().hasSelection() for text in answer.texts())


def test_a_selection_ends_where_another_answer_is_clicked(view):
    view.show_turns([turn(1, text="One.\n\nTwo."), turn(2, text="Three.")])
    first, second = (view.widget_of(one).markdown for one in ("t1", "t2"))
    first.texts()[0].setFocus()
    first.selection.select_all()
    second.texts()[0].setFocus(Qt.FocusReason.MouseFocusReason)
    assert not any(text.textCursor().hasSelection() for text in first.texts())


# --- long conversations, and other answers in their middle ---


@pytest.fixture
def made(monkeypatch) -> list[int]:
    """The numbers of the turns for which a widget was made, which takes long; of views that come after this."""
    numbers: list[int] = []
    new_view = ConversationView._new_view
    monkeypatch.setattr(ConversationView, "_new_view", lambda self, n: (numbers.append(n), new_view(self, n))[1])
    return numbers


def test_a_question_far_from_what_is_read_makes_widgets_of_the_newest_turns_alone(made, view):
    turns = [turn(number) for number in range(100)]
    view.show_turns(turns)
    settle()
    scroll_to(view, "top", lambda: shown(view)[0] == "t0")
    made.clear()
    view.show_turns([*turns, turn(100)])
    settle()
    assert shown(view)[-1] == "t100"
    assert view.is_following
    assert len(made) <= 6
    assert min(made) >= 95


def test_a_match_in_a_tall_window_is_followed_by_what_there_is(view):
    view.resize(700, 3000)
    view.show_turns([turn(number) for number in range(100)])
    settle()
    view.show_match("question", ("t0", 0))
    settle(20)
    assert view.verticalScrollBar().maximum() > 0


def long_branch(variant: int, num_turns: int = 12) -> list:
    """A chat whose third turn has two answers, each with turns of its own after it."""
    before = [turn(number, text="Words. " * 90) for number in range(2)]
    text = f"Variant {variant}. " * (40 if variant else 200)
    switched = turn(100 * variant + 2, text=text, branch_index=variant, num_branches=2)
    return [*before, switched, *(turn(100 * variant + number) for number in range(3, num_turns))]


def top_of_switch(view, turn_id: str) -> int:
    return view.widget_of(turn_id).branch_switch.mapTo(view.viewport(), QPoint()).y()


def test_who_goes_to_another_answer_in_the_middle_of_a_chat_stays_there(made, view):
    view.show_turns(long_branch(0))
    settle()
    scroll_to(view, "top", lambda: shown(view)[0] == "t0")
    view.branch_wanted.connect(lambda turn_id, step: view.show_turns(long_branch(int(turn_id == "t2"))))
    widget = view.widget_of("t2")
    view.verticalScrollBar().setValue(widget.branch_switch.mapTo(view.widget(), QPoint()).y() - 200)
    settle()
    for turn_id, step, other in (("t2", "later", "t102"), ("t102", "earlier", "t2")):
        made.clear()
        before = top_of_switch(view, turn_id)
        getattr(view.widget_of(turn_id), step).click()
        settle()
        assert abs(top_of_switch(view, other) - before) <= 2
        assert not view.is_following
        assert len(made) <= 6
    # From then on it is the reader's.
    view.verticalScrollBar().setValue(30)
    settle()
    assert view.verticalScrollBar().value() == 30


def test_another_last_answer_is_shown_to_its_end(view):
    view.show_turns(long_branch(0))
    view.branch_wanted.connect(lambda turn_id, step: view.show_turns(long_branch(1, num_turns=3)))
    settle()
    scroll_to(view, "top", lambda: shown(view)[0] == "t0")
    view.widget_of("t2").later.click()
    settle()
    bar = view.verticalScrollBar()
    assert view.is_following
    assert bar.value() == bar.maximum()


# --- by the keyboard ---


def stops_of_tab(view) -> list[tuple[str, QWidget]]:
    """What the Tab key comes by from the conversation on, with the turns that it is in."""
    stops, widget = [], view.nextInFocusChain()
    while widget is not view:
        owner = next((one.turn.turn_id for one in view.turn_views() if one.isAncestorOf(widget)), "")
        if widget.focusPolicy().value & Qt.FocusPolicy.TabFocus.value and widget.isVisible() and owner:
            stops.append((owner, widget))
        widget = widget.nextInFocusChain()
    return stops


def test_the_tab_key_goes_through_the_turns_as_they_follow_each_other(view):
    view.show_turns([turn(number, passages=(passage(1),), text="So. [1]") for number in range(30)])
    settle()
    scroll_to(view, "top", lambda: shown(view)[0] == "t0")
    view.show_turns([turn(number, passages=(passage(1),), text="So. [1]") for number in range(31)])
    settle()
    scroll_to(view, "top", lambda: shown(view)[0] == "t0")
    assert [owner for owner, _ in groupby(owner for owner, _ in stops_of_tab(view))] == shown(view)


def test_the_tab_key_goes_through_an_answer_as_it_stands_there(view):
    open_turn = turn(1, state="searching", text="", passages=())
    view.show_turns([open_turn, turn(2)])
    found = {"passages": (passage(1), passage(2)), "quotes": (quote(0), quote(1)), "scope": Scope(2, 9, 2)}
    view.update_turn(replace(open_turn, state="writing", **found))
    view.append_text(replace(open_turn, state="writing", text="One. [1]", **found), "One. [1]")
    view.update_turn(replace(open_turn, state="finished", text="One. [1]\n\nTwo. [2]", **found))
    view.widget_of("t1").quotes.set_open(True)
    settle()
    heights = [widget.mapTo(view.widget(), QPoint()).y() for owner, widget in stops_of_tab(view) if owner == "t1"]
    assert len(heights) > 8
    # What stands side by side is not equally high.
    assert all(one <= following + 12 for one, following in pairwise(heights))


def press(widget, key: Qt.Key, modifier=Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(widget, key, modifier)
    settle()


def test_an_answer_that_has_the_keyboard_scrolls_the_conversation(view):
    view.show_turns([turn(number, text="Words. [1] " * 600, passages=(passage(1),)) for number in range(30)])
    settle()
    bar, answer = view.verticalScrollBar(), view.turn_views()[-1].markdown.texts()[0]
    answer.setFocus()
    end = bar.value()
    press(answer, Qt.Key.Key_PageUp)
    assert bar.value() == end - bar.pageStep()
    assert not view.is_following
    press(answer, Qt.Key.Key_Up)
    assert bar.value() == end - bar.pageStep() - bar.singleStep()
    press(answer, Qt.Key.Key_PageDown)
    press(answer, Qt.Key.Key_Down)
    assert bar.value() == end
    press(answer, Qt.Key.Key_Home, Qt.KeyboardModifier.ControlModifier)
    assert (shown(view)[0], bar.value()) == ("t0", 0)
    # Where it was is no widget any more.
    assert view.window().focusWidget() is view
    press(view, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
    assert shown(view)[-1] == "t29"
    assert view.is_following
    assert bar.value() == bar.maximum()


def test_an_edited_question_that_is_in_sight_as_a_whole_leaves_paging_to_the_conversation(view):
    view.show_turns([turn(number, text="Words. " * 90) for number in range(10)])
    settle()
    bubble = view.turn_views()[-1].bubble
    bubble._on_edit()
    settle()
    assert view.is_following
    press(bubble._editor.field, Qt.Key.Key_PageUp)
    assert not view.is_following
