"""Tests for engine.generation.model_leases."""

from __future__ import annotations

from pathlib import Path

from engine.generation.commands import UseModel
from tests.engine.generation.conftest import Desk


def test_weights_count_as_being_loaded_until_the_context_is_entered_as_well(desk: Desk, tiny_model: Path):
    # Else whoever measures what something else takes meanwhile would take the context for it.
    seen: list[set[tuple[str, str]]] = []
    desk.ledger.on_change = lambda: seen.append({(span.owner, span.state) for span in desk.ledger.spans("ram")})
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    assert ("weights", "resident") in seen[-1]
    assert ("weights", "loading") not in seen[-1]
    before = [states for states in seen if not any(owner == "workspace" for owner, _ in states)]
    assert any(("weights", "loading") in states for states in before)
    assert not any(("weights", "resident") in states for states in before)


def test_cells_are_entered_while_they_are_being_made(desk: Desk, tiny_model: Path):
    held: list[tuple[str, int]] = []
    desk.ledger.on_change = lambda: held.extend(
        (span.state, span.num_bytes) for span in desk.ledger.spans("ram") if span.owner == "kv"
    )
    desk.worker.use(UseModel(tiny_model))
    desk.model_state("loaded")
    coming, there = ({num_bytes for state, num_bytes in held if state == wanted} for wanted in ("loading", "resident"))
    assert coming == there
    assert len(there) == 1
    assert [span.state for span in desk.ledger.spans("ram") if span.owner == "kv"] == ["resident"]
