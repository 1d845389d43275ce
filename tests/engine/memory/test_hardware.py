"""Tests for engine.memory.hardware and devices."""

from __future__ import annotations

import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from engine.memory import hardware
from engine.memory.devices import Seen, probe_devices, torch_held_bytes, used_of
from engine.memory.hardware import CgroupMemory, Device, ProcessMemory, charged, probe

GIB = 2**30
System = namedtuple("System", "total available")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """A machine of 16 GiB of which 10 are available, and a process of 3 GiB with 1 GiB of mapped files."""

    def seen(cgroup: CgroupMemory | None = None):
        monkeypatch.setattr(psutil, "virtual_memory", lambda: System(16 * GIB, 10 * GIB))
        monkeypatch.setattr(hardware, "own_cgroup", lambda: cgroup)
        monkeypatch.setattr(hardware, "process_memory", lambda: ProcessMemory(3 * GIB, 2 * GIB, 1 * GIB, 0, 5))
        return probe(Path.cwd())

    return seen


def group(limit: int | None, free: int | None, charged: int = GIB) -> CgroupMemory:
    return CgroupMemory(limit, free, GIB // 2, 0, GIB // 2, charged, 0, None if limit is None else charged)


def test_files_that_we_map_are_not_free(machine):
    seen = machine()
    assert (seen.ram_capacity_bytes, seen.ram_free_bytes, seen.process_bytes) == (16 * GIB, 9 * GIB, 3 * GIB)
    assert not seen.is_limited


def test_what_the_group_allows_counts_where_it_is_less(machine):
    seen = machine(group(6 * GIB, 2 * GIB))
    assert (seen.ram_capacity_bytes, seen.ram_free_bytes) == (6 * GIB, 1 * GIB)
    assert seen.is_limited
    wide = machine(group(64 * GIB, 60 * GIB))
    assert (wide.ram_capacity_bytes, wide.ram_free_bytes) == (16 * GIB, 9 * GIB)
    assert not wide.is_limited


def test_pages_of_files_that_others_are_charged_for_take_nothing_of_our_limit(machine):
    seen = machine(group(6 * GIB, 2 * GIB, charged=GIB // 4))
    assert (seen.process_bytes, seen.process.file_bytes) == (2 * GIB + GIB // 4, GIB // 4)
    # What can be had in all is what the limit leaves of our own memory: 2 GiB of it are neither free nor dropped.
    assert seen.ram_free_bytes + seen.process_bytes == 4 * GIB
    # The machine's memory they do take.
    assert machine(group(64 * GIB, 60 * GIB, charged=GIB // 4)).process_bytes == 3 * GIB


def test_shared_memory_is_no_file_of_which_a_group_is_charged():
    process = ProcessMemory(4 * GIB, 2 * GIB, GIB, GIB)
    assert charged(process, group(6 * GIB, GIB, charged=GIB), 16 * GIB) == ProcessMemory(3 * GIB, 2 * GIB, 0, GIB)
    assert charged(process, group(6 * GIB, GIB, charged=3 * GIB), 16 * GIB) == process
    assert charged(process, None, 16 * GIB) == process


def test_pages_that_our_window_maps_are_not_free_for_layers(machine):
    # Of what the group could give, 1 GiB is ours and half a GiB the window's.
    seen = machine(group(6 * GIB, 2 * GIB, charged=GIB + GIB // 2))
    assert (seen.ram_free_bytes, seen.process_bytes) == (GIB // 2, 3 * GIB)
    # What another program shares with its own is no file: the group counts it as used already.
    assert machine(replace(group(6 * GIB, 2 * GIB, charged=3 * GIB), charged_shmem_bytes=2 * GIB)).ram_free_bytes == GIB
    # Where no group limits us, the system's own figure counts.
    assert machine(group(None, None, charged=5 * GIB)).ram_free_bytes == 9 * GIB


def test_a_group_without_a_limit_changes_nothing(machine):
    assert machine(group(None, None)).ram_capacity_bytes == 16 * GIB


def test_free_is_never_less_than_nothing(machine):
    assert machine(group(6 * GIB, GIB // 2)).ram_free_bytes == 0


def test_this_machine_can_be_probed(tmp_path: Path):
    seen = probe(tmp_path, probe_devices())
    assert 0 < seen.ram_free_bytes <= seen.ram_capacity_bytes
    assert 0 < seen.disk_free_bytes <= seen.disk_capacity_bytes
    assert 0 < seen.process_bytes == seen.process.rss_bytes
    assert all(0 <= device.free_bytes <= device.capacity_bytes for device in seen.devices)


# --- ggml's devices ---


def seen(name: str, backend: str, hardware_id: str = "", *, is_integrated: bool = False) -> Seen:
    return Seen(Device(name, name, GIB, GIB, is_integrated), backend, is_integrated, hardware_id)


def test_those_count_that_llama_cpp_gives_layers_to():
    cuda, other = seen("CUDA0", "CUDA", "0000:c1:00.0"), seen("CUDA1", "CUDA", "0000:c2:00.0")
    again, inside = seen("Vulkan0", "Vulkan", "0000:c1:00.0"), seen("Vulkan1", "Vulkan", is_integrated=True)
    unnamed = [seen("Metal", "Metal"), seen("Other", "Other")]
    assert used_of([]) == ()
    assert used_of([cuda, other, again, inside]) == (cuda.device, other.device)
    assert used_of([inside, seen("SYCL0", "SYCL", is_integrated=True)]) == (inside.device,)
    assert used_of(unnamed) == tuple(one.device for one in unnamed)


# --- torch's devices ---


def cuda(*, is_available: bool = True, is_initialized: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        is_available=lambda: is_available,
        is_initialized=lambda: is_initialized,
        device_count=lambda: 2,
        memory_reserved=lambda index: 1000 + index,
    )


def test_what_torch_holds_of_all_devices_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda()))
    assert torch_held_bytes() == 2001


def test_torch_is_not_asked_before_it_is_there_or_has_a_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda(is_available=False)))
    assert torch_held_bytes() == 0
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda(is_initialized=False)))
    # Asking what is held would otherwise make a context on the device, of some hundred megabytes.
    assert torch_held_bytes() == 0
    monkeypatch.delitem(sys.modules, "torch")
    assert torch_held_bytes() == 0
