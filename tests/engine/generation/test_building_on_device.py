"""Tests for how much of a device engine.generation.building leaves free before it computes there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import NoRoomToLoad
from engine.generation import building
from engine.memory.devices import Device

MIB = 2**20


def looked_at(monkeypatch: pytest.MonkeyPatch, *devices: Device, reserve_bytes: int = 512 * MIB) -> None:
    """As for a model with one layer on the processor, and one on CUDA0."""
    model: Any = SimpleNamespace(layer_devices={0: "CPU", 1: "CUDA0"})
    plan: Any = SimpleNamespace(settings=SimpleNamespace(memory=SimpleNamespace(device_reserve_bytes=reserve_bytes)))
    monkeypatch.setattr(building, "probe_devices", lambda: devices)
    building._look_for_room(model, plan)


def test_a_device_that_others_have_filled_is_not_computed_on(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NoRoomToLoad, match="Only 191 MiB of the memory of CUDA0 are free") as found:
        looked_at(monkeypatch, Device("CUDA0", "", 8 << 30, 200 * 10**6))
    assert not found.value.is_in_memory


@pytest.mark.parametrize(
    "device",
    [
        Device("CUDA0", "", 8 << 30, 300 * MIB),
        Device("CUDA1", "none of its layers are there", 8 << 30, 0),
        Device("CUDA0", "counts the machine's memory", 8 << 30, 0, shares_ram=True),
    ],
)
def test_half_of_what_is_kept_free_is_enough_where_layers_are(monkeypatch: pytest.MonkeyPatch, device: Device):
    looked_at(monkeypatch, device)


def test_who_keeps_nothing_free_is_not_asked_for_it(monkeypatch: pytest.MonkeyPatch):
    looked_at(monkeypatch, Device("CUDA0", "", 8 << 30, 0), reserve_bytes=0)
