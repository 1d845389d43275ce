"""Tests for engine.generation.model_leases."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.generation.commands import UseModel
from engine.generation.model_leases import ModelLeases
from engine.memory.demand import Backlog
from engine.memory.ledger import Ledger
from engine.memory.planner import plan
from tests.engine.generation.conftest import Desk
from tests.helpers.machines import DESKTOP, MODELS, machine, wanted


def test_weights_count_as_being_loaded_until_the_context_is_entered_as_well(desk: Desk, tiny_model: Path):
    # Else a measurement of what something else takes meanwhile would include the context.
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


def test_of_a_model_that_has_no_room_as_much_is_in_memory_as_fits_and_counts_for_nothing():
    ledger, shape = Ledger(), MODELS[1]
    placement = plan(machine(0, 4), DESKTOP, Backlog(), wanted(shape, is_streamable=False))
    assert placement.is_mapped
    room = sum(span.num_bytes for span in placement.spans if (span.owner, span.tier) == ("weights", "ram"))
    leases = ModelLeases(ledger)
    leases.take_weights(shape, placement)
    leases.note_copied(shape, placement, 0)
    held = ledger.held_bytes("ram", "weights")
    assert room < shape.weight_bytes / 2
    assert held == pytest.approx(room, abs=shape.num_layers)
    assert held + ledger.held_bytes("disk", "weights") == shape.weight_bytes
    assert (ledger.counted_bytes("ram"), ledger.counted_bytes("disk")) == (0, 0)
    leases.release()
    assert ledger.spans() == ()


def test_a_model_that_fits_counts_whether_it_is_copied_or_not():
    ledger, shape = Ledger(), MODELS[0]
    placement = plan(machine(0, 16), DESKTOP, Backlog(), wanted(shape))
    leases = ModelLeases(ledger)
    for copied_bytes in (0, sum(shape.layer_bytes)):
        leases.note_copied(shape, placement, copied_bytes)
        assert ledger.counted_bytes("ram") == shape.weight_bytes
    leases.release()


def test_what_stays_in_memory_beside_a_device_is_no_page_of_the_file():
    ledger, shape = Ledger(), MODELS[1]
    placement = plan(machine(4, 32), DESKTOP, Backlog(), wanted(shape))
    assert 0 < placement.layers_on_gpu < shape.num_layers
    in_memory = sum(shape.layer_bytes[: shape.num_layers - placement.layers_on_gpu])
    embeddings_bytes = shape.other_bytes - shape.output_bytes
    leases = ModelLeases(ledger)
    leases.note_copied(shape, placement, in_memory + embeddings_bytes)
    assert ledger.held_bytes("ram", is_mapped=False) == in_memory + embeddings_bytes
    leases.note_copied(shape, placement, 0)
    assert ledger.held_bytes("ram", is_mapped=True) == in_memory + embeddings_bytes
    leases.release()


def test_embeddings_beside_streamed_layers_are_left_to_the_page_cache():
    ledger, shape = Ledger(), MODELS[1]
    placement = plan(machine(0, 4), DESKTOP, Backlog(), wanted(shape))
    assert placement.streamed_layers
    leases = ModelLeases(ledger)
    leases.note_streamed(shape, placement)
    assert ledger.held_bytes("ram") == shape.other_bytes - shape.output_bytes
    assert ledger.counted_bytes("ram") == 0
    leases.release()


def test_answers_that_are_set_aside_are_in_the_ledger_until_they_go_on():
    ledger = Ledger()
    leases = ModelLeases(ledger)
    for saved, spilled in ((0, 0), (700, 0), (200, 500), (0, 700), (0, 0)):
        leases.note_set_aside(saved, spilled)
        assert (ledger.held_bytes("ram", "kv"), ledger.held_bytes("disk", "kv")) == (saved, spilled)
