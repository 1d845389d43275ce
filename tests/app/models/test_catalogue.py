"""Tests for app.models.catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.models.catalogue import CatalogueModel
from engine import protocol
from engine.protocol import CatalogueEntry, Download, ModelDownloads, ModelEntry


def entry(name: str, download: Download | None = None) -> CatalogueEntry:
    source = f"owner/name/{name}.gguf"
    model = ModelEntry(path=f"/m/{name}.gguf", name=name, file_bytes=2**30)
    return CatalogueEntry(source=source, licence="MIT", model=model, download=download or Download(source))


A, B = entry("a"), entry("b")


@pytest.fixture
def model(client) -> CatalogueModel:
    made = CatalogueModel(client)
    made.refresh()
    client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(A, B)))
    return made


def standing(client, *downloads: Download) -> None:
    client.tell(ModelDownloads(downloads=downloads))


def test_nothing_is_asked_before_somebody_looks(client):
    CatalogueModel(client)
    client.become_ready()
    assert client.asked(protocol.MODELS_CATALOGUE) == []


def test_what_is_told_of_a_download_is_newer_than_the_list(client, model):
    fetching = Download(A.source, "fetching", 5, 10)
    standing(client, fetching)
    assert (model.download_of(A), model.download_of(B)) == (fetching, B.download)
    model.refresh()
    client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(A, B)))
    assert model.download_of(A) == fetching


def test_a_model_that_came_is_told_once_and_both_lists_are_asked_for_again(client, model, qtbot):
    told = []
    model.message_told.connect(lambda *message: told.append(message))
    standing(client, Download(A.source, "fetching", 5, 10), Download(B.source, "waiting"))
    with qtbot.waitSignal(model.arrived):
        standing(client, Download(A.source, "there", 10, 10), Download(B.source, "fetching", 1, 10))
    standing(client, Download(A.source, "there", 10, 10), Download(B.source, "fetching", 2, 10))
    assert told == [("notice", "a is downloaded and on the list of models.", "")]
    assert len(client.asked(protocol.MODELS_CATALOGUE)) == 2
    # It may be taken off the list again: what was told when it came is old then.
    client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(A, B)))
    standing(client, Download(A.source, "there", 10, 10), Download(B.source, "fetching", 3, 10))
    assert model.download_of(A).state == "absent"


def test_a_download_that_failed_is_told_with_the_way_out(client, model):
    told = []
    model.message_told.connect(lambda *message: told.append(message))
    standing(client, Download(A.source, "waiting"))
    standing(client, Download(A.source, "absent", problem="The disk is full.", way_out="Make room."))
    assert told == [("error", "The disk is full.", "Make room.")]
    # One that was cancelled is no news to who cancelled it.
    standing(client, Download(A.source, "fetching", 5, 10))
    standing(client, Download(A.source, "part", 5, 10))
    assert len(told) == 1


def test_a_download_that_was_cut_is_told_once_however_often_it_is_tried(client, model):
    told = []
    model.message_told.connect(lambda *message: told.append(message))
    standing(client, Download(A.source, "fetching", 5, 10))
    cut = Download(A.source, "cut", 5, 10, problem="It was cut.", way_out="It goes on by itself.", again_at=60.0)
    standing(client, cut)
    for again_at in (None, 180.0):
        standing(client, replace(cut, again_at=again_at))
    assert told == [("notice", "It was cut.", "It goes on by itself.")]
    model.refresh()
    client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(A, B)))
    assert model.download_of(A).again_at == 180.0


def test_a_wish_that_is_refused_is_told(client, model):
    told = []
    model.message_told.connect(lambda *message: told.append(message))
    model.get(A.source)
    model.cancel(A.source)
    for method in (protocol.MODELS_GET, protocol.MODELS_CANCEL_GETTING):
        assert client.asked(method) == [protocol.HubModel(source=A.source)]
        client.refuse(method, "No.", way_out="Wait.")
    assert told == [("error", "No.", "Wait.")] * 2


def test_what_an_engine_was_fetching_is_asked_of_the_next(client, model):
    standing(client, Download(A.source, "fetching", 5, 10))
    client.die()
    assert model.download_of(A).state == "absent"
    client.become_ready()
    part = entry("a", Download(A.source, "part", 5))
    client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(part, B)))
    assert model.download_of(model.entries[0]).state == "part"


def test_a_download_that_is_in_no_catalogue_is_asked_about_once(client, model):
    other = entry("other")
    asked = len(client.asked(protocol.MODELS_CATALOGUE))
    standing(client, Download(other.source, "waiting"))
    standing(client, Download(other.source, "fetching", 5, 10))
    assert len(client.asked(protocol.MODELS_CATALOGUE)) == asked + 1
    client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(A, B), others=(other,)))
    assert model.others == (other,)
    assert model.download_of(other).num_bytes == 5
