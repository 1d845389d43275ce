"""Tests for engine.cli.hub_search: a hub on this machine, searched from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.errors import BadRequest, DownloadFailed
from tests.helpers.model_hub import ModelHub
from tests.helpers.ragdoll_command import ragdoll

FOUND = [
    {"id": "maker/models-GGUF", "downloads": 12_345, "likes": 1, "gated": False},
    {"id": "gate/keeper-GGUF", "gated": "auto"},
]


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.found = list(FOUND)
        ragdoll("settings", f"models.hub={made.address}")
        yield made


def test_what_is_called_like_the_words_is_listed(hub: ModelHub):
    told = ragdoll("models", "search", "qwen", "coder")
    assert told.splitlines() == [
        "maker/models-GGUF  12,345 downloads lately  1 like",
        "gate/keeper-GGUF  only with an account",
        "See what there is of one with ragdoll models get OWNER/NAME.",
    ]
    [(address, _)] = hub.asked
    assert "search=qwen+coder&" in address


def test_scripts_get_it_as_json(hub: ModelHub):
    assert json.loads(ragdoll("models", "search", "qwen coder", "--json")) == {
        "repositories": [
            {"name": "maker/models-GGUF", "downloads": 12_345, "likes": 1, "is_gated": False},
            {"name": "gate/keeper-GGUF", "downloads": None, "likes": None, "is_gated": True},
        ]
    }


def test_without_words_and_where_nothing_is_found_it_says_so(hub: ModelHub):
    with pytest.raises(BadRequest, match="needs words"):
        ragdoll("models", "search")
    with pytest.raises(BadRequest, match="no words"):
        ragdoll("models", "search", " ")
    assert hub.asked == []
    hub.found = []
    with pytest.raises(DownloadFailed, match="No GGUF model on"):
        ragdoll("models", "search", "qwen")


def test_another_command_takes_one_name(hub: ModelHub):
    with pytest.raises(BadRequest, match="'ragdoll models use' takes one name"):
        ragdoll("models", "use", "my", "model.gguf")
