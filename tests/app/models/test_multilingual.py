"""Tests for app.models.multilingual."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QLocale

from app.models.library import LibraryModel
from app.models.multilingual import MultilingualModel, spoken_code
from app.settings import SettingsStore
from engine import protocol
from engine.protocol import Collection, EmbedderState, IndexProgress, LanguageReply
from tests.helpers.told_library import tell_library

ENGLISH = EmbedderState(name="all-MiniLM-L6-v2", identity="all-MiniLM-L6-v2@1")
GERMAN = LanguageReply(language="de", knows_english_only=True, offered_bytes=490_000_000)


def files(count: int) -> Collection:
    return Collection("Documents", ("/docs",), {"indexed": count}, count)


@pytest.fixture
def settings(tmp_path) -> SettingsStore:
    store = SettingsStore(tmp_path / "window.toml")
    store.change(language="en")
    return store


@pytest.fixture
def offer(client, settings) -> MultilingualModel:
    library = LibraryModel(client)
    return MultilingualModel(client, library, settings, parent=library)


def num_asked(client) -> int:
    return len(client.asked(protocol.LIBRARY_LANGUAGE))


def test_what_the_files_are_in_is_offered_for(client, offer, qtbot):
    assert num_asked(client) == 0
    tell_library(client, files(3), embedder=ENGLISH)
    assert offer.language == ""
    with qtbot.waitSignal(offer.offer_changed):
        client.answer(protocol.LIBRARY_LANGUAGE, GERMAN)
    assert (offer.language, offer.is_of_files, offer.num_bytes) == ("de", True, 490_000_000)


def test_the_engine_is_asked_again_only_when_the_library_has_grown_much(client, offer):
    for count in (4, 5, 7):
        tell_library(client, files(count), embedder=ENGLISH)
    assert num_asked(client) == 1
    client.answer(protocol.LIBRARY_LANGUAGE, LanguageReply(knows_english_only=True))
    tell_library(client, files(8), embedder=ENGLISH)
    assert num_asked(client) == 2
    client.answer(protocol.LIBRARY_LANGUAGE, GERMAN)
    assert offer.language == "de"


@pytest.mark.parametrize(
    ("count", "embedder"),
    [(0, ENGLISH), (3, EmbedderState()), (3, ENGLISH.model_copy(update={"next_name": "e5", "documents_to_move": 3}))],
)
def test_an_empty_library_and_one_that_moves_are_left_alone(client, offer, count, embedder):
    tell_library(client, files(count), embedder=embedder)
    assert num_asked(client) == 0


def test_while_files_are_read_nothing_is_asked(client, offer):
    client.tell(IndexProgress(documents_done=1, documents_total=3, chunks_done=9))
    tell_library(client, files(3), embedder=ENGLISH)
    assert num_asked(client) == 0


def test_a_model_that_knows_more_ends_the_offer(client, offer):
    tell_library(client, files(3), embedder=ENGLISH)
    client.answer(protocol.LIBRARY_LANGUAGE, GERMAN)
    tell_library(client, files(3), embedder=ENGLISH.model_copy(update={"next_name": "e5", "documents_to_move": 3}))
    assert offer.language == ""
    tell_library(client, files(3), embedder=EmbedderState(name="e5", identity="e5@1"))
    client.answer(protocol.LIBRARY_LANGUAGE, LanguageReply())
    assert offer.language == ""


def test_an_answer_about_a_model_that_was_in_use_before_is_of_no_interest(client, offer):
    tell_library(client, files(3), embedder=ENGLISH)
    tell_library(client, files(3), embedder=EmbedderState(name="e5", identity="e5@1"))
    client.answer(protocol.LIBRARY_LANGUAGE, GERMAN)
    assert offer.language == ""


def test_a_no_is_remembered(client, offer, settings, tmp_path):
    tell_library(client, files(3), embedder=ENGLISH)
    client.answer(protocol.LIBRARY_LANGUAGE, GERMAN)
    offer.decline()
    assert offer.language == ""
    again = SettingsStore(tmp_path / "window.toml")
    assert again.settings.declines_multilingual
    other = MultilingualModel(client, LibraryModel(client), again)
    tell_library(client, files(100), embedder=ENGLISH)
    assert num_asked(client) == 1
    assert other.language == ""


def test_who_reads_another_language_is_offered_it_for_english_files(client, offer, settings):
    tell_library(client, files(3), embedder=ENGLISH)
    client.answer(protocol.LIBRARY_LANGUAGE, LanguageReply(knows_english_only=True))
    assert offer.language == ""
    settings.change(language="zh_CN")
    assert (offer.language, offer.is_of_files) == ("zh", False)


def test_an_engine_that_is_started_carefully_loads_nothing_for_it(client, settings):
    library = LibraryModel(client)
    MultilingualModel(client, library, settings, lambda: True, library)
    tell_library(client, files(3), embedder=ENGLISH)
    assert num_asked(client) == 0


def test_where_it_cannot_be_told_nothing_is_said(client, offer):
    tell_library(client, files(3), embedder=ENGLISH)
    client.refuse(protocol.LIBRARY_LANGUAGE, "The table cannot be read.")
    assert offer.language == ""


@pytest.mark.parametrize(
    ("wished", "of_system", "code"),
    [("", "de_AT", "de"), ("zh_CN", "de_DE", "zh"), ("en", "de_DE", "en"), ("", "en_GB", "en"), ("", "C", "en")],
)
def test_the_language_of_the_user_is_that_of_the_window_or_of_the_system(wished, of_system, code):
    assert spoken_code(wished, QLocale(of_system)) == code
