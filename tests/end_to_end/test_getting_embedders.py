"""Tests for getting an embedding model from a hub on this machine, as the window does it: the library moves to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import protocol
from tests.helpers.engine_process import PATIENCE_S, EngineProcess
from tests.helpers.model_hub import ModelHub
from tests.helpers.tiny_embedder import write_tiny_embedder

REPO = "owner/tiny"
WANTED = protocol.HubFolder(source=REPO)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.put_folder(REPO, write_tiny_embedder(tmp_path / "made"))
        yield made


def has_moved(engine: EngineProcess) -> bool:
    embedder = engine.result(protocol.LIBRARY).embedder
    return (embedder.name, embedder.next_name) == ("tiny", "")


def test_a_model_comes_the_library_moves_to_it_and_what_was_found_is_found_again(
    home: Path, hub: ModelHub, tmp_path: Path
):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "lease.txt").write_text("The notice period of the flat is three months.", encoding="utf-8")
    (documents / "soup.txt").write_text("Boil the leek, then add cream and a little nutmeg.", encoding="utf-8")
    search = protocol.Search(query="The notice period of the flat", top_k=1)
    with EngineProcess(home) as engine:
        engine.add(documents)
        engine.result(protocol.EMBEDDERS_GET, WANTED)
        engine.wait_for(
            lambda notice: isinstance(notice, protocol.EmbedderDownloads) and notice.downloads[0].state == "there"
        )
        told = next(one for one in engine.result(protocol.EMBEDDERS).embedders if one.source == REPO)
        settings = engine.result(protocol.SETTINGS_GET).settings
        assert settings["embedder"]["model"] == told.path
        deadline = time.monotonic() + PATIENCE_S
        while not has_moved(engine) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert has_moved(engine)
        [found] = engine.result(protocol.SEARCH, search).passages
        assert found.document.endswith("lease.txt")
        refused = engine.request(protocol.EMBEDDERS_GET, protocol.HubFolder(source="a nice one"))
        assert refused.error is not None
        assert refused.error.kind == "BadRequest"
