"""Tests for engine.life_cycle: what is told of a changed setting is so, or it is said that it waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import BadRequest
from engine.generation.commands import UseModel
from engine.library.parsers.pool import PoolLimits
from tests.helpers.quick_stores import use_quick_stores
from tests.helpers.tiny_gguf import write_tiny_model

MIB = 2**20


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    use_quick_stores(monkeypatch.setattr)
    with Engine.open(tmp_path / "home") as engine:
        yield engine


@pytest.fixture
def used(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[UseModel]:
    """What those who answer are told to use."""
    told: list[UseModel] = []
    monkeypatch.setattr(engine._parts.generation, "use", told.append)
    monkeypatch.setattr(engine._choice, "_hand_over", told.append)
    return told


def test_limits_of_reading_hold_from_the_next_file_on(engine: Engine):
    engine.change_settings(
        {"library.parse_seconds": 7.5, "library.parse_memory_bytes": 512 * MIB, "library.parser_processes": 3}
    )
    pool, viewer = engine._parts.pool, engine._parts.viewer
    assert pool._limits() == PoolLimits(4, 7.5, 512 * MIB), "and one that cuts in"
    assert viewer._limits() == PoolLimits(1, 7.5, 512 * MIB)


def test_another_reserve_is_held_at_once(engine: Engine):
    reserve = engine.home.library / "reserve"
    engine.change_settings({"library.reserve_bytes": MIB})
    engine._parts.reserve.hold()
    assert reserve.stat().st_size == MIB


def test_which_model_answers_is_changed_where_its_file_is_looked_at(
    engine: Engine, used: list[UseModel], tmp_path: Path
):
    model = write_tiny_model(tmp_path / "a.gguf")
    with pytest.raises(BadRequest, match="ragdoll models use"):
        engine.change_settings({"models.current": str(tmp_path / "nowhere.gguf"), "generation.seed": 7})
    assert (engine.settings.models.current, engine.settings.generation.seed) == ("", None)
    engine.use_model(model)
    assert engine.change_settings({"models.current": str(model), "generation.seed": 7}).generation.seed == 7
    with pytest.raises(BadRequest):
        engine.change_settings({"models.current": ""})
    assert used == [UseModel(model)]


def test_a_model_that_somebody_wrote_into_the_file_answers_with_the_next_change(
    engine: Engine, used: list[UseModel], tmp_path: Path
):
    model = write_tiny_model(tmp_path / "a.gguf")
    engine.change_settings({"generation.seed": 7})
    engine.home.settings_file.write_text(f"[models]\ncurrent = '{model}'\n")
    engine.change_settings({"generation.top_k": 7})
    assert (engine.settings.models.current, used) == (str(model), [UseModel(model)])
    engine.change_settings({"generation.top_k": 8})
    engine.home.settings_file.write_text("")
    engine.change_settings({"generation.top_k": 9})
    assert used == [UseModel(model), UseModel(None)]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("embedder.num_threads", 1, "the embedding model's threads"),
        ("embedder.backend", "sentence-transformers", "what runs the embedding model"),
        ("memory.lance_index_cache_bytes", 2 * MIB, "LanceDB's cache of its index"),
    ],
)
def test_what_waits_for_a_restart_is_told(engine: Engine, name: str, value: object, words: str):
    before = getattr(getattr(engine.settings, name.partition(".")[0]), name.partition(".")[2])
    # Nothing has been opened by it yet.
    engine.change_settings({name: value})
    assert engine.settings_pending == ""
    engine._parts.stores()
    engine.change_settings({name: before})
    told = f"Changed in the settings, and in force once Ragdoll is started again: {words}."
    assert engine.settings_pending == told
    engine.change_settings({"generation.seed": 7})
    assert engine.settings_pending == told
    engine.change_settings({name: value})
    assert engine.settings_pending == ""


def test_a_model_that_was_chosen_is_told_to_those_who_answer_once(engine: Engine, used: list[UseModel], tmp_path: Path):
    engine.use_model(model := write_tiny_model(tmp_path / "a.gguf"), n_gpu_layers=0)
    engine.add_model(model)
    assert used == [UseModel(model, n_gpu_layers=0)]
