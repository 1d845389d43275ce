"""Tests for engine.models.hub_search and for searching in engine.models.hub: over real sockets, on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from engine.errors import BadRequest, DownloadFailed
from engine.models.hub import Hub
from engine.models.hub_search import Wanted, repositories_in
from tests.helpers.model_hub import ModelHub, Refusal


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.found = [
            {"id": "maker/models-GGUF", "downloads": 12_345, "likes": 7, "gated": False, "private": False},
            {"id": "gate/keeper-GGUF", "downloads": 99, "likes": 0, "gated": "manual"},
            {"modelId": "old/mirror-GGUF"},
        ]
        yield made


def search(hub: ModelHub, words: str = "qwen coder") -> list[tuple[str, int | None, int | None, bool]]:
    found = Hub(hub.address).search(Wanted.parse(words))
    return [(str(one.folder), one.downloads, one.likes, one.is_gated) for one in found]


def test_what_is_called_like_the_words_is_told_as_the_hub_has_it(hub: ModelHub) -> None:
    assert search(hub) == [
        ("maker/models-GGUF", 12_345, 7, False),
        ("gate/keeper-GGUF", 99, 0, True),
        ("old/mirror-GGUF", None, None, False),
    ]


def test_only_the_words_are_told_to_the_hub_and_nobody_says_them(hub: ModelHub) -> None:
    search(hub, "  Qwen3   coder & 日本語 ")

    [(address, _)] = hub.asked
    query = parse_qs(urlsplit(address).query)
    assert query.pop("expand") == ["downloads", "likes", "gated"]
    assert query == {
        "search": ["Qwen3 coder & 日本語"],
        "filter": ["gguf"],
        "sort": ["downloads"],
        "limit": ["20"],
    }
    assert hub.accounts == [""]


@pytest.mark.parametrize("words", ["", "   ", "?!", "\n"])
def test_without_a_word_nothing_is_asked(hub: ModelHub, words: str) -> None:
    with pytest.raises(BadRequest, match="no words"):
        search(hub, words)
    assert hub.asked == []


def test_very_many_words_are_cut_and_what_is_no_text_is_sent_as_one(hub: ModelHub) -> None:
    search(hub, "qwen " * 500 + "\udcff")
    search(hub, "qwen \udcff")

    sent = [parse_qs(urlsplit(address).query)["search"][0] for address, _ in hub.asked]
    assert [len(one) for one in sent] == [200, 6]


def test_nothing_found_is_said_with_the_words(hub: ModelHub) -> None:
    hub.found = []
    with pytest.raises(DownloadFailed, match=r"No GGUF model on 127\.0\.0\.1\S* matches “qwen coder”") as error:
        search(hub)
    assert error.value.way_out == "Try fewer words, or others."


def test_a_mirror_that_cannot_be_searched_says_what_else_to_do(hub: ModelHub) -> None:
    hub.found = None
    with pytest.raises(DownloadFailed, match=r"cannot be searched by words \(404\)") as error:
        search(hub)
    assert "OWNER/NAME" in error.value.way_out


@pytest.mark.parametrize(
    ("refusal", "sentence", "way_out"),
    [
        (Refusal(503), r"a problem of its own \(503\)", "Search again later."),
        (Refusal(429, {"Retry-After": "600"}), "asks you to wait", "Search again in 10 minutes."),
        (Refusal(429), "asks you to wait", "Search again in some minutes."),
        (Refusal(401), r"cannot be searched by words \(401\)", "Paste the link"),
        (Refusal(200, {"Content-Type": "text/html"}, b"<html>Sign in"), "something other than a list of models", ""),
        (Refusal(200, {}, b'{"error": "no"}'), "something other than a list of models", ""),
        (Refusal(200, {}, b"[1, 2]"), "something other than a list of models", ""),
    ],
)
def test_each_refusal_is_a_sentence_and_a_way_out(hub: ModelHub, refusal: Refusal, sentence: str, way_out: str) -> None:
    hub.refusals = [refusal]
    with pytest.raises(DownloadFailed, match=sentence) as error:
        search(hub)
    assert way_out in error.value.way_out


def test_a_hub_out_of_reach_is_told_without_a_word_of_what_was_fetched() -> None:
    with ModelHub() as gone:
        address = gone.address
    with pytest.raises(DownloadFailed, match="cannot be reached") as error:
        Hub(address).search(Wanted.parse("qwen"))
    assert error.value.way_out == "Check that this computer is online, and try again."


@pytest.mark.parametrize(
    "entry",
    [{}, {"id": None}, {"id": "gpt2"}, {"id": "../../etc"}, {"id": "a/b", "private": True}, {"id": "a/b/m.gguf"}],
)
def test_what_cannot_be_named_is_not_told(entry: dict[str, Any]) -> None:
    assert repositories_in([entry, {"id": "a/c"}], "https://hub")[0].folder.repo == "a/c"


@pytest.mark.parametrize("count", [None, "many", -1, True, 1.5])
def test_what_is_no_count_is_not_told(count: object) -> None:
    [one] = repositories_in([json.loads(json.dumps({"id": "a/c", "downloads": count, "likes": count}))], "https://hub")
    assert (one.downloads, one.likes) == (None, None)


def test_a_hub_that_tells_of_more_than_was_asked_for_is_cut() -> None:
    assert len(repositories_in([{"id": f"a/m{number}"} for number in range(500)], "https://hub")) == 20
