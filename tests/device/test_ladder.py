"""Tests for the ladder of a device: allocations that fail walk it down in its order, calm times walk it up again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ModelLoadFailed
from engine.events import MemoryShort
from engine.generation.model import Model
from engine.memory.devices import Device, probe_devices
from engine.memory.hardware import probe
from engine.memory.ladder import LadderState, constrained
from engine.memory.standing import MAX_CALM_SECONDS, Standing
from tests.bench.side_process import SideProcess
from tests.device import short_device
from tests.device.conftest import LAYERS, Decisive, DeviceDesk, planning
from tests.helpers.tiny_gguf import write_tiny_model

# More than four layers and the output head, and than a compute buffer; less than five layers.
MOST_BYTES = 3_500_000
MOST_LAYERS = 4


def test_allocations_that_a_device_refuses_walk_down_its_ladder(
    endless: Path, decisive: Decisive, tmp_path: Path, device: Device
):
    if not device.name.startswith("Vulkan"):
        pytest.skip("only Vulkan's driver can be told to refuse")
    told = short_device.run(endless, decisive.question, tmp_path, MOST_BYTES)
    assert told["n_gpu_layers"] == MOST_LAYERS + 1
    assert told["given_up"] == ["kv_to_ram", *["layers_off_gpu"] * (LAYERS - MOST_LAYERS)]
    assert all("failed to allocate Vulkan" in sentence for sentence in told["told"])
    assert told["told"][0].endswith("Keys and values of the answers move from the graphics card to main memory.")
    assert told["told"][-1].endswith("4 layers of the model stay on the graphics card instead of 5.")
    assert f"{MOST_LAYERS} of {LAYERS} layers on the GPU" in told["decision"]
    assert told["text"] == decisive.text


def test_a_card_that_others_have_filled_since_it_was_looked_at_is_used_as_far_as_it_goes(
    tmp_path: Path, device: Device
):
    if not device.name.startswith("CUDA"):
        pytest.skip("this driver keeps no account of what others hold")
    model = write_tiny_model(
        tmp_path / "large.gguf",
        layers=LAYERS,
        dim=1024,
        ff=4096,
        heads=8,
        kv_heads=2,
        context=1024,
        chat_template=None,
        never_ends=True,
    )
    # The driver takes half of it for each process.
    with SideProcess.started("tests.bench.ballast", {"usable_bytes": 1_200_000_000}, None) as ballast:
        told = short_device.run_believing(model, "What is there?", tmp_path, 8 * 10**9)
        assert ballast.ask()["free_bytes"] > 0
    assert told["given_up"][0] == "kv_to_ram"
    assert set(told["given_up"][1:]) == {"layers_off_gpu"}
    assert 0 < told["n_gpu_layers"] <= LAYERS
    assert all("memory" in sentence for sentence in told["told"])
    assert told["text"]


def test_with_time_all_that_was_given_up_is_taken_back_in_reverse_while_an_answer_is_written(
    device_desk: Callable[[int | None], DeviceDesk],
    endless: Path,
    decisive: Decisive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    load = Model.load

    def load_few(self: Model, n_gpu_layers: int, *rest: Any) -> None:
        if n_gpu_layers > LAYERS - 1:
            raise ModelLoadFailed("It could not be loaded (failed to allocate Vulkan0 buffer of size 5932544).")
        load(self, n_gpu_layers, *rest)

    desk = device_desk(None)
    with monkeypatch.context() as patch:
        patch.setattr(Model, "load", load_few)
        desk.use(endless)
    given_up = desk.loader.loaded_now.plan.given_up
    assert [rung.kind for rung in given_up] == ["kv_to_ram", "layers_off_gpu", "layers_off_gpu"]
    assert len([event for event in desk.events if isinstance(event, MemoryShort)]) == len(given_up)
    desk.begin(decisive.question, max_tokens=24)
    standing, now, back = Standing(), 0.0, []
    for rung in given_up:
        standing.give_up(rung, now)
    while standing.holds("gpu"):
        now += MAX_CALM_SECONDS
        demand = desk.loader.demand
        assert demand is not None
        state = LadderState(demand, desk.placement, standing.given_up)
        if (move := standing.move("gpu", "none", lambda state=state: state, now)) is not None:
            back.append(move.rung.kind)
            wanted = planning(probe(tmp_path, probe_devices()), constrained(demand, standing.given_up))
            settled = desk.apply(wanted)
            assert settled.is_in_force, settled
    assert back == ["layers_off_gpu", "layers_off_gpu", "kv_to_ram"]
    assert (desk.placement.n_gpu_layers, desk.placement.kv_on_gpu) == (LAYERS + 1, True)
    assert desk.text_of(decisive.question) == decisive.text
