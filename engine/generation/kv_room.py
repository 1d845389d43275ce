"""How many cells a context gets, and how much memory and disk kept KV may take: decided before it is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.config import GIB, MIB, GenerationSettings
from engine.core import KVType, ModelShape
from engine.memory.hardware import Hardware
from engine.memory.placement import context_cells

# Bytes that 32 numbers take: as f16, and as q8_0 with their common scale.
_BYTES_OF_32: dict[KVType, int] = {"f16": 64, "q8_0": 34}
# What the cells of further answers may take of the memory, and what kept KV may take of memory and disk.
CELLS_SHARE = 1 / 8
RAM_SHARE = 1 / 8
DISK_SHARE = 1 / 10
MAX_DISK_BYTES = 16 * GIB
# All answers, and everything that is kept in cells, need a sequence number each.
LOGITS_BYTES, MIN_SEQUENCES, MAX_SEQUENCES = 128 * MIB, 32, 256


@dataclass(frozen=True, slots=True)
class KVRoom:
    """`context_tokens` are the room of one prompt and its answer, in a context of `num_cells`."""

    context_tokens: int
    num_cells: int
    ram_bytes: int
    disk_bytes: int


def usable_kv_type(metadata: Mapping[str, Any], wanted: KVType) -> KVType:
    """What a model's keys and values can be kept as; 32 numbers of a head share a scale in q8_0, or it cannot be.

    `metadata` is that of its GGUF header.
    """
    architecture = metadata.get("general.architecture", "")
    heads = metadata.get(f"{architecture}.attention.head_count", 1)
    width = metadata.get(f"{architecture}.embedding_length", 0) // max(
        1, max(heads) if isinstance(heads, list) else heads
    )
    lengths = (metadata.get(f"{architecture}.attention.{part}_length", width) for part in ("key", "value"))
    return wanted if all(length % 32 == 0 for length in lengths) else "f16"


def shape_with(shape: ModelShape, kv_type: KVType) -> ModelShape:
    """The shape with the bytes that a cell takes in this format."""
    cells = tuple(num_bytes * _BYTES_OF_32[kv_type] // _BYTES_OF_32["f16"] for num_bytes in shape.kv_cell_bytes)
    return replace(shape, kv_cell_bytes=cells)


def kv_room(shape: ModelShape, settings: GenerationSettings, hardware: Hardware, device_reserve_bytes: int) -> KVRoom:
    """Cells for as many answers at once as the settings want and memory has room for, at least for one.

    Args:
        shape: With the bytes of a cell in the format that is used.
        settings: What is wanted.
        hardware: What the machine has, and what of it is free.
        device_reserve_bytes: Kept free on a device.
    """
    tokens = context_cells(shape, settings.max_context)
    # Never may the cells of answers that only could be written push layers off a device.
    device = sum(device.free_bytes for device in hardware.devices) - device_reserve_bytes - shape.weight_bytes
    room_bytes = device // 2 if hardware.devices else _ram_share(hardware, CELLS_SHARE)
    affordable = max(0, room_bytes) // max(1, sum(shape.kv_cell_bytes))
    return KVRoom(
        context_tokens=tokens,
        num_cells=max(tokens, min(tokens * settings.parallel_answers, affordable)),
        ram_bytes=_ram_share(hardware, RAM_SHARE) if settings.kv_ram_bytes is None else settings.kv_ram_bytes,
        disk_bytes=disk_room(settings, hardware),
    )


def disk_room(settings: GenerationSettings, hardware: Hardware) -> int:
    """How many bytes of files all models' kept KV may take; the same whichever is loaded."""
    return _disk_share(hardware) if settings.kv_disk_bytes is None else settings.kv_disk_bytes


def _ram_share(hardware: Hardware, share: float) -> int:
    return int(min(hardware.ram_capacity_bytes * share, hardware.ram_free_bytes * 2 * share))


def _disk_share(hardware: Hardware) -> int:
    return int(min(hardware.disk_free_bytes * DISK_SHARE, MAX_DISK_BYTES))


def num_sequences(vocabulary_size: int) -> int:
    """How many sequence numbers a context has: each costs a row of logits, in the output and in the compute buffer."""
    affordable = LOGITS_BYTES // (2 * 4 * max(1, vocabulary_size))
    return max(MIN_SEQUENCES, min(MAX_SEQUENCES, affordable))
