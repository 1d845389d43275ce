"""Tests for engine.generation.applying, loading and engine.memory.planner on a second device: answers survive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.memory.demand import Budgets
from engine.memory.devices import Device
from engine.memory.ledger import Ledger
from engine.models.gguf import read_shape
from tests.device.conftest import CONTEXT_TOKENS, LAYERS, Decisive, DeviceDesk

MIB = 2**20
MakeDesk = Callable[[int | None], DeviceDesk]


def held_on_gpu(ledger: Ledger, owner: str) -> int:
    return sum(span.num_bytes for span in ledger.spans("gpu") if span.owner == owner)


def test_a_device_with_room_gets_everything(device_desk: MakeDesk, endless: Path, decisive: Decisive, device: Device):
    desk = device_desk(None)
    placement = desk.use(endless)
    assert (placement.n_gpu_layers, placement.kv_on_gpu) == (LAYERS + 1, True)
    assert placement.sentence.startswith(f"All {LAYERS} layers on the GPU")
    assert desk.ledger.held_bytes("gpu") <= placement.gpu_bytes <= device.capacity_bytes
    desk.begin(decisive.question)
    assert desk.text_of(decisive.question) == decisive.text


def test_a_device_too_small_for_the_model_gets_a_part_of_it(device_desk: MakeDesk, endless: Path, decisive: Decisive):
    budget_bytes = 7 * MIB
    assert read_shape(endless).weight_bytes + read_shape(endless).kv_bytes(CONTEXT_TOKENS) > budget_bytes
    desk = device_desk(budget_bytes)
    placement = desk.use(endless)
    loaded = desk.loader.loaded_now
    assert loaded is not None
    assert 1 < placement.n_gpu_layers <= LAYERS
    on_device = [layer for layer, name in loaded.model.layer_devices.items() if name != "CPU"]
    assert on_device == list(range(LAYERS + 1 - placement.n_gpu_layers, LAYERS + 1))
    assert f"{placement.layers_on_gpu} of {LAYERS} layers on the GPU" in placement.sentence
    assert desk.ledger.held_bytes("gpu") <= placement.gpu_bytes <= budget_bytes
    desk.begin(decisive.question)
    assert desk.text_of(decisive.question) == decisive.text


def test_a_device_with_room_for_nothing_is_left_alone(device_desk: MakeDesk, endless: Path, device: Device):
    desk = device_desk(0)
    assert desk.use(endless).n_gpu_layers == 0
    loaded = desk.loader.loaded_now
    assert loaded is not None
    assert not [name for name in loaded.context.compute_bytes if device.name in name and "_Host" not in name]
    assert desk.ledger.held_bytes("gpu") == 0


def test_keys_and_values_leave_the_device_and_return_while_an_answer_is_written(
    device_desk: MakeDesk, endless: Path, decisive: Decisive
):
    desk = device_desk(None)
    desk.use(endless)
    there = held_on_gpu(desk.ledger, "kv")
    assert there > 0
    desk.begin(decisive.question)
    settled = desk.place(kv_on_gpu=False)
    assert settled.is_in_force, settled
    assert "keys and values in memory" in settled.sentence
    assert held_on_gpu(desk.ledger, "kv") == 0
    settled = desk.place(kv_on_gpu=True)
    assert settled.is_in_force, settled
    assert held_on_gpu(desk.ledger, "kv") == there
    assert desk.text_of(decisive.question) == decisive.text


def test_layers_leave_the_device_and_return_while_an_answer_is_written(
    device_desk: MakeDesk, endless: Path, decisive: Decisive
):
    desk = device_desk(None)
    whole = desk.use(endless)
    desk.begin(decisive.question)
    for count in (4, 0):
        settled = desk.place(n_gpu_layers=count)
        assert settled.is_in_force, settled
        assert (desk.ledger.held_bytes("gpu") > 0) == (count > 0)
    settled = desk.apply(whole)
    assert settled.is_in_force, settled
    assert held_on_gpu(desk.ledger, "weights") > 0
    assert desk.text_of(decisive.question) == decisive.text


@pytest.mark.parametrize("budget_bytes", [0, 3 * MIB, 5 * MIB, 8 * MIB, 12 * MIB, 64 * MIB])
def test_what_is_planned_for_the_device_is_what_it_holds(device_desk: MakeDesk, endless: Path, budget_bytes: int):
    desk = device_desk(budget_bytes)
    placement = desk.use(endless)
    held = desk.ledger.held_bytes("gpu")
    assert held <= placement.gpu_bytes <= budget_bytes
    planned = {span.owner: span.num_bytes for span in placement.spans if span.tier == "gpu" and span.owner == "kv"}
    assert planned.get("kv", 0) == held_on_gpu(desk.ledger, "kv")
    assert desk.loader.demand is not None
    assert desk.loader.demand.budgets == Budgets(budget_bytes, None, None)


def test_an_answer_goes_on_with_layers_on_the_device_and_others_in_a_ring(
    device_desk: MakeDesk, endless: Path, decisive: Decisive
):
    desk = device_desk(None)
    whole = desk.use(endless)
    desk.begin(decisive.question)
    settled = desk.place(n_gpu_layers=5, is_repacked=False, streamed_layers=(1, 3), ring_slots=1)
    assert settled.is_in_force, settled
    loaded = desk.loader.loaded_now
    assert loaded is not None
    assert not loaded.context.spec.op_offload
    settled = desk.place(copies_streamed=True)
    assert settled.is_in_force, settled
    loaded = desk.loader.loaded_now
    assert loaded is not None
    assert loaded.context.spec.op_offload
    assert {span.what for span in desk.ledger.spans() if span.state == "streaming"} >= {"layer 1", "layer 3"}
    settled = desk.apply(whole)
    assert settled.is_in_force, settled
    assert desk.text_of(decisive.question) == decisive.text
