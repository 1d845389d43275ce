"""The models the user has, as the picker shows them: from headers alone, each with its fit here or its problem."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.config import Settings
from engine.errors import ModelError
from engine.memory.hardware import Hardware
from engine.memory.placement import context_cells, place
from engine.models.gguf import read_shape
from engine.protocol import ModelEntry


def entry(path: Path, settings: Settings, hardware: Hardware) -> ModelEntry:
    """One model; a file that cannot be used keeps its place with the reason, so that the user can act on it."""
    try:
        shape = read_shape(path)
    except ModelError as error:
        return ModelEntry(path=str(path), name=path.stem, problem=str(error))
    cells = context_cells(shape, settings.generation.max_context)
    placement = place(
        shape,
        cells,
        device_free_bytes=sum(device.free_bytes for device in hardware.devices),
        ram_free_bytes=hardware.ram_free_bytes,
        device_reserve_bytes=settings.memory.device_reserve_bytes,
        n_gpu_layers=settings.generation.n_gpu_layers,
    )
    return ModelEntry(
        path=str(path),
        name=shape.name,
        architecture=shape.architecture,
        file_bytes=shape.file_bytes,
        num_layers=shape.num_layers,
        trained_context=shape.trained_context,
        planned_gpu_layers=placement.n_gpu_layers,
        fit=placement.sentence,
    )


def with_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    """The list with `path` in it once, newest last."""
    return (*(other for other in known if other != str(path)), str(path))


def without_model(known: Sequence[str], path: Path) -> tuple[str, ...]:
    return tuple(other for other in known if other != str(path))


def named(known: Sequence[str], name: str) -> Path | None:
    """The known model that a person means by `name`: its path, its file name, or its stem."""
    wanted = Path(name).expanduser().absolute()
    for other in map(Path, known):
        if other == wanted or name in (other.name, other.stem):
            return other
    return None
