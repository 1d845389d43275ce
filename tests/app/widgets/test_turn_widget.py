"""Tests for app.widgets.turn_widget."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QStyleOptionButton

from app.widgets.turn_sentences import refreshed_sentence, unfounded_sentence
from app.widgets.turn_widget import TurnWidget
from engine.protocol import Refresh, Scope, Timings
from tests.helpers.shown_values import passage, quote, turn


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ((), ""),
        ((50,), "More passages were found once while writing, at 25 % of the answer"),
        ((50, 128), "More passages were found 2 times while writing, at 25 %, 64 % of the answer"),
        # What was told may be cut when the answer ends.
        ((240,), "More passages were found once while writing, at 100 % of the answer"),
    ],
)
def test_the_details_say_when_it_was_looked_again(qtbot, offsets, words):
    refreshes = tuple(Refresh(offset, number + 1, 1) for number, offset in enumerate(offsets))
    passages = tuple(passage(number) for number in range(len(offsets) + 1))
    shown = turn(1, text="x" * 200, passages=passages, refreshes=refreshes)
    assert refreshed_sentence(shown) == words

    widget = TurnWidget(shown)
    qtbot.addWidget(widget)

    assert widget.scope.toolTip() == "\n".join(part for part in ("Written by tiny", words) if part)


def test_a_citation_without_a_passage_is_no_chip(qtbot):
    widget = TurnWidget(turn(1, text="So it is [1], and [7].", passages=(passage(1),)))
    qtbot.addWidget(widget)
    (block,) = widget.markdown.block_views()
    assert "cite:1" in block.toHtml()
    assert "cite:7" not in block.toHtml()


def test_the_line_under_an_answer_fits_a_narrow_window_beside_branches(qtbot):
    many = Scope(1_200, 21_200, 3_000)
    widget = TurnWidget(turn(1, passages=(passage(1),), scope=many, branch_index=1, num_branches=2))
    qtbot.addWidget(widget)
    widget.show()
    assert not widget.scope.isHidden()
    assert widget.minimumSizeHint().width() <= 312


def test_at_large_text_lines_give_way_and_no_answer_is_cut(qtbot, large_text):
    many = Scope(1_200, 21_200, 3_000, recognised=("PDF files",))
    shown = turn(1, passages=(passage(1),), quotes=(quote(0),), scope=many)
    widget = TurnWidget(shown)
    qtbot.addWidget(widget)
    widget.resize(312, 900)
    widget.show()
    QApplication.processEvents()
    option = QStyleOptionButton()
    for line in (widget.scope, widget.everything):
        line.initStyleOption(option)
        assert (line.isVisible(), option.text[-1]) == (True, "…")
    assert widget.minimumSizeHint().width() <= 312
    widget.show_turn(replace(shown, state="queued", ahead=3))
    assert widget.minimumSizeHint().width() <= 312


def test_the_line_under_an_answer_says_how_much_of_a_document_was_read_through(qtbot):
    widget = TurnWidget(turn(1, passages=(passage(1),), scope=Scope(18, 96, 1, reads_through=True)))
    qtbot.addWidget(widget)
    name = passage(1).document.rpartition("/")[2]
    assert widget.scope.text() == f"read 18 of 96 passages of {name}"
    assert widget.scope.accessibleName() == widget.scope.text()
    widget.show_turn(turn(1, passages=(passage(1),), scope=Scope(14, 14, 1, reads_through=True)))
    assert widget.scope.text() == f"read all of {name}"
    long = replace(passage(1), document="/docs/annual report of the housing association, final.pdf")
    widget.show_turn(turn(1, passages=(long,), scope=Scope(18, 96, 1, reads_through=True)))
    assert widget.scope.text() == "read 18 of 96 passages of annual report of…tion, final.pdf"


def test_the_ways_on_from_an_answer_that_broke_off_fit_a_narrow_window(qtbot):
    widget = TurnWidget(turn(1, state="failed", text="Half an", error_sentence="The engine ended unexpectedly."))
    qtbot.addWidget(widget)
    widget.resize(800, 600)
    widget.show()
    assert not widget.outcome.go_on.isHidden()
    widget.resize(312, 600)
    qtbot.waitUntil(lambda: widget.minimumSizeHint().width() <= 312)


def test_the_details_say_which_model_wrote_an_answer(qtbot):
    widget = TurnWidget(turn(1, model="Tiny", passages=(passage(1),)))
    qtbot.addWidget(widget)
    assert widget.scope.toolTip() == "Written by Tiny"
    widget.show_turn(turn(1, model=None, passages=(passage(1),)))
    assert widget.scope.toolTip() == ""


def test_an_answer_for_which_nothing_was_found_says_that_it_does_not_rest_on_the_files(qtbot):
    words = "Nothing was found in your files; this answer is not based on them."
    widget = TurnWidget(turn(1, scope=Scope(0, 0, 0)))
    qtbot.addWidget(widget)
    assert (widget._note.text(), widget._note.isHidden()) == (words, False)
    widget.show_turn(turn(1, scope=Scope(1, 1, 1), passages=(passage(1),)))
    assert widget._note.isHidden()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"was_reading": True}, "Nothing was found in the files that had been indexed by then; this answer"),
        ({"state": "writing"}, ""),
        # These are told of in other words.
        ({"text": ""}, ""),
        ({"model": None}, ""),
    ],
)
def test_only_the_finished_answer_of_a_model_is_said_to_be_without_sources(values, words):
    sentence = unfounded_sentence(turn(1, **values))
    assert (sentence.partition(" is not based")[0], bool(sentence)) == (words, bool(words))


def test_what_was_thought_is_folded_until_somebody_wants_to_see_it(qtbot):
    timings = Timings(
        queued_s=0, retrieval_s=0, prefill_s=0, ttft_s=1, total_s=20, prompt_tokens=1, generated_tokens=9, thinking_s=12
    )
    shown = turn(1, text="So it is.", thoughts="They ask [1].", passages=(passage(1),), timings=timings)
    widget = TurnWidget(shown)
    qtbot.addWidget(widget)
    card = widget.thoughts
    assert (card.title, card.is_open, card.shown_text) == ("Thought for 12 s", False, "")
    assert not card.isHidden()

    qtbot.mouseClick(card._title, Qt.MouseButton.LeftButton)
    assert (card.is_open, card.shown_text) == (True, "They ask [1].")
    assert "cite:1" in card._view.block_views()[0].toHtml()
    qtbot.mouseClick(card._title, Qt.MouseButton.LeftButton)
    assert (card.is_open, card.shown_text) == (False, "")

    widget.show_turn(turn(1, text="So it is."))
    assert card.isHidden()


def test_thoughts_grow_while_the_model_thinks(qtbot):
    thinking = turn(1, state="writing", text="", thoughts="They")
    widget = TurnWidget(turn(1, state="writing", text=""))
    qtbot.addWidget(widget)
    assert widget.thoughts.isHidden()
    widget.append_thoughts(thinking, "They")
    assert (widget.thoughts.title, widget.state_sentence) == ("Thoughts", "Thinking…")
    assert not widget.thoughts.isHidden()

    widget.thoughts.set_open(True)
    widget.append_thoughts(turn(1, state="writing", text="", thoughts="They ask."), " ask.")
    assert widget.thoughts.shown_text == widget.thoughts.thoughts == "They ask."

    widget.append_text(turn(1, state="writing", text="So", thoughts="They ask."), "So")
    assert (widget.thoughts.title, widget.state_sentence) == ("Thoughts", "Writing…")
    widget.show_turn(turn(1, state="cancelled", text="So", thoughts="They ask."))
    assert (widget.thoughts.title, widget.thoughts.shown_text) == ("Thoughts", "They ask.")


def test_thoughts_without_an_answer_are_not_told_as_nothing_found(qtbot):
    widget = TurnWidget(turn(1, text="", thoughts="They ask."))
    qtbot.addWidget(widget)
    assert widget.nothing.text().startswith("The model ended without an answer.")


@pytest.mark.parametrize(
    ("thoughts", "words"), [("They ask.", "The model ended without an answer."), ("", "The model wrote nothing.")]
)
@pytest.mark.parametrize("quotes", [(quote(0),), ()])
def test_quotes_do_not_stand_for_the_answer_that_a_model_did_not_give(qtbot, thoughts, words, quotes):
    widget = TurnWidget(turn(1, text="", thoughts=thoughts, passages=(passage(1),), quotes=quotes))
    qtbot.addWidget(widget)
    assert widget.nothing.text().startswith(words)
    assert not widget.nothing.isHidden()


def test_an_answer_of_the_model_alone_says_that_no_files_were_searched(qtbot):
    widget = TurnWidget(turn(1, model="Tiny", searches=False, scope=Scope(0, 0, 0)))
    qtbot.addWidget(widget)
    assert (widget._note.isHidden(), widget.scope.isHidden()) == (True, True)
    assert widget.confined.text() == "Your files were not searched for this answer."
    assert widget.confined.toolTip() == "Written by Tiny"
    assert widget.everything.text() == "Search your files instead"
    # It may cite what an earlier turn found.
    widget.show_turn(turn(1, searches=False, scope=Scope(0, 0, 0), passages=(passage(1),)))
    assert widget.scope.text() == "with passages of earlier answers"
    widget.show_turn(turn(1, searches=False, text=""))
    assert widget.nothing.text() == "The model wrote nothing."


def test_the_mark_of_a_copied_answer_goes_away(qtbot):
    widget = TurnWidget(turn(1, text="Three months."))
    qtbot.addWidget(widget)
    widget.copy.click()
    assert QApplication.clipboard().text() == "Three months."
    assert _icon_of(widget.copy) == "check"
    qtbot.waitUntil(lambda: _icon_of(widget.copy) == "copy")


def _icon_of(button):
    return button.property("iconDress")[0]
