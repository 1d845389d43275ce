"""Tests for app.models.run_writer."""

from __future__ import annotations

from app.chats.records import NO_MODEL
from app.models.run_writer import Writer, writer_of
from app.models.turns import TurnView
from engine.protocol import ModelEntry

OLD, SMALL, LARGE = "/m/tiny-Q4.gguf", "/m/tiny-Q8.gguf", "/m/large.gguf"
KNOWN = (ModelEntry(path=OLD, name="tiny"), ModelEntry(path=SMALL, name="tiny"), ModelEntry(path=LARGE, name="large"))


def answered(model: str | None, text: str = "In May.") -> TurnView:
    return TurnView("f", "When?", state="finished", text=text, model=model)


def test_a_new_question_is_answered_by_the_chosen_one():
    waiting, failed = TurnView("f", "When?"), TurnView("g", "When?", state="failed", error_sentence="No.")
    for views in ((), (waiting, failed, answered(None, text=" "))):
        assert writer_of(views, LARGE, KNOWN) == Writer(LARGE)


def test_one_that_was_begun_is_answered_by_whoever_did_last():
    assert writer_of([answered("tiny")], LARGE, KNOWN) == Writer(OLD)
    assert writer_of([answered("large"), answered("tiny"), TurnView("f", "When?")], LARGE, KNOWN) == Writer(OLD)
    assert writer_of([answered(None)], LARGE, KNOWN) == Writer(NO_MODEL)


def test_of_models_with_one_name_it_is_the_chosen_one():
    assert writer_of([answered("tiny")], SMALL, KNOWN) == Writer(SMALL)


def test_one_that_is_gone_is_spoiled_or_could_not_answer_is_replaced_and_that_is_said():
    spoiled = ModelEntry(path=OLD, name="tiny", problem="It is cut short.")
    for known, given_up in ((KNOWN[2:], ""), ((spoiled, KNOWN[2]), ""), ((KNOWN[0], KNOWN[2]), OLD)):
        writer = writer_of([answered("tiny")], LARGE, known, given_up)
        assert (writer.model, "from tiny" in writer.problem, bool(writer.way_out)) == (LARGE, True, True)


def test_one_that_could_not_answer_and_is_still_chosen_is_asked_once_more_and_not_told_to_be_replaced():
    spoiled = ModelEntry(path=OLD, name="tiny", problem="It is cut short.")
    for known, given_up in (((KNOWN[0], KNOWN[2]), OLD), ((spoiled, KNOWN[2]), "")):
        assert writer_of([answered("tiny")], OLD, known, given_up) == Writer(OLD)
    assert writer_of([answered("tiny")], OLD, KNOWN, given_up=OLD) == Writer(SMALL)


def test_before_it_is_known_which_models_there_are_only_what_hangs_on_that_waits() -> None:
    assert writer_of([answered("tiny")], "", None) is None
    assert writer_of([answered(None)], "", None) == Writer(NO_MODEL)
    assert writer_of([TurnView("f", "When?")], "", None) == Writer("")
