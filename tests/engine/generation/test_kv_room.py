"""Tests for engine.generation.kv_room."""

from __future__ import annotations

from engine.config import GIB, GenerationSettings
from engine.core import ModelShape
from engine.generation.kv_room import MAX_DISK_BYTES, disk_room, ram_room, shape_with
from engine.memory.hardware import Hardware

# 4 layers of 100 MB, a cell of 64 KiB.
SHAPE = ModelShape("m", "llama", 32768, (10**8,) * 4, 10**8, 10**7, (16384,) * 4, 32000, 5 * 10**8, True)


def machine(ram_gib: float = 16, free_gib: float = 8, disk_gib: float = 100) -> Hardware:
    return Hardware(int(ram_gib * GIB), int(free_gib * GIB), 500 * GIB, int(disk_gib * GIB), 0)


def test_what_is_kept_is_limited_by_the_settings_or_by_the_machine():
    chosen = GenerationSettings(kv_ram_bytes=7, kv_disk_bytes=0)
    assert (ram_room(chosen, machine()), disk_room(chosen, machine())) == (7, 0)
    by_machine = GenerationSettings()
    assert (ram_room(by_machine, machine()), disk_room(by_machine, machine())) == (2 * GIB, 10 * GIB)
    assert ram_room(by_machine, machine(free_gib=2)) == GIB // 2
    assert disk_room(by_machine, machine(disk_gib=400)) == MAX_DISK_BYTES


def test_a_cell_of_eight_bits_takes_little_more_than_half():
    assert sum(shape_with(SHAPE, "q8_0").kv_cell_bytes) == sum(SHAPE.kv_cell_bytes) * 34 // 64
    assert shape_with(SHAPE, "f16") == SHAPE
