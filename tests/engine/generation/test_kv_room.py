"""Tests for engine.generation.kv_room."""

from __future__ import annotations

import pytest

from engine.config import GIB, GenerationSettings
from engine.core import ModelShape
from engine.generation.kv_room import LOGITS_BYTES, MAX_DISK_BYTES, kv_room, num_sequences, shape_with, usable_kv_type
from engine.memory.hardware import Device, Hardware

# 4 layers of 100 MB, a cell of 64 KiB.
SHAPE = ModelShape("m", "llama", 32768, (10**8,) * 4, 10**8, 10**7, (16384,) * 4, 32000, 5 * 10**8, True)


def machine(ram_gib: float = 16, free_gib: float = 8, device_gib: float = 0) -> Hardware:
    device_bytes = int(device_gib * GIB)
    devices = (Device("gpu", "", device_bytes, device_bytes),) if device_gib else ()
    return Hardware(int(ram_gib * GIB), int(free_gib * GIB), 500 * GIB, 100 * GIB, 0, devices)


def test_cells_are_there_for_as_many_answers_as_are_wanted():
    room = kv_room(SHAPE, GenerationSettings(max_context=4096, parallel_answers=3), machine(64, 32), 0)
    assert (room.context_tokens, room.num_cells) == (4096, 3 * 4096)


def test_a_small_machine_gets_fewer_cells_but_always_those_of_one_prompt():
    settings = GenerationSettings(max_context=8192, parallel_answers=8)
    some = kv_room(SHAPE, settings, machine(8, 4), 0)
    assert some.num_cells * 65536 == GIB
    assert kv_room(SHAPE, settings, machine(1, 0.1), 0).num_cells == 8192


def test_one_prompt_gets_no_more_than_the_model_was_trained_for():
    short = ModelShape("m", "llama", 512, (1,), 1, 0, (64,), 32000, 2, True)
    room = kv_room(short, GenerationSettings(parallel_answers=2), machine(), 0)
    assert (room.context_tokens, room.num_cells) == (512, 1024)


def test_further_cells_never_push_layers_off_a_device():
    settings = GenerationSettings(max_context=8192, parallel_answers=4)
    tight = kv_room(SHAPE, settings, machine(64, 32, device_gib=1.2), 256 * 2**20)
    assert tight.num_cells == 8192
    assert kv_room(SHAPE, settings, machine(64, 32, device_gib=24), 256 * 2**20).num_cells == 4 * 8192


def test_what_is_kept_is_limited_by_the_settings_or_by_the_machine():
    chosen = kv_room(SHAPE, GenerationSettings(kv_ram_bytes=7, kv_disk_bytes=0), machine(), 0)
    assert (chosen.ram_bytes, chosen.disk_bytes) == (7, 0)
    by_machine = kv_room(SHAPE, GenerationSettings(), machine(), 0)
    assert (by_machine.ram_bytes, by_machine.disk_bytes) == (2 * GIB, 10 * GIB)
    assert by_machine.disk_bytes <= MAX_DISK_BYTES


def test_a_cell_of_eight_bits_takes_little_more_than_half():
    assert sum(shape_with(SHAPE, "q8_0").kv_cell_bytes) == sum(SHAPE.kv_cell_bytes) * 34 // 64
    assert shape_with(SHAPE, "f16") == SHAPE


def test_a_large_vocabulary_leaves_room_for_fewer_sequences():
    assert num_sequences(32_000) == 256
    assert num_sequences(150_000) * 150_000 * 8 <= LOGITS_BYTES
    assert num_sequences(10**9) == 32


@pytest.mark.parametrize(
    ("about_heads", "kv_type"),
    [
        ({"attention.head_count": 32}, "q8_0"),
        ({"attention.head_count": 40}, "f16"),
        ({"attention.head_count": [0, 32, 32]}, "q8_0"),
        ({"attention.head_count": 40, "attention.key_length": 64, "attention.value_length": 128}, "q8_0"),
        ({"attention.head_count": 32, "attention.value_length": 80}, "f16"),
    ],
)
def test_eight_bits_are_used_where_a_head_is_made_of_whole_blocks(about_heads: dict, kv_type: str):
    metadata = {f"llama.{key}": value for key, value in about_heads.items()}
    metadata |= {
        "general.architecture": "llama",
        "llama.embedding_length": 4096 if 40 not in metadata.values() else 5040,
    }
    assert usable_kv_type(metadata, "q8_0") == kv_type
    assert usable_kv_type(metadata, "f16") == "f16"
