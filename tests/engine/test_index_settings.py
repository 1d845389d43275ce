"""Tests for how the engine's settings and the Memory page reach the index of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import BadRequest
from engine.memory.hardware import probe


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Its table and index are opened when asked for; the embedder would load at its first text."""
    with Engine.open(tmp_path / "home") as engine:
        yield engine


def a_quarter_of_the_memory(engine: Engine) -> int:
    return probe(engine.home.data).ram_capacity_bytes // 4


def test_an_index_that_is_given_no_budget_may_take_a_quarter_of_the_memory(engine: Engine):
    assert engine._parts.stores().index._budget_bytes == a_quarter_of_the_memory(engine)


def test_a_changed_budget_holds_at_once_and_none_is_the_quarter_again(engine: Engine):
    index = engine._parts.stores().index
    engine.change_settings({"memory.index_budget_bytes": 12_345})
    assert index._budget_bytes == 12_345
    engine.change_settings({"memory.index_budget_bytes": None})
    assert index._budget_bytes == a_quarter_of_the_memory(engine)


def test_settings_of_before_hold_for_an_index_that_is_opened_later(engine: Engine):
    engine.change_settings({"memory.index_budget_bytes": 54_321, "retrieval.index_mode": "on_disk"})
    index = engine._parts.stores().index
    assert (index._budget_bytes, index._mode) == (54_321, "on_disk")


def test_mode_and_slack_can_be_changed_while_it_is_open(engine: Engine):
    index = engine._parts.stores().index
    engine.change_settings({"retrieval.index_mode": "on_disk", "retrieval.cold_slack": 0.4})
    index.maintain()
    assert (index._mode, index.cold_slack, index.index_bytes) == ("on_disk", 0.4, 0)
    engine.change_settings({"retrieval.index_mode": "resident", "retrieval.cold_slack": None})
    index.maintain()
    assert (index._mode, index.cold_slack) == ("resident", None)
    index.check_integrity()


@pytest.mark.parametrize(
    "changes",
    [{"memory.index_budget_bytes": -1}, {"retrieval.index_mode": "in_the_clouds"}, {"retrieval.cold_slack": -1}],
)
def test_settings_without_sense_are_refused(engine: Engine, changes: dict[str, object]):
    with pytest.raises(BadRequest):
        engine.change_settings(changes)


def test_the_memory_page_counts_partitions_once_they_are_open(engine: Engine):
    assert "partitions" not in engine.memory().counters
    engine._parts.stores()
    counters = engine.memory().counters
    assert {counters[name] for name in ("partitions", "partitions_resident", "partition_loads")} == {0.0}
