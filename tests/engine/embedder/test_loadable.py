"""Tests for engine.embedder.loadable: what the engine's own process never has to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config import EmbedderSettings
from engine.embedder import resolve
from engine.embedder.loadable import tried
from engine.errors import EmbedderUnavailable
from tests.helpers.tiny_embedder import write_tiny_embedder


def test_a_model_that_can_be_loaded_passes():
    for _ in tried(resolve(EmbedderSettings())):
        pass


def test_who_closes_it_leaves_nothing_running():
    steps = tried(resolve(EmbedderSettings()))
    next(steps)
    steps.close()


def test_weights_that_are_none_are_told_with_a_way_out(tmp_path: Path):
    folder = write_tiny_embedder(tmp_path / "broken")
    (folder / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(EmbedderUnavailable, match="broken came and cannot be used: ") as error:
        for _ in tried(resolve(EmbedderSettings(model=str(folder)))):
            pass
    assert "Choose another one" in error.value.way_out
