"""Tests for engine.models.shelf."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from engine.config import MIB, MemorySettings, Settings
from engine.core import Span
from engine.memory.demand import Backlog, Budgets
from engine.memory.hardware import Device, Hardware
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.models import shelf
from engine.models.fit import demand_of
from tests.helpers.tiny_gguf import write_tiny_model

GPU = Device("GPU0", "A consumer GPU", 8 * 2**30, 6 * 2**30)


def hardware(*devices: Device) -> Hardware:
    return Hardware(16 * 2**30, 8 * 2**30, 2**40, 2**39, 2**27, devices)


def test_an_entry_says_how_a_model_fits_and_what_to_expect_of_it(tmp_path: Path):
    path = write_tiny_model(tmp_path / "m.gguf", layers=2)
    entry = shelf.entry(path, Settings(), hardware())
    assert re.fullmatch(r"All 2 layers in memory \(no GPU found\): about \d+ tokens/s\.", entry.fit)
    assert entry.fits
    assert entry.tokens_per_s > 0
    assert entry.ttft_s > 0
    with_gpu = shelf.entry(path, Settings(), hardware(GPU))
    assert (with_gpu.planned_gpu_layers, with_gpu.fit.partition(":")[0]) == (2, "All 2 layers on the GPU")
    assert (entry.has_gpu, with_gpu.has_gpu) == (False, True)


def test_what_competes_with_a_model_counts_against_its_fit(tmp_path: Path):
    path = write_tiny_model(tmp_path / "m.gguf", layers=2)
    full = (Span("runtime", "another program's worth", "ram", 2**34),)
    entry = shelf.entry(path, Settings(), hardware(), beside=lambda demand: replace(demand, fixed=full))
    assert not entry.fits
    assert "too little memory" in entry.fit


def test_the_fit_promises_no_precision_that_only_a_shortage_takes(tmp_path: Path):
    path = write_tiny_model(tmp_path / "m.gguf", layers=2, heads=2, kv_heads=1, context=2**15)
    by_guess = shelf.planning_by(Profile)
    would_lose = False
    for budget in range(MIB, 4 * MIB, MIB // 8):
        lossy, lossless = (
            replace(demand_of(path, Settings(memory=MemorySettings(may_lose=may_lose))), budgets=Budgets(None, budget))
            for may_lose in (True, False)
        )
        placement = by_guess(hardware(), lossless)
        if placement.fits and not placement.is_mapped:
            assert by_guess(hardware(), lossy) == placement
        would_lose |= plan(hardware(), Profile(), Backlog(), lossy).kv_type == "q8_0"
    assert would_lose


def test_a_model_without_room_is_offered_what_losing_a_little_would_give(tmp_path: Path):
    path = write_tiny_model(tmp_path / "m.gguf", layers=2, heads=2, kv_heads=1, context=2**15)
    entries = []
    for budget in range(MIB, 4 * MIB, MIB // 8):
        within = Budgets(None, budget)
        beside = lambda demand, within=within: replace(demand, budgets=within)  # noqa: E731
        entries.append(shelf.entry(path, Settings(), hardware(), beside=beside))
    offered = [entry for entry in entries if entry.offer]
    assert offered
    assert all(entry.offer.startswith("With keys and values in 8 bits") for entry in offered)
    assert not entries[-1].offer


def test_a_file_that_vanished_keeps_its_place_with_the_reason(tmp_path: Path):
    entry = shelf.entry(tmp_path / "gone.gguf", Settings(), hardware())
    assert entry.name == "gone"
    assert "no model file" in entry.problem
