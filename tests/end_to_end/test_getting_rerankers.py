"""Tests for getting a reranker from a hub on this machine, as the window does it: searches are read with it then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import protocol
from tests.helpers.engine_process import EngineProcess
from tests.helpers.model_hub import ModelHub
from tests.helpers.tiny_reranker import write_tiny_reranker

REPO = "owner/tiny"
WANTED = protocol.HubFolder(source=REPO)
SEARCH = protocol.Search(query="What is the notice period?", top_k=3)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[ModelHub]:
    with ModelHub() as made:
        made.put_folder(REPO, write_tiny_reranker(tmp_path / "made"))
        yield made


def test_a_reranker_comes_is_used_and_what_is_found_without_it_is_told(home: Path, tmp_path: Path):
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(4):
        (documents / f"{number}.txt").write_text(f"The notice period of flat {number} is long.", encoding="utf-8")
    with EngineProcess(home) as engine:
        engine.add(documents)
        engine.result(protocol.RERANKERS_GET, WANTED)
        engine.wait_for(
            lambda notice: isinstance(notice, protocol.RerankerDownloads) and notice.downloads[0].state == "there"
        )
        assert len(engine.result(protocol.SEARCH, SEARCH).passages) == 3
        told = engine.result(protocol.RERANKERS)
        here = next(one for one in told.rerankers if one.source == REPO)
        assert engine.result(protocol.SETTINGS_GET).settings["retrieval"]["reranker"] == here.path
        assert (told.num_read > 0, told.seconds > 0, told.problem) == (True, True, "")
        refused = engine.request(protocol.RERANKERS_DELETE, WANTED)
        assert refused.error is not None
        assert "is in use" in refused.error.sentence
        (Path(here.path) / "model.safetensors").unlink()
        engine.result(protocol.SETTINGS_SET, protocol.SetSettings(changes={"retrieval.reranker": ""}))
        assert engine.request(protocol.RERANKERS_GET, protocol.HubFolder(source="a nice one")).error is not None
    with EngineProcess(home) as engine:
        changes = {"retrieval.reranker": str(tmp_path / "made")}
        engine.result(protocol.SETTINGS_SET, protocol.SetSettings(changes=changes))
        (tmp_path / "made" / "model.safetensors").write_bytes(b"no weights at all")
        assert len(engine.result(protocol.SEARCH, SEARCH).passages) == 3
        problem = engine.wait_for(lambda notice: isinstance(notice, protocol.Problem))
        assert "cannot be loaded" in problem.sentence
        assert engine.result(protocol.RERANKERS).problem == problem.sentence
