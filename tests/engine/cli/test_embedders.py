"""Tests for engine.cli.embedders: models of a hub on this machine, listed, got and used from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.embedder.catalogue import CATALOGUE
from engine.errors import BadRequest, EmbedderUnavailable
from tests.helpers.model_hub import ModelHub
from tests.helpers.ragdoll_command import ragdoll
from tests.helpers.tiny_embedder import write_tiny_embedder


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.put_folder("owner/tiny", write_tiny_embedder(tmp_path / "made"))
        ragdoll("settings", f"models.hub={made.address}")
        yield made


def test_models_are_listed_with_what_they_are_good_for():
    told = ragdoll("embedders")
    assert "multilingual-e5-small  about 0.5 GB  MIT\n    About a hundred languages" in told
    assert "The built-in model is in use; it is for English." in told
    asked = json.loads(ragdoll("embedders", "--json"))
    assert [entry["name"] for entry in asked["embedders"]] == [one.name for one in CATALOGUE]
    assert asked["current"] is None


def test_one_is_got_and_used_and_the_built_in_one_again(hub: ModelHub, tmp_path: Path):
    told = ragdoll("embedders", "get", "owner/tiny")
    assert "* tiny  is here\n    owner/tiny" in told
    told = ragdoll("embedders", "use", "built-in")
    assert "  tiny  is here" in told
    assert "built-in model is in use" in told
    hub.asked.clear()
    assert "* tiny" in ragdoll("embedders", "use", "Tiny")
    assert hub.asked == []
    assert f"In use: {tmp_path / 'made'}" in ragdoll("embedders", "use", str(tmp_path / "made"))


def test_a_folder_is_the_same_from_wherever_it_is_looked_for(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("./made", "made"):
        assert f"In use: {tmp_path / 'made'}" in ragdoll("embedders", "use", name)
    assert f'models.folder="{tmp_path / "models"}"' in ragdoll("settings", "models.folder=./models")
    assert f'embedder.model="{tmp_path / "made"}"' in ragdoll("settings", "embedder.model=made")
    assert 'embedder.model=""' in ragdoll("settings", "embedder.model=")
    with pytest.raises(EmbedderUnavailable, match="cannot be read"):
        ragdoll("embedders", "use", "~nobody-at-all/made")


def test_one_that_was_got_is_deleted_once_another_is_in_use(hub: ModelHub, tmp_path: Path):
    ragdoll("embedders", "get", "owner/tiny")
    with pytest.raises(BadRequest, match="owner/tiny is in use"):
        ragdoll("embedders", "delete", "tiny")
    ragdoll("embedders", "use", "built-in")
    told = ragdoll("embedders", "delete", "Tiny")
    assert "tiny  " not in told
    with pytest.raises(BadRequest, match="names no embedding model of the hub"):
        ragdoll("embedders", "delete", "tiny")
    with pytest.raises(BadRequest, match="not in the folder of models"):
        ragdoll("embedders", "delete", str(tmp_path / "made"))
    with pytest.raises(BadRequest, match="built-in embedding model cannot be deleted"):
        ragdoll("embedders", "delete", "built-in")


def test_of_two_that_are_called_alike_none_is_deleted_by_that_name(hub: ModelHub, tmp_path: Path):
    hub.put_folder("another/tiny", tmp_path / "made")
    for source in ("another/tiny", "owner/tiny"):
        ragdoll("embedders", "get", source)
    ragdoll("embedders", "use", "built-in")
    with pytest.raises(BadRequest, match="Several are called tiny: another/tiny and owner/tiny") as error:
        ragdoll("embedders", "delete", "tiny")
    assert "OWNER/NAME" in error.value.way_out
    assert "another/tiny" not in ragdoll("embedders", "delete", "another/tiny")
    assert "owner/tiny" not in ragdoll("embedders", "delete", "tiny")


def test_what_is_not_here_cannot_be_used():
    with pytest.raises(EmbedderUnavailable, match="not on this computer"):
        ragdoll("embedders", "use", "owner/nothing")
    with pytest.raises(BadRequest, match="needs a name"):
        ragdoll("embedders", "get")
