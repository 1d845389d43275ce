"""Tests for app.models.hub_files."""

from __future__ import annotations

import pytest

from app.models.catalogue import CatalogueModel
from app.models.hub_files import HubFilesModel
from app.models.model_picker import ModelPickerModel
from engine import protocol
from engine.protocol import (
    CatalogueEntry,
    Download,
    HubFiles,
    HubRepositories,
    HubRepository,
    ModelDownloads,
    ModelEntry,
)


def entry(name: str) -> CatalogueEntry:
    source = f"owner/name/{name}.gguf"
    model = ModelEntry(path=f"/m/{name}.gguf", name=name, file_bytes=2**30)
    return CatalogueEntry(source=source, model=model, download=Download(source), is_estimate=False)


A, B = entry("a"), entry("b")


@pytest.fixture
def found(client) -> HubFilesModel:
    return HubFilesModel(client, CatalogueModel(client), ModelPickerModel(client))


def tell_models(client, *entries: ModelEntry) -> None:
    for request in list(client.open):
        if request.method is protocol.MODELS:
            client.answer(protocol.MODELS, protocol.ModelsReply(models=entries, current=""))


def test_a_repository_shows_what_there_is_to_choose_from(client, found):
    found.look_up("owner/name")
    assert found.is_asking
    assert client.asked(protocol.MODELS_LOOK_UP) == [protocol.HubModel(source="owner/name")]
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="owner/name", files=(A, B)))
    assert (found.is_asking, found.folder, found.entries) == (False, "owner/name", (A, B))
    found.look_up("owner/other")
    assert found.entries == ()
    client.refuse(protocol.MODELS_LOOK_UP, "There is none.", way_out="Look there.")
    assert (found.is_asking, found.entries, found.problem) == (False, (), "There is none. Look there.")


def test_a_file_that_is_meant_is_named_and_nothing_is_shown(client, found, qtbot):
    found.look_up("owner/name/a.gguf")
    with qtbot.waitSignal(found.file_named) as named:
        client.answer(protocol.MODELS_LOOK_UP, HubFiles(files=(A,)))
    assert named.args == [A.source]
    assert (found.folder, found.entries, found.is_asking) == ("", (), False)


def test_what_was_asked_before_is_of_no_interest(client, found):
    found.look_up("owner/slow")
    found.clear()
    assert not found.is_asking
    found.look_up("owner/name")
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="owner/slow", files=(A,)))
    assert found.is_asking
    client.refuse(protocol.MODELS_LOOK_UP, "There is none.")
    assert found.problem == "There is none."


def test_each_stands_as_the_engine_says_last_or_is_on_the_list(client):
    catalogue, picker = CatalogueModel(client), ModelPickerModel(client)
    found = HubFilesModel(client, catalogue, picker)
    fetching = Download(A.source, "fetching", 5, 10)
    client.tell(ModelDownloads(downloads=(fetching,)))
    assert (found.download_of(A), found.download_of(B)) == (fetching, B.download)
    part = A.model_copy(update={"download": Download(A.source, "part", 5)})
    client.tell(ModelDownloads(downloads=(Download(A.source, "part", 5),)))
    for _ in client.asked(protocol.MODELS_CATALOGUE):
        client.answer(protocol.MODELS_CATALOGUE, protocol.CatalogueReply(models=(), others=(part,)))
    assert found.download_of(A).state == "part"
    picker.refresh()
    tell_models(client, A.model)
    assert found.download_of(A) == Download(A.source, "there")
    picker.refresh()
    tell_models(client)
    assert found.download_of(A).state == "part"


def test_words_are_told_from_what_names_a_model(client, found):
    catalogue = found._catalogue
    catalogue.refresh()
    client.answer(
        protocol.MODELS_CATALOGUE,
        protocol.CatalogueReply(models=(A.model_copy(update={"model": ModelEntry(path="/a", name="Qwen3 4B")}),)),
    )
    for text in ("owner/name", "https://huggingface.co", "m.gguf", "qwen3 4b", "c:\\my models\\a"):
        found.look_up(text)
    assert client.asked(protocol.MODELS_SEARCH) == []
    found.look_up("qwen3 4b instruct")
    assert client.asked(protocol.MODELS_SEARCH) == [protocol.HubWords(words="qwen3 4b instruct")]


def test_what_is_called_like_words_is_there_until_something_else_is_wanted(client, found):
    repositories = (HubRepository(name="owner/name"),)
    found.look_up(" qwen  coder ")
    client.answer(protocol.MODELS_SEARCH, HubRepositories(repositories=repositories))
    assert (found.words, found.repositories, found.is_asking) == ("qwen coder", repositories, False)
    found.choose("owner/name")
    client.answer(protocol.MODELS_LOOK_UP, HubFiles(folder="owner/name", files=(A,)))
    assert (found.folder, found.repositories) == ("owner/name", repositories)
    found.back()
    assert (found.folder, found.entries, found.repositories) == ("", (), repositories)
    found.look_up("gemma")
    assert (found.words, found.repositories) == ("", ())
    client.refuse(protocol.MODELS_SEARCH, "There is none.")
    assert found.problem == "There is none."
