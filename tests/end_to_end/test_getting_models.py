"""Tests for getting a model from a hub on this machine, as the window and scripts do it: stopped, killed, gone on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import protocol
from engine.core import Download
from tests.helpers.engine_process import CAREFUL, PATIENCE_S, EngineProcess
from tests.helpers.model_hub import ModelHub, Refusal
from tests.helpers.ragdoll_command import Ragdoll
from tests.helpers.tiny_gguf import write_tiny_model

REPO, FILE = "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "qwen2.5-0.5b-instruct-q4_0.gguf"
SOURCE = f"{REPO}/{FILE}"
WANTED = protocol.HubModel(source=SOURCE)


class StandingHub(ModelHub):
    """Stands still in the middle of a file, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.stands, self.go_on = threading.Event(), threading.Event()
        self.piece_bytes = 200_000
        self.between = self._stand

    def _stand(self, sent: int) -> None:
        if sent:
            self.stands.set()
            self.go_on.wait(PATIENCE_S)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[StandingHub]:
    with StandingHub() as made:
        made.put(REPO, FILE, write_tiny_model(tmp_path / "tiny.gguf", layers=4).read_bytes())
        yield made
        made.go_on.set()


def told(engine: EngineProcess, state: str) -> Download:
    def is_wanted(notice: protocol.Notice) -> bool:
        return isinstance(notice, protocol.ModelDownloads) and notice.downloads[-1].state == state

    return engine.wait_for(is_wanted).downloads[-1]


def standing(engine: EngineProcess) -> Download:
    catalogue = engine.result(protocol.MODELS_CATALOGUE).models
    return next(entry.download for entry in catalogue if entry.source == SOURCE)


def test_a_download_survives_the_engine_and_the_model_answers(home: Path, hub: StandingHub):
    with EngineProcess(home, None, CAREFUL) as engine:
        assert standing(engine).state == "absent"
        engine.result(protocol.MODELS_GET, WANTED)
        assert told(engine, "fetching").total_bytes > 200_000
        assert hub.stands.wait(PATIENCE_S)
        engine.kill()
    hub.go_on.set()
    with EngineProcess(home, None, CAREFUL) as engine:
        part = standing(engine)
        assert part.state == "part"
        assert part.num_bytes > 0
        engine.result(protocol.MODELS_GET, WANTED)
        told(engine, "there")
        assert hub.asked_for_files == ["", f"bytes={part.num_bytes}-"]
        models = engine.result(protocol.MODELS)
        assert [entry.path for entry in models.models] == [models.current]
        engine.wait_for(lambda notice: isinstance(notice, protocol.ModelState) and notice.state == "loaded")
        assert models.models[0].deletable_bytes == models.models[0].file_bytes
        engine.result(protocol.MODELS_DELETE, protocol.ModelFile(path=models.current))
        assert engine.result(protocol.MODELS) == protocol.ModelsReply(models=(), current="")
        assert standing(engine).state == "absent"
        assert not Path(models.current).exists()


def test_a_download_that_is_cancelled_or_refused_is_told_of(home: Path, hub: StandingHub):
    with EngineProcess(home, None, CAREFUL) as engine:
        engine.result(protocol.MODELS_GET, WANTED)
        told(engine, "fetching")
        assert hub.stands.wait(PATIENCE_S)
        engine.result(protocol.MODELS_CANCEL_GETTING, WANTED)
        assert told(engine, "part").problem == ""
        hub.go_on.set()
        hub.refusals = [Refusal(403)]
        engine.result(protocol.MODELS_GET, WANTED)
        engine.wait_for(
            lambda notice: isinstance(notice, protocol.ModelDownloads) and notice.downloads[0].problem != ""
        )
        assert "account" in standing(engine).problem
        found = engine.result(protocol.MODELS_LOOK_UP, protocol.HubModel(source=REPO))
        assert [entry.source for entry in found.files] == [SOURCE]
        refused = engine.request(protocol.MODELS_GET, protocol.HubModel(source="a nice one"))
        assert refused.error is not None
        assert refused.error.kind == "BadRequest"


def test_the_command_lists_what_can_be_got_and_gets_it(home: Path, hub: StandingHub):
    hub.go_on.set()
    ragdoll = Ragdoll(home)
    catalogue = ragdoll.json("models", "get")["catalogue"]
    assert {"absent"} == {entry["download"]["state"] for entry in catalogue}
    listed = ragdoll.run("models", "get")
    assert "qwen2.5-0.5b-instruct  about 0.4 GB  Apache-2.0" in listed.out
    done = ragdoll.json("models", "get", "qwen2.5-0.5b-instruct")
    assert done["got"] == done["current"] == done["models"][0]["path"]
    assert "is here" in ragdoll.run("models", "get").out
    missing = ragdoll.run("models", "get", f"{REPO}/other.gguf")
    assert missing.code == 1
    assert "There is no other.gguf" in missing.error
    assert ragdoll.run("models", "get", "nothing").code == 2


def test_the_command_lists_a_repository_and_takes_a_link(home: Path, hub: StandingHub):
    hub.go_on.set()
    ragdoll = Ragdoll(home)
    listed = ragdoll.run("models", "get", f"{hub.address}/{REPO}")
    assert f"{SOURCE}  0.0 GB" in listed.out
    assert [entry["source"] for entry in ragdoll.json("models", "get", REPO)["files"]] == [SOURCE]
    done = ragdoll.json("models", "get", f"{hub.address}/{REPO}/resolve/main/{FILE}?download=true")
    assert done["got"] == done["current"]
    assert f"{SOURCE}  0.0 GB  is here" in ragdoll.run("models", "get", REPO).out
    assert ragdoll.json("models", "delete", FILE)["models"] == []
    assert not Path(done["got"]).exists()
    elsewhere = ragdoll.run("models", "get", "https://example.org/m.gguf")
    assert elsewhere.code == 2
    assert "leads elsewhere: example.org" in elsewhere.error


def test_a_command_that_is_interrupted_says_that_it_can_go_on(home: Path, hub: StandingHub):
    ragdoll = Ragdoll(home)
    command = ragdoll.start("models", "get", SOURCE)
    while not any(part.stat().st_size for part in home.rglob("*.part")):
        assert command.poll() is None
        time.sleep(0.02)
    os.kill(command.pid, signal.SIGINT)
    hub.go_on.set()
    _, error = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 130
    assert "what was downloaded is kept" in error
    ragdoll.json("models", "get", SOURCE)
    assert hub.asked_for_files[-1].startswith("bytes=")
