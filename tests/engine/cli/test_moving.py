"""Tests for engine.cli.moving: commands carry the library on to another embedding model, with models of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import assembly, life_cycle, stores, tables
from engine.config import EmbedderSettings, Home
from engine.embedder import EmbedderSpec
from engine.engine import Engine
from engine.errors import EmbedderUnavailable
from tests.helpers.embedders import LoadedEmbedder, resolved
from tests.helpers.library import FakeParser
from tests.helpers.ragdoll_command import ragdoll


class Pool(FakeParser):
    """What an engine has for its parsers, in this process."""

    def __init__(self, *_: object) -> None:
        super().__init__()

    def close(self) -> None:
        pass

    def memory_bytes(self) -> int:
        return 0


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of two files, indexed with the model "a"; the settings name "b" since."""
    monkeypatch.setenv("RAGDOLL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tables, "resolve", resolved)
    monkeypatch.setattr(life_cycle, "resolve", resolved)
    monkeypatch.setattr(stores, "Embedder", LoadedEmbedder)
    monkeypatch.setattr(assembly, "ParserPool", Pool)
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("okapi", "zebra"):
        (docs / name).write_text(f"The {name} is an animal.")
    want("a")
    ragdoll("add", str(docs))
    want("b")
    return docs


def want(model: str) -> None:
    """As with an editor: no engine is there to notice."""
    home = Home.find()
    home.create()
    home.settings_file.write_text(f'[embedder]\nmodel = "{model}"\n')


def model_at_work() -> tuple[str, str]:
    with Engine.open() as engine:
        state = engine.embedder()
        return state.name, state.next_name


@pytest.mark.parametrize("command", ["add", "rescan"])
def test_a_command_takes_the_library_to_the_model_of_the_settings(
    docs: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    capsys.readouterr()

    told = ragdoll(command, *([str(docs)] if command == "add" else []))

    assert told.startswith("0 documents indexed (0 chunks), 2 unchanged")
    assert capsys.readouterr().err.endswith("ragdoll: The library has moved to the embedding model b.\n")
    assert model_at_work() == ("b", "")


def test_scripts_get_their_one_document(docs: Path) -> None:
    assert json.loads(ragdoll("rescan", "--json"))["documents"]["unchanged"] == 2
    assert model_at_work() == ("b", "")


def test_of_a_library_that_stays_nothing_is_told(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    want("a")
    capsys.readouterr()

    ragdoll("rescan")

    assert capsys.readouterr().err == ""
    assert model_at_work() == ("a", "")


def test_a_move_that_stops_says_why_and_how_it_goes_on(
    docs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(self: LoadedEmbedder, texts: object) -> object:
        raise EmbedderUnavailable("Its weights are damaged.", "Download it again.")

    monkeypatch.setattr(LoadedEmbedder, "embed_documents", damaged)
    capsys.readouterr()

    assert ragdoll("rescan").startswith("0 documents indexed")

    assert capsys.readouterr().err == (
        "ragdoll: Its weights are damaged. Download it again.\n"
        "ragdoll: Moving from the embedding model a to b: 0 of 2 documents so far.\n"
    )
    assert "It goes on in the window, or with ragdoll rescan." in ragdoll("status")


def test_a_model_that_is_not_there_changes_nothing(
    docs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_the_first(settings: EmbedderSettings) -> EmbedderSpec:
        if settings.model == "b":
            raise EmbedderUnavailable("It is not on this computer.", "Get it.")
        return resolved(settings)

    monkeypatch.setattr(tables, "resolve", only_the_first)
    capsys.readouterr()

    ragdoll("rescan")

    assert capsys.readouterr().err == "ragdoll: It is not on this computer. Get it.\n"
    assert model_at_work() == ("a", "")
