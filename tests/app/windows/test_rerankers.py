"""Tests for the dialog that gets and chooses rerankers, and for the line of the settings page that opens it.

What it has in common with that of embedding models is tested in test_embedders.py.
"""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel, QMessageBox, QWidget

from app.windows.reranker_dialog import RerankerDialog
from engine import protocol
from engine.protocol import Download, RerankerDownloads, RerankerEntry

MIB = 2**20


def entry(source: str, **values: object) -> RerankerEntry:
    name = source.partition("/")[2]
    facts = {"good_for": f"What {name} is good for.", "licence": "MIT", "num_bytes": 467 * MIB, "languages": "English"}
    return RerankerEntry(
        source=source, name=name, **{"path": f"/m/{source}", "download": Download(source), **facts, **values}
    )


SMALL, LARGE = entry("owner/small"), entry("owner/large", languages="many languages")
FETCHING = Download(SMALL.source, "fetching", 100 * MIB, 400 * MIB, 2.0**20, 300.0)


def tell_settings(client, reranker: str = "") -> None:
    tables = {"embedder": {"model": ""}, "generation": {}, "retrieval": {"reranker": reranker}}
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings=tables))


def tell_entries(client, *entries: RerankerEntry, **reading: object) -> None:
    reply = protocol.RerankersReply(rerankers=entries or (SMALL, LARGE), num_read=24, **reading)
    while any(request.method is protocol.RERANKERS for request in client.open):
        client.answer(protocol.RERANKERS, reply)


def words(widget: QWidget) -> str:
    return " ".join(label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget))


@pytest.fixture
def page(window, client):
    made = window.go_to("settings")
    tell_settings(client)
    return made


@pytest.fixture
def dialog(page, client) -> RerankerDialog:
    page.reranker.click()
    (made,) = page.findChildren(RerankerDialog)
    tell_entries(client)
    return made


def test_the_settings_say_that_there_is_none_and_what_one_does(page, client):
    assert page.reranker_name.text() == "Now: none"
    assert page.reranker.accessibleName() == "Reranker"
    assert "puts those that answer it first" in page.reranker.accessibleDescription()
    assert not page.reranker_told.isVisibleTo(page)
    # Nothing is asked of it where there is none.
    assert client.asked(protocol.RERANKERS) == []


def test_an_engine_that_knows_of_none_does_not_offer_one(window, client):
    page = window.go_to("settings")
    client.answer(protocol.SETTINGS_GET, protocol.SettingsReply(settings={"embedder": {"model": ""}, "retrieval": {}}))
    assert not page.shows("retrieval.reranker")


def test_each_reranker_says_what_it_is_good_for_and_what_the_reading_costs(dialog):
    small, large = dialog.rows()
    assert "What small is good for." in words(small)
    assert "about 467 MiB · MIT · English" in words(small)
    assert "many languages" in words(large)
    assert "Each of the best 24 passages that a search finds is read once more" in words(dialog)
    assert "This makes each search longer" in words(dialog)
    assert not dialog.use_none.isVisibleTo(dialog)


def test_one_is_got_stopped_and_removed(dialog, client):
    small, _ = dialog.rows()
    small.action.click()
    assert [wanted.source for wanted in client.asked(protocol.RERANKERS_GET)] == [SMALL.source]
    client.tell(RerankerDownloads(downloads=(FETCHING,)))
    assert small.progress == "100 MiB of 400 MiB · 1.0 MiB/s · 5 min 0 s left"
    small.action.click()
    assert [wanted.source for wanted in client.asked(protocol.RERANKERS_CANCEL_GETTING)] == [SMALL.source]
    client.tell(RerankerDownloads(downloads=(Download(SMALL.source, "part", 100 * MIB, 400 * MIB),)))
    small.discard.click()
    assert [wanted.source for wanted in client.asked(protocol.RERANKERS_DISCARD_PART)] == [SMALL.source]


def test_one_that_came_is_in_use_and_the_settings_say_so(dialog, page, client, window):
    client.tell(RerankerDownloads(downloads=(FETCHING,)))
    client.tell(RerankerDownloads(downloads=(Download(SMALL.source, "there", 400 * MIB, 400 * MIB),)))
    tell_settings(client, SMALL.path)
    tell_entries(client, entry(SMALL.source, download=Download(SMALL.source, "there")), LARGE)
    small, large = dialog.rows()
    assert (small.chip, small.action.isVisible(), large.chip) == ("In use", False, "")
    assert page.reranker_name.text() == "Now: small"
    assert window.message_bar.sentence == "small is downloaded. It reranks the best passages from the next question on."
    dialog.use_none.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"retrieval.reranker": ""}


def test_one_that_is_not_in_use_is_deleted_once_that_is_confirmed(dialog, client):
    here = {"download": Download(SMALL.source, "there"), "deletable_bytes": 467 * MIB}
    dialog._models.refresh()
    tell_entries(client, entry(SMALL.source, **here), LARGE)
    dialog.rows()[0].delete.click()
    (question,) = dialog.findChildren(QMessageBox)
    next(button for button in question.buttons() if button.text() == "Delete").click()
    assert [wanted.source for wanted in client.asked(protocol.RERANKERS_DELETE)] == [SMALL.source]


def test_a_folder_of_ones_own_is_used(dialog, page, client):
    dialog.field.setText("/models/my reranker")
    dialog.use.click()
    assert client.asked(protocol.SETTINGS_SET)[-1].changes == {"retrieval.reranker": "/models/my reranker"}
    tables = {"embedder": {"model": ""}, "generation": {}, "retrieval": {"reranker": "/models/my reranker"}}
    client.answer(protocol.SETTINGS_SET, protocol.SettingsReply(settings=tables))
    assert page.reranker_name.text() == "Now: my reranker"


def test_how_it_has_read_of_late_stands_in_the_settings(window, page, client):
    window.go_to("chats")
    page.engine_settings.refresh()
    tell_settings(client, SMALL.path)
    window.go_to("settings")
    tell_entries(client, seconds=1.75)
    assert page.reranker_told.text() == "The last reranking took 1.8 s."
    assert page.reranker_told.isVisibleTo(page)
    window.go_to("chats")
    window.go_to("settings")
    tell_entries(client, seconds=1.75, problem="There is no room in memory for it.")
    assert page.reranker_told.text() == "There is no room in memory for it."
    page.engine_settings.refresh()
    tell_settings(client)
    assert not page.reranker_told.isVisibleTo(page)


def test_what_is_said_of_one_does_not_stand_under_the_name_of_the_next(window, page, client):
    page.engine_settings.refresh()
    tell_settings(client, SMALL.path)
    tell_entries(client, problem="There is no room in memory for it.")
    assert page.reranker_told.isVisibleTo(page)
    page.engine_settings.refresh()
    tell_settings(client, "/models/my reranker")
    assert page.reranker_name.text() == "Now: my reranker"
    assert not page.reranker_told.isVisibleTo(page)
    tell_entries(client, problem="It cannot be loaded.")
    assert page.reranker_told.text() == "It cannot be loaded."
    assert page.reranker_told.isVisibleTo(page)
    num_asked = len(client.asked(protocol.RERANKERS))
    page.engine_settings.refresh()
    tell_settings(client, "/models/my reranker")
    assert len(client.asked(protocol.RERANKERS)) == num_asked


def test_what_comes_while_the_dialog_is_closed_stands_in_the_settings(dialog, page, client):
    dialog.reject()
    client.tell(RerankerDownloads(downloads=(FETCHING,)))
    assert "Downloading small: 100 MiB of 400 MiB" in words(page)
