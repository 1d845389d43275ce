"""Tests for engine.cli.rerankers: models of a hub on this machine, listed, got and used from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.embedder.reranker_catalogue import CATALOGUE
from engine.errors import BadRequest, EmbedderUnavailable
from tests.helpers.model_hub import ModelHub
from tests.helpers.ragdoll_command import ragdoll
from tests.helpers.tiny_reranker import write_tiny_reranker


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.put_folder("owner/tiny", write_tiny_reranker(tmp_path / "made"))
        ragdoll("settings", f"models.hub={made.address}")
        yield made


def test_rerankers_are_listed_with_what_they_are_good_for():
    told = ragdoll("rerankers")
    assert "ms-marco-minilm-l6-v2  about 0.1 GB  Apache-2.0\n    English only." in told
    assert "None is in use: passages come in the order in which they were found." in told
    asked = json.loads(ragdoll("rerankers", "--json"))
    assert [entry["name"] for entry in asked["rerankers"]] == [one.name for one in CATALOGUE]
    assert asked["current"] is None


def test_one_is_got_and_used_and_none_again(hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert "* tiny  is here\n    owner/tiny" in ragdoll("rerankers", "get", "owner/tiny")
    told = ragdoll("rerankers", "use", "none")
    assert "  tiny  is here" in told
    assert "None is in use" in told
    hub.asked.clear()
    assert "* tiny" in ragdoll("rerankers", "use", "Tiny")
    assert hub.asked == []
    monkeypatch.chdir(tmp_path)
    for name in (str(tmp_path / "made"), "made"):
        assert f"In use: {tmp_path / 'made'}" in ragdoll("rerankers", "use", name)
    assert f'retrieval.reranker="{tmp_path / "made"}"' in ragdoll("settings", "retrieval.reranker")


def test_one_that_was_got_is_deleted_once_it_is_not_in_use(hub: ModelHub):
    ragdoll("rerankers", "get", "owner/tiny")
    with pytest.raises(BadRequest, match="owner/tiny is in use"):
        ragdoll("rerankers", "delete", "tiny")
    ragdoll("rerankers", "use", "none")
    assert "tiny  " not in ragdoll("rerankers", "delete", "Tiny")
    with pytest.raises(BadRequest, match="names no reranker of the hub"):
        ragdoll("rerankers", "delete", "tiny")
    with pytest.raises(BadRequest, match="cannot be deleted"):
        ragdoll("rerankers", "delete", "none")


def test_what_is_not_here_cannot_be_used():
    with pytest.raises(EmbedderUnavailable, match="The reranker 'owner/nothing' is not on this computer"):
        ragdoll("rerankers", "use", "owner/nothing")
    with pytest.raises(BadRequest, match="'ragdoll rerankers get' needs a name"):
        ragdoll("rerankers", "get")


def test_why_passages_were_not_read_a_second_time_is_told_beside_what_was_found(
    hub: ModelHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(3):
        (docs / f"{number}.txt").write_text(f"The notice period of flat {number} is three months.", encoding="utf-8")
    ragdoll("add", str(docs))
    ragdoll("rerankers", "use", str(tmp_path / "made"))
    (tmp_path / "made" / "model.safetensors").write_bytes(b"no weights at all")
    capsys.readouterr()
    assert "three months" in ragdoll("search", "the notice period")
    assert "ragdoll: The reranker 'made' cannot be loaded" in capsys.readouterr().err
