"""Tests for engine.model_calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import ModelError
from tests.helpers.tiny_gguf import write_tiny_model


def test_a_model_whose_name_cannot_be_kept_is_refused_with_a_way_out(engine: Engine, tmp_path: Path):
    model = write_tiny_model(tmp_path / "tiny\udcff.gguf")
    for choose in (engine.add_model, engine.use_model):
        with pytest.raises(ModelError, match=r"not UTF-8.*Rename"):
            choose(model)
    assert engine.settings.models.known == ()
