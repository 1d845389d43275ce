"""Tests for engine.models.elsewhere, and for what the engine tells of what was found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine import engine as engines
from engine.config import Home
from engine.models import elsewhere
from engine.models.elsewhere import Candidate, Place, candidates, places
from tests.helpers.tiny_gguf import write_split_model, write_tiny_model


@pytest.fixture(autouse=True)
def small_files_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_LEAST_BYTES", 1)


def found(folder: Path, *known: Path, depth: int = 6) -> list[str]:
    among = [Place("Some App", folder, depth)]
    return [one.path.relative_to(folder).as_posix() for one in candidates(among, [str(path) for path in known])]


def test_files_are_found_in_folders_of_folders_and_known_ones_are_not_told_again(tmp_path: Path):
    one, other = (tmp_path / name for name in ("owner/name/a.gguf", "owner/name/b.GGUF"))
    one.parent.mkdir(parents=True)
    write_tiny_model(one)
    write_tiny_model(other)
    assert found(tmp_path) == ["owner/name/a.gguf", "owner/name/b.GGUF"]
    assert found(tmp_path, one) == ["owner/name/b.GGUF"]
    assert found(tmp_path, depth=1) == []


def test_what_is_no_model_is_passed_over(tmp_path: Path):
    (tmp_path / "words.gguf").write_text("GGU, but no model")
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nowhere")
    # Whoever opens it waits for somebody who writes.
    os.mkfifo(tmp_path / "pipe.gguf")
    write_tiny_model(tmp_path / "model.bin")
    assert found(tmp_path) == []
    assert found(tmp_path / "not there") == []


def test_a_file_is_told_once_however_many_links_lead_to_it(tmp_path: Path):
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshots").mkdir()
    blob = write_tiny_model(tmp_path / "blobs" / "0123.gguf")
    (tmp_path / "snapshots" / "model.gguf").symlink_to(blob)
    assert len(found(tmp_path)) == 1
    assert found(tmp_path, tmp_path / "snapshots" / "model.gguf") == []


def test_of_a_model_in_several_files_the_first_is_told(tmp_path: Path):
    first, *later = write_split_model(tmp_path)
    assert later
    assert found(tmp_path) == [first.name]


def test_what_ollama_keeps_by_its_content_is_found(tmp_path: Path):
    (tmp_path / "blobs").mkdir()
    write_tiny_model(tmp_path / "blobs" / "sha256-0123")
    (tmp_path / "blobs" / "sha256-4567").write_text("{}")
    assert found(tmp_path) == ["blobs/sha256-0123"]


def test_nobody_looks_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(elsewhere, "_MOST_ENTRIES", 3)
    for name in "abcd":
        (tmp_path / name).mkdir()
    write_tiny_model(tmp_path / "d" / "m.gguf")
    assert found(tmp_path) == []


def test_places_follow_what_the_environment_says(tmp_path: Path):
    told = {
        "OLLAMA_MODELS": "/big/ollama",
        "HF_HOME": "/big/hub-home",
        "XDG_DATA_HOME": "/data",
        "LLAMA_CACHE": "/big/llama",
    }
    among = {(place.app, place.folder.as_posix()) for place in places(tmp_path, told, [Path("/ours")])}
    assert ("Ollama", "/big/ollama") in among
    assert ("Hugging Face", "/big/hub-home/hub") in among
    assert ("GPT4All", "/data/nomic.ai/GPT4All") in among
    assert ("llama.cpp", "/big/llama") in among
    assert ("", "/ours") in among
    assert ("LM Studio", (tmp_path / ".lmstudio/models").as_posix()) in among
    bare = {(place.app, place.folder.as_posix()) for place in places(tmp_path, {}, [])}
    assert ("Hugging Face", (tmp_path / ".cache/huggingface/hub").as_posix()) in bare


def test_the_engine_tells_how_each_would_run_and_leaves_out_what_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "somebody"
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: home)
    studio = home / ".lmstudio/models/owner/name"
    studio.mkdir(parents=True)
    write_tiny_model(studio / "good.gguf")
    (studio / "cut.gguf").write_bytes((studio / "good.gguf").read_bytes()[:300])
    engine = engines.Engine(Home.under(tmp_path / "ragdoll"))
    try:
        [one] = engine.models_elsewhere()
        assert (one.app, one.model.path) == ("LM Studio", str(studio / "good.gguf"))
        assert "layers" in one.model.fit
        engine.add_model(Path(one.model.path))
        assert engine.models_elsewhere() == ()
    finally:
        engine.close()


def test_candidates_say_who_brought_them(tmp_path: Path):
    path = write_tiny_model(tmp_path / "m.gguf")
    assert list(candidates([Place("Jan", tmp_path)], [])) == [Candidate("Jan", path)]
