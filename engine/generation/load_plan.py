"""How a model will be loaded, decided before anything of it is: from its header, the settings and what is free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.config import Settings
from engine.core import KVType, ModelShape
from engine.generation.context import ContextSpec
from engine.generation.kv_room import KVRoom, kv_room, num_sequences, shape_with, usable_kv_type
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement, place
from engine.models.gguf import parts_of, read_header, read_shape

# Tokens of a prompt between two chances to stop: a second on a processor is about as many.
UBATCH_OF_PROCESSOR, UBATCH_OF_DEVICE = 128, 512


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`shape` has the bytes of a cell in the format that is used; `settings` are those that it was made with."""

    path: Path
    settings: Settings
    shape: ModelShape
    room: KVRoom
    placement: Placement
    spec: ContextSpec

    @property
    def sentence(self) -> str:
        """What was decided."""
        if self.spec.kv_type == self.settings.generation.kv_type:
            return self.placement.sentence
        return f"{self.placement.sentence} Keys and values stay at 16 bits: the heads of this model allow no other."

    def reads_ahead(self, settings: Settings) -> bool:
        """Whether prompts are read while the search for their passages goes on, by settings that are in force."""
        chosen = settings.generation.read_ahead
        # Else it would take the processor from the search, and from the quotes that people see first.
        return self.placement.n_gpu_layers > 0 if chosen is None else chosen


def plan_load(path: Path, settings: Settings, hardware: Hardware, n_gpu_layers: int | None) -> LoadPlan:
    """Reads the header and decides.

    Args:
        path: The model's file, or the first of several.
        settings: Those in force.
        hardware: What the machine has, and what of it is free.
        n_gpu_layers: The user's choice for this model; None leaves it to the settings, and they to the plan.

    Raises:
        ModelNotFound: There is no such file.
        ModelFileInvalid: It is no model that can write answers, or it is damaged.
    """
    shape = read_shape(path)
    kv_type = usable_kv_type(read_header(parts_of(path)[0]).metadata, settings.generation.kv_type)
    shape = shape_with(shape, kv_type)
    room = kv_room(shape, settings.generation, hardware, settings.memory.device_reserve_bytes)
    placement = place(
        shape,
        room.num_cells,
        device_free_bytes=sum(device.free_bytes for device in hardware.devices),
        ram_free_bytes=hardware.ram_free_bytes,
        device_reserve_bytes=settings.memory.device_reserve_bytes,
        n_gpu_layers=n_gpu_layers if n_gpu_layers is not None else settings.generation.n_gpu_layers,
    )
    spec = _spec(shape, room, placement, settings, kv_type)
    return LoadPlan(path, settings, shape, room, placement, spec)


def _spec(shape: ModelShape, room: KVRoom, placement: Placement, settings: Settings, kv_type: KVType) -> ContextSpec:
    chosen = settings.generation
    suits = UBATCH_OF_DEVICE if placement.n_gpu_layers else UBATCH_OF_PROCESSOR
    return ContextSpec(
        num_cells=room.num_cells,
        n_batch=chosen.n_batch,
        n_ubatch=chosen.n_ubatch or suits,
        num_threads=chosen.num_threads or psutil.cpu_count(logical=False) or 1,
        num_sequences=num_sequences(shape.vocabulary_size),
        kv_type=kv_type,
    )
