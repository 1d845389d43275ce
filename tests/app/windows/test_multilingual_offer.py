"""Tests for app.widgets.multilingual_offer, on the Library page."""

from __future__ import annotations

import pytest

from app.widgets.multilingual_offer import MultilingualOffer
from app.windows.embedder_dialog import EmbedderDialog
from engine import protocol
from engine.protocol import Collection, EmbedderState, LanguageReply
from tests.helpers.told_library import tell_library

ENGLISH = EmbedderState(name="all-MiniLM-L6-v2", identity="all-MiniLM-L6-v2@1")


@pytest.fixture
def offer(window, client, models) -> MultilingualOffer:
    models.settings.change(language="en")
    page = window.go_to("library")
    tell_library(client, Collection("Documents", ("/docs",), {"indexed": 3}, 9), embedder=ENGLISH)
    return page.findChild(MultilingualOffer)


def tell(client, language: str) -> None:
    client.answer(
        protocol.LIBRARY_LANGUAGE,
        LanguageReply(language=language, knows_english_only=True, offered_bytes=490_000_000),
    )


def test_the_line_says_what_it_is_about_and_opens_the_choice_of_models(offer, client, window, qtbot):
    assert not offer.isVisible()
    tell(client, "de")
    assert offer.isVisible()
    assert offer.sentence == "Your files seem to be in German; the embedding model in use understands only English."
    assert "467 MiB" in offer.get.text()
    offer.get.click()
    dialog = window.findChild(EmbedderDialog)
    assert dialog.isVisible()
    assert window.place == "library"
    dialog.reject()
    assert offer.isVisible()


def test_not_now_means_never_again(offer, client, models):
    tell(client, "mul")
    assert "several languages" in offer.sentence
    offer.decline.click()
    assert not offer.isVisible()
    assert models.settings.settings.declines_multilingual
    tell_library(client, Collection("Documents", ("/docs",), {"indexed": 99}, 99), embedder=ENGLISH)
    assert not offer.isVisible()


def test_english_files_of_who_reads_english_need_nothing(offer, client):
    tell(client, "")
    assert not offer.isVisible()


def test_who_reads_another_language_may_want_to_ask_in_it(offer, client, models):
    tell(client, "")
    models.settings.change(language="zh_CN")
    assert offer.sentence == (
        "The embedding model in use understands only English. With a multilingual one you can ask in Chinese."
    )


def test_a_language_without_a_name_here_is_another_one(offer, client):
    tell(client, "xx")
    assert "in another language;" in offer.sentence
