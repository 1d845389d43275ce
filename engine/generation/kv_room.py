"""The room of keys and values: cells of the context, and how much memory and disk may hold what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.config import GIB, GenerationSettings
from engine.core import KVType, ModelShape
from engine.memory.hardware import Hardware
from engine.memory.terms import cell_bytes

# The share of memory and disk that kept KV may take.
RAM_SHARE = 1 / 8
DISK_SHARE = 1 / 10
MAX_DISK_BYTES = 16 * GIB


@dataclass(frozen=True, slots=True)
class KVRoom:
    """The room; `context_tokens` bounds a prompt with its answer, which gets more than `num_cells` if it needs them."""

    context_tokens: int
    num_cells: int
    ram_bytes: int
    disk_bytes: int


def shape_with(shape: ModelShape, kv_type: KVType) -> ModelShape:
    """Returns the shape with the bytes that a cell takes in this format."""
    return replace(shape, kv_cell_bytes=cell_bytes(shape, kv_type))


def ram_room(settings: GenerationSettings, hardware: Hardware) -> int:
    """Returns the bytes of memory for kept KV if no plan has set them: the user's choice, or a share of the memory."""
    return _ram_share(hardware) if settings.kv_ram_bytes is None else settings.kv_ram_bytes


def disk_room(settings: GenerationSettings, hardware: Hardware) -> int:
    """Returns the bytes of files for all models' kept KV; the same whichever is loaded."""
    return _disk_share(hardware) if settings.kv_disk_bytes is None else settings.kv_disk_bytes


def _ram_share(hardware: Hardware) -> int:
    return int(min(hardware.ram_capacity_bytes * RAM_SHARE, hardware.ram_free_bytes * 2 * RAM_SHARE))


def _disk_share(hardware: Hardware) -> int:
    return int(min(hardware.disk_free_bytes * DISK_SHARE, MAX_DISK_BYTES))
