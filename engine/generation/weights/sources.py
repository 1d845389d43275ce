"""What a loaded model's weights are read from, and where in memory it belongs: its files, and what was copied."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import NotStreamable
from engine.generation.model import Model
from engine.generation.offloading import offloaded_from
from engine.generation.weights.addresses import addresses_of
from engine.generation.weights.copied_file import CopiedFile
from engine.generation.weights.extents import Layout, copied_table, layout_of
from engine.generation.weights.homes import Origin
from engine.generation.weights.mappings import FileId, base_of
from engine.generation.weights.stages import stages_of
from engine.generation.weights.tracing import can_be_copied, graphs_of
from engine.models.gguf import TensorExtent, parts_of, read_header, read_shape

# Header fields that give how many rows some steps have for a token.
_ROWS = (
    "attention.head_count",
    "attention.head_count_kv",
    "expert_used_count",
    "ssm.time_step_rank",
    "ssm.group_count",
)
_OTHER_SYSTEM = "Layers can be read one by one only on Linux."
_COPIED = "The weights of this model lie in memory in another order than in its file."


@dataclass(frozen=True, slots=True)
class Sources:
    """The files in the order in which `layout` counts them, and where the bytes of each belong.

    `marks` are the names of the nodes at which its stages end; `planned_stage_bytes` is the assumed size of one.
    `can_copy`: a device may copy streamed layers to compute them.
    """

    layout: Layout
    marks: tuple[bytes, ...]
    planned_stage_bytes: int
    paths: tuple[Path, ...]
    origins: tuple[Origin, ...]
    can_copy: bool = False


def sources_of(model: Model, path: Path, copied: CopiedFile | None) -> Sources:
    """The sources of a model that was just loaded.

    Args:
        model: That model.
        path: Any of its files.
        copied: What llama.cpp put in another order, where it did.

    Raises:
        NotStreamable: On this system, or with this model, whose graph is traced.
        ModelFileInvalid: A file of the model is gone or damaged.
    """
    if sys.platform != "linux":
        raise NotStreamable(_OTHER_SYSTEM)
    if model.copied_bytes and copied is None:
        raise NotStreamable(_COPIED)
    parts = parts_of(path)
    headers = [read_header(part) for part in parts]
    metadata, tables = headers[0].metadata, [header.tensors for header in headers]
    num_layers = int(metadata[f"{metadata['general.architecture']}.block_count"])
    on_device = {layer for layer, device in model.layer_devices.items() if device != "CPU"}
    in_memory = frozenset(range(num_layers)) - on_device
    sizes = {tensor.name: tensor.num_bytes for table in tables for tensor in table}
    stages = stages_of(graphs_of(model, num_layers, in_memory), num_layers, in_memory, sizes)
    layout = layout_of(
        tables,
        stages,
        in_memory,
        num_layers not in on_device,
        mmap.PAGESIZE,
        () if copied is None else _copied_table(model, tables, copied),
    )
    files = [FileId.of(part) for part in parts]
    origins = tuple(Origin(base_of(file, model.mappings), file) for file in files)
    planned_bytes = read_shape(path).slot_bytes
    if copied is None:
        can_copy = bool(on_device) and can_be_copied(
            model, stages, in_memory, sizes, offloaded_from(), _rows_of_token(metadata)
        )
        return Sources(layout, stages.marks, planned_bytes, tuple(parts), origins, can_copy)
    return Sources(layout, stages.marks, planned_bytes, (*parts, copied.path), (*origins, Origin(copied.where[0])))


def _rows_of_token(metadata: Mapping[str, Any]) -> set[int]:
    """How many rows a step has for a token: one, or one for each head or expert."""
    architecture, rows = metadata["general.architecture"], {1}
    for name in _ROWS:
        counts = metadata.get(f"{architecture}.{name}", 1)
        rows.update(count for count in (counts if isinstance(counts, list) else [counts]) if count > 0)
    return rows


def _copied_table(
    model: Model, tables: Sequence[Sequence[TensorExtent]], copied: CopiedFile
) -> tuple[TensorExtent, ...]:
    names = [tensor.name for table in tables for tensor in table]
    return copied_table(tables, addresses_of(model.handle, names), *copied.where)
