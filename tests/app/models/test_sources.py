"""Tests for app.models.sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.models.library import LibraryModel
from app.models.sources import SourcesModel
from app.models.standings import Standings
from app.models.turns import TurnView
from engine import protocol
from engine.protocol import DocumentState, Refresh, Scope
from tests.helpers.answers import passage
from tests.helpers.shown_values import document
from tests.helpers.told_library import answer_library

TURN = TurnView("t", "?", passages=(passage(0), passage(1), passage(2)))


@pytest.fixture
def sources(client) -> SourcesModel:
    made = SourcesModel(client, Standings(client, LibraryModel(client)))
    made.show_turn(TURN)
    return made


def page(text: str) -> protocol.PageReply:
    return protocol.PageReply(document="/docs/lease-1.pdf", page=2, num_pages=9, text=text)


def test_the_passages_of_a_turn_are_shown(sources, qtbot):
    assert sources.passages == TURN.passages
    with qtbot.assert_not_emitted(sources.passages_changed):
        sources.show_turn(TURN)
    with qtbot.wait_signal(sources.passages_changed):
        sources.show_turn(None)
    assert sources.passages == ()


def test_a_page_stays_open_when_passages_are_added(sources, client, qtbot):
    sources.open_passage(1)
    refreshed = replace(TURN, passages=(*TURN.passages, passage(3)), refreshes=(Refresh(80, 3, 1),))
    with qtbot.wait_signal(sources.passages_changed), qtbot.assert_not_emitted(sources.selection_changed):
        sources.show_turn(refreshed)
    assert (sources.passage, sources.refreshes) == (passage(1), (Refresh(80, 3, 1),))
    with qtbot.wait_signal(sources.page_ready):
        client.answer(protocol.PAGE, page("found"))


def test_what_the_model_did_not_read_is_known_when_the_answer_ends_and_the_page_stays(sources, qtbot):
    sources.open_passage(1)
    with qtbot.wait_signal(sources.passages_changed), qtbot.assert_not_emitted(sources.selection_changed):
        sources.show_turn(replace(TURN, scope=Scope(2, 9, 2, unread=(2,))))
    assert (sources.unread, sources.passage) == ((2,), passage(1))
    sources.show_turn(None)
    assert sources.unread == ()


def test_opening_a_passage_asks_for_its_page_with_its_span(sources, client, qtbot):
    sources.open_passage(1, width_px=700)
    assert sources.passage == passage(1)
    (wanted,) = client.asked(protocol.PAGE)
    assert (wanted.document_id, wanted.page, wanted.width_px) == (2, 2, 700)
    assert (wanted.start, wanted.end) == (passage(1).start, passage(1).end)
    with qtbot.wait_signal(sources.page_ready) as ready:
        client.answer(protocol.PAGE, page("found"))
    assert ready.args == [page("found")]


def test_a_file_that_no_longer_holds_the_passage_shows_it_as_it_was(sources, client, qtbot):
    sources.open_passage(1)
    assert client.asked(protocol.PAGE)[0].text == passage(1).text
    with qtbot.wait_signal(sources.passage_kept) as kept, qtbot.assert_not_emitted(sources.page_ready):
        client.answer(protocol.PAGE, page("else").model_copy(update={"is_changed": True}))
    assert kept.args == [passage(1), "The passage was not found in the current version of this file."]
    sources.open_page(3)
    assert client.asked(protocol.PAGE)[-1].text == ""


def test_the_page_on_which_a_passage_stands_now_has_its_mark_and_all_can_be_turned_to(sources, client):
    sources.open_passage(1)
    client.answer(protocol.PAGE, page("found").model_copy(update={"page": 4}))
    for number in (3, 2, 4):
        sources.open_page(number)
    asked = [(wanted.page, wanted.start, bool(wanted.text)) for wanted in client.asked(protocol.PAGE)]
    assert asked == [(2, 10, True), (3, 0, False), (2, 0, False), (2, 10, True)]


def test_another_page_of_the_document_has_no_mark(sources, client):
    sources.open_passage(1)
    sources.open_page(3)
    sources.open_page(2)
    spans = [(wanted.page, wanted.start, wanted.end) for wanted in client.asked(protocol.PAGE)]
    assert spans == [(2, 10, 39), (3, 0, 0), (2, 10, 39)]


def test_only_the_page_that_was_asked_for_last_is_told(sources, client, qtbot):
    sources.open_passage(0)
    sources.open_passage(1)
    with qtbot.assert_not_emitted(sources.page_ready):
        client.answer(protocol.PAGE, page("too late"))
    with qtbot.wait_signal(sources.page_ready) as ready:
        client.answer(protocol.PAGE, page("wanted"))
    assert ready.args[0].text == "wanted"


def test_a_page_of_another_turn_or_of_a_closed_view_is_not_wanted(sources, client, qtbot):
    sources.open_passage(0)
    sources.close_page()
    assert sources.selected is None
    sources.open_passage(0)
    sources.show_turn(TurnView("other", "?", passages=(passage(5),)))
    with qtbot.assert_not_emitted(sources.page_ready), qtbot.assert_not_emitted(sources.page_failed):
        client.answer(protocol.PAGE, page("x"))
        client.refuse(protocol.PAGE, "x")


def test_a_page_that_cannot_be_had_is_told_in_a_sentence(sources, client, qtbot):
    sources.open_passage(0)
    sources.open_page(5)
    client.refuse(protocol.PAGE, "Too late.")
    with qtbot.wait_signal(sources.page_failed) as failed:
        client.refuse(protocol.PAGE, "There is no page 5.", way_out="Turn back.")
    assert failed.args == ["There is no page 5. Turn back."]


@pytest.mark.parametrize("kind", ["DocumentUnreadable", "NothingThere"])
def test_a_page_that_cannot_be_had_leaves_the_passage_as_it_was_indexed(sources, client, qtbot, kind):
    sources.open_passage(0)
    with qtbot.wait_signal(sources.passage_kept) as kept:
        client.refuse(protocol.PAGE, "The file cannot be read.", kind, "Ask again.")
    assert kept.args == [passage(0), "The file cannot be read. Ask again."]


def test_a_page_out_of_reach_is_asked_for_again_when_it_comes_back(client, qtbot):
    library = LibraryModel(client)
    standings = Standings(client, library)
    sources = SourcesModel(client, standings)
    standings.watch(TURN.passages)
    sources.show_turn(TURN)

    def tell(state: DocumentState) -> None:
        library.refresh()
        for _ in range(2):
            answer_library(client, documents=[document(number, state) for number in (1, 2, 3)])

    tell("offline")
    with qtbot.wait_signal(sources.passage_kept):
        sources.open_passage(0)
    assert client.asked(protocol.PAGE) == []
    tell("indexed")
    assert [wanted.document_id for wanted in client.asked(protocol.PAGE)] == [1]

    # A page that is shown stays, whatever becomes of its file.
    client.answer(protocol.PAGE, page("found"))
    tell("offline")
    tell("indexed")
    assert len(client.asked(protocol.PAGE)) == 1


@pytest.mark.parametrize("index", [-1, 3])
def test_a_passage_that_is_not_there_opens_nothing(sources, client, index):
    sources.open_passage(index)
    assert client.asked(protocol.PAGE) == []
    assert sources.selected is None
