"""Tests for app.models.run_rows."""

from __future__ import annotations

import pytest

from app.chats.records import Outcome, RunFile
from app.models.run_rows import RunRows, places_of
from app.models.turns import TurnView
from engine import protocol
from engine.protocol import Citation
from tests.helpers.answers import passage

QUESTION = "When does it end?"


@pytest.fixture
def rows() -> RunRows:
    """Of three files, one that has answered, one that cannot and one that waits."""
    outcomes = (
        Outcome("finished", text="In May."),
        Outcome("failed", error_sentence="It is gone."),
        Outcome("writing"),
    )
    places = (("page 1",), (), ())
    return RunRows(
        (
            RunFile(f"f{number}", number, f"/docs/{number}.pdf", outcome, where)
            for number, (outcome, where) in enumerate(zip(outcomes, places, strict=True))
        ),
        QUESTION,
    )


def answered(file_id: str) -> TurnView:
    where = passage(place="page 7")
    return TurnView(
        file_id,
        QUESTION,
        "finished",
        "In June [1].",
        passages=(where,),
        citations=(Citation("[1]", 0, 8),),
        model="tiny",
    )


def test_rows_begin_as_they_were_stored(rows: RunRows) -> None:
    assert [(view.turn_id, view.state, view.question) for view in rows.views] == [
        ("f0", "finished", QUESTION),
        ("f1", "failed", QUESTION),
        ("f2", "queued", QUESTION),
    ]
    assert (len(rows), rows.num_answered, rows.num_failed, rows.is_complete) == (3, 2, 1, False)
    assert [rows.found_at(view) for view in rows.views] == [("page 1",), (), ()]


def test_a_file_that_answers_is_counted_and_keeps_of_its_answer_what_is_shown(rows: RunRows) -> None:
    assert rows.put(answered("f2")) == 2
    view = rows.views[2]
    assert (view.text, view.passages, view.citations, rows.found_at(view)) == ("In June [1].", (), (), ("page 7",))
    assert (rows.num_answered, rows.num_failed, rows.is_complete) == (3, 1, True)


def test_a_file_that_is_asked_again_waits_and_was_found_nowhere_yet(rows: RunRows) -> None:
    waiting = TurnView("f0", QUESTION)
    assert rows.put(waiting) == 0
    assert (rows.views[0], rows.found_at(waiting)) == (waiting, ())
    assert rows.put(TurnView("f1", QUESTION, "writing", "In")) == 1
    assert (rows.num_answered, rows.num_failed) == (0, 0)


def test_what_changes_nothing_that_is_shown_is_no_change(rows: RunRows) -> None:
    assert rows.put(rows.views[1]) is None
    assert rows.put(answered("f2")) == 2
    assert rows.put(answered("f2")) is None
    assert rows.num_answered == 3


def test_a_file_of_another_run_is_in_no_row(rows: RunRows) -> None:
    assert rows.row_of("f2") == 2
    assert rows.row_of("other") is None
    assert rows.put(answered("other")) is None
    assert rows.num_answered == 2


def test_a_run_without_files_is_complete() -> None:
    assert (len(RunRows()), RunRows().is_complete) == (0, True)


def test_where_quotes_are_the_answer_their_places_are_told() -> None:
    quote = protocol.Quote("In May.", 0, "/d/a.pdf", 2, 0, 7, 0.9, "page 2")
    assert places_of(TurnView("1", QUESTION, "finished", quotes=(quote, quote))) == ["page 2"]
