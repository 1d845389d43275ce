"""Tests for engine.memory.devices, engine.memory.placement and engine.generation.model on a second device."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np
import pytest

from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.model_leases import ModelLeases
from engine.memory.devices import Device, probe_devices
from engine.memory.hardware import probe
from engine.memory.ledger import Ledger
from engine.memory.placement import Placement
from engine.models.gguf import read_shape
from tests.bench.bench_model import Shape, write_model
from tests.device.conftest import LAYERS
from tests.helpers.tiny_gguf import write_tiny_gemma2

GIB = 2**30
PROMPT, FURTHER = list(range(3, 60)), [77, 80, 81]
_BUFFER = re.compile(r"((?:Vulkan|CUDA|ROCm|SYCL)\d+)\s+(?:model|KV|compute|output) buffer size =\s*([\d.]+) MiB")


def placement(n_gpu_layers: int, num_layers: int, *, kv_on_gpu: bool = True) -> Placement:
    return Placement(n_gpu_layers, num_layers, 0, 0, "", is_repacked=False, kv_on_gpu=kv_on_gpu)


def spec(num_cells: int = 4096, *, kv_on_gpu: bool = True) -> ContextSpec:
    return ContextSpec(num_cells, n_batch=128, n_ubatch=128, num_threads=1, num_sequences=32, kv_on_gpu=kv_on_gpu)


def test_the_device_is_found_with_its_memory(device: Device, tmp_path: Path):
    assert 0 < device.free_bytes <= device.capacity_bytes
    assert device in probe(tmp_path, probe_devices()).devices
    if "llvmpipe" in device.description:
        assert device.capacity_bytes == 2 * GIB


@pytest.mark.parametrize("n_gpu_layers", [0, 1, 2, LAYERS, LAYERS + 1, LAYERS + 9])
def test_layers_are_counted_as_llama_cpp_counts_them(endless: Path, n_gpu_layers: int):
    model = Model(endless, n_gpu_layers, lambda _: True)
    found = ["ram" if model.layer_devices[layer] == "CPU" else "gpu" for layer in range(LAYERS + 1)]
    model.close()
    expected = placement(n_gpu_layers, LAYERS)
    assert found == [*(expected.tier_of_layer(layer) for layer in range(LAYERS)), expected.tier_of_output]


@pytest.mark.parametrize(("n_gpu_layers", "kv_on_gpu"), [(1, True), (4, True), (LAYERS + 1, True), (LAYERS + 1, False)])
def test_the_device_computes_what_the_processor_does(endless: Path, n_gpu_layers: int, kv_on_gpu: bool):
    for own, other in zip(computed(endless, 0), computed(endless, n_gpu_layers, kv_on_gpu=kv_on_gpu), strict=True):
        assert np.abs(own - other).max() < 2e-2 * own.std()


@pytest.mark.parametrize("ties_embeddings", [False, True])
@pytest.mark.parametrize(("share", "kv_on_gpu"), [(0.5, True), (1.0, True), (1.0, False)])
def test_the_ledger_knows_what_the_device_holds(
    endless: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    share: float,
    kv_on_gpu: bool,
    ties_embeddings: bool,
):
    path = write_tiny_gemma2(tmp_path / "tied.gguf", layers=4, dim=256) if ties_embeddings else endless
    shape, ledger = read_shape(path), Ledger()
    placed = placement(int((shape.num_layers + 1) * share), shape.num_layers, kv_on_gpu=kv_on_gpu)
    leases, before = ModelLeases(ledger), free_bytes()
    with caplog.at_level(logging.DEBUG, "engine.generation.model"):
        model = Model(path, placed.n_gpu_layers, lambda _: True, is_repacked=False)
        leases.take_weights(shape, placed)
        context = Context(model, spec(kv_on_gpu=kv_on_gpu))
        leases.take_context(shape, placed, context.num_cells, context.compute_bytes)
    told = sum(float(size) * 2**20 for _, size in _BUFFER.findall(caplog.text))
    used, held = before - free_bytes(), ledger.held_bytes("gpu")
    context.close()
    model.close()
    assert told > 0
    assert held == pytest.approx(told, rel=0.05)
    # A driver may keep no account of what is in use, as that of a device in software does not.
    assert used == 0 or used == pytest.approx(held, rel=0.05, abs=16 * 2**20)


@pytest.mark.parametrize(("n_gpu_layers", "is_repacked"), [(4, True), (4, False), (LAYERS + 1, True)])
def test_what_stays_in_memory_is_where_the_device_copies_it_from_fastest(
    endless: Path, n_gpu_layers: int, is_repacked: bool
):
    shape = read_shape(endless)
    model = Model(endless, n_gpu_layers, lambda _: True, is_repacked)
    copied_bytes, in_own_order = model.copied_bytes, model.is_in_own_order
    model.close()
    assert not in_own_order
    if is_repacked and n_gpu_layers <= LAYERS:
        in_memory = sum(shape.layer_bytes[: LAYERS + 1 - n_gpu_layers]) + shape.other_bytes - shape.output_bytes
        assert copied_bytes == pytest.approx(in_memory, rel=0.01)
    else:
        assert copied_bytes == 0


def test_without_a_layer_on_the_device_weights_are_in_the_processors_order(tmp_path: Path):
    path = tmp_path / "small.gguf"
    write_model(path, Shape("small", layers=4, width=512, feed_forward=1536, heads=8, kv_heads=4, vocabulary=1024))
    model = Model(path, 0, lambda _: True)
    is_in_own_order, told = model.is_in_own_order, llama.llama_print_system_info().decode()
    model.close()
    assert is_in_own_order == ("AVX2 = 1" in told or "NEON = 1" in told), told


def free_bytes() -> int:
    return sum(device.free_bytes for device in probe_devices())


def computed(path: Path, n_gpu_layers: int, *, kv_on_gpu: bool = True) -> list[np.ndarray]:
    """Logits behind a prompt and behind each of a few further tokens."""
    model = Model(path, n_gpu_layers, lambda _: True)
    context = Context(model, spec(512, kv_on_gpu=kv_on_gpu))
    (row,) = context.decode([Stretch(0, 0, PROMPT, 1)])
    logits = [context.logits(row + len(PROMPT) - 1).copy()]
    for position, token in enumerate(FURTHER, start=len(PROMPT)):
        (row,) = context.decode([Stretch(0, position, [token], 1)])
        logits.append(context.logits(row).copy())
    context.close()
    model.close()
    return logits
