"""Tests for engine.embedder.loadable: what the engine's own process never has to find out."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.config import EmbedderSettings
from engine.embedder import resolve
from engine.embedder.loadable import is_the_systems, tried
from engine.errors import EmbedderUnavailable, EmbedderUntried
from tests.helpers.tiny_embedder import write_tiny_embedder
from tests.helpers.tiny_reranker import write_tiny_reranker


def test_a_model_that_can_be_loaded_passes():
    for _ in tried(resolve(EmbedderSettings()).folder):
        pass


def test_a_reranker_that_can_be_loaded_passes_and_one_of_another_kind_is_told(tmp_path: Path):
    folder = write_tiny_reranker(tmp_path / "reads")
    for _ in tried(folder, "reranker"):
        pass
    (folder / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(EmbedderUnavailable, match="reads was downloaded, but cannot be used: The reranker 'reads'"):
        for _ in tried(folder, "reranker"):
            pass
    with pytest.raises(EmbedderUnavailable, match=r"sorts was downloaded, but cannot .* sorts texts into 3 kinds"):
        for _ in tried(write_tiny_reranker(tmp_path / "sorts", num_labels=3), "reranker"):
            pass


def test_a_trial_for_which_memory_is_short_says_nothing_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The child is given so little of it that the first text finds none."""
    short = tmp_path / "sitecustomize.py"
    short.write_text(
        "from engine.embedder import backends\n"
        "def encode(*arguments, **options):\n"
        "    raise RuntimeError('DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes.')\n"
        "def load(spec):\n"
        "    from types import SimpleNamespace\n"
        "    return SimpleNamespace(encode=encode)\n"
        "backends.load_light = load\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EmbedderUntried, match="could not be tried: there is not enough memory") as error:
        for _ in tried(resolve(EmbedderSettings()).folder):
            pass
    assert "what was downloaded is kept" in error.value.way_out


def test_who_closes_it_leaves_nothing_running():
    steps = tried(resolve(EmbedderSettings()).folder)
    next(steps)
    steps.close()


def test_weights_that_are_none_are_told_with_a_way_out(tmp_path: Path):
    folder = write_tiny_embedder(tmp_path / "broken")
    (folder / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(EmbedderUnavailable, match="broken was downloaded, but cannot be used: ") as error:
        for _ in tried(folder):
            pass
    assert "Choose another one" in error.value.way_out


def test_a_trial_that_is_killed_says_nothing_of_the_model(monkeypatch: pytest.MonkeyPatch):
    start = subprocess.Popen

    def killed(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start(*arguments, **options)
        process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", killed)
    with pytest.raises(EmbedderUntried, match="could not be tried") as error:
        for _ in tried(resolve(EmbedderSettings()).folder):
            pass
    assert "what was downloaded is kept" in error.value.way_out


@pytest.mark.parametrize(
    ("cause", "is_so"),
    [
        *[(OSError(errno.EMFILE, "Too many open files"), True), (MemoryError(), True)],
        # A file that the model lacks, and what libraries say of one that is none.
        *[(FileNotFoundError(errno.ENOENT, "No such file"), False), (OSError("no file named model"), False)],
        *[(ValueError("no weights"), False), (None, False), (RuntimeError("shapes do not match"), False)],
        # As torch says it.
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9000000000 bytes."), True),
    ],
)
def test_what_the_system_refuses_is_no_fault_of_the_model(cause: Exception | None, is_so: bool):
    first, error = EmbedderUnavailable("It cannot be loaded."), EmbedderUnavailable("It cannot be loaded.")
    first.__cause__, error.__cause__ = cause, first
    assert is_the_systems(error) is is_so
