"""Tests for app.models.standings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.models.library import LibraryModel
from app.models.standings import HERE, Standing, Standings
from engine import protocol
from tests.helpers.shown_values import document, passage
from tests.helpers.told_library import answer_library


@pytest.fixture
def standings(client) -> Standings:
    library = LibraryModel(client)
    made = Standings(client, library)
    made.library = library
    return made


def test_a_passage_stands_as_it_did_when_it_was_found_until_the_engine_says_more(standings):
    assert standings.of(passage(1)) == HERE
    assert standings.of(replace(passage(1), is_offline=True)) == Standing("offline")


def test_what_the_library_no_longer_has_is_removed_and_what_is_away_says_why(standings, client, qtbot):
    with qtbot.wait_signal(standings.changed):
        standings.watch([passage(1), passage(2), passage(3), passage(3)])
        answer_library(client, documents=[document(1), document(2, "offline", "The drive is not connected.")])
    assert client.asked(protocol.DOCUMENTS)[-1].document_ids == (1, 2, 3)
    assert [standings.of(passage(number)) for number in (1, 2, 3)] == [
        HERE,
        Standing("offline", "The drive is not connected."),
        Standing("removed"),
    ]


def test_only_documents_that_were_not_watched_before_are_asked_about(standings, client):
    standings.watch([passage(1)])
    standings.watch([passage(1), passage(2)])
    standings.watch([passage(1), passage(2)])
    assert [wanted.document_ids for wanted in client.asked(protocol.DOCUMENTS)] == [(1,), (2,)]


def test_a_drive_that_comes_back_is_noticed_when_the_library_changes(standings, client, qtbot):
    standings.watch([passage(1)])
    answer_library(client, documents=[document(1, "offline", "The drive is not connected.")])
    standings.library.refresh()
    with qtbot.wait_signal(standings.changed):
        answer_library(client, documents=[document(1)])
        answer_library(client, documents=[document(1)])
    assert standings.of(passage(1)) == HERE


def test_an_engine_that_cannot_tell_changes_nothing(standings, client):
    standings.watch([passage(1)])
    client.die()
    assert standings.of(passage(1)) == HERE
