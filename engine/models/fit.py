"""The memory that a model needs, by its header and the settings, so that it can be placed without loading it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil

from engine.config import Settings
from engine.core import ModelShape
from engine.memory.demand import Budgets, Demand, Wishes
from engine.memory.placement import context_cells
from engine.models.gguf import TensorExtent, layer_of, parts_of, read_header, read_shape

# 32 numbers of a head share a scale in 8 bits, or it cannot be.
_NUMBERS_OF_A_SCALE = 32
# In the names of tensors that hold all experts of a layer.
_EXPERTS = "_exps."
# Linux says here whether it gives any room that is asked for (1), or no more than it has in all.
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
# Stretches of a file that one layer's tensors may lie in.
MOST_STRETCHES = 4


def demand_of(path: Path, settings: Settings, n_gpu_layers: int | None = None) -> Demand:
    """What the model wants of memory; what competes with it is for others to add.

    Args:
        path: Its file, or the first of several.
        settings: Those in force.
        n_gpu_layers: The user's choice for this model; None leaves it to the settings, and they to the plan.

    Raises:
        ModelNotFound: There is no such file.
        ModelFileInvalid: It is no model that can write answers, or it is damaged.
        ModelUnreadable: The system does not let us read it.
    """
    shape, headers = read_shape(path), [read_header(part) for part in parts_of(path)]
    demand = Demand(
        shape,
        context_tokens=shape.trained_context,
        parallel_answers=1,
        is_streamable=is_streamable([header.tensors for header in headers]),
        is_packable=is_packable(shape.weight_bytes),
        can_quantise_kv=can_quantise_kv(headers[0].metadata),
    )
    return by_settings(demand, settings, n_gpu_layers)


def demand_of_known(shape: ModelShape, head_size: int, settings: Settings) -> Demand:
    """What a model wants that is not on this machine: as `demand_of`, by a shape that was only estimated."""
    demand = Demand(
        shape,
        context_tokens=shape.trained_context,
        parallel_answers=1,
        is_streamable=is_streamable(()),
        is_packable=is_packable(shape.weight_bytes),
        can_quantise_kv=head_size % _NUMBERS_OF_A_SCALE == 0,
    )
    return by_settings(demand, settings)


def by_settings(demand: Demand, settings: Settings, n_gpu_layers: int | None = None) -> Demand:
    """The same model, and nothing beside it, by settings that may be others."""
    chosen, memory = settings.generation, settings.memory
    context_tokens = context_cells(demand.shape, chosen.max_context)
    wishes = Wishes(
        n_gpu_layers=n_gpu_layers if n_gpu_layers is not None else chosen.n_gpu_layers,
        kv_type=chosen.kv_type if demand.can_quantise_kv else "f16",
        # As llama.cpp has it: a pass of more would have no cells.
        n_ubatch=min(chosen.n_ubatch, context_tokens) or None,
        kv_ram_bytes=chosen.kv_ram_bytes,
        kv_disk_bytes=chosen.kv_disk_bytes,
        index_bytes=memory.index_budget_bytes,
        may_lose=memory.may_lose,
    )
    return Demand(
        shape=demand.shape,
        context_tokens=context_tokens,
        parallel_answers=chosen.parallel_answers,
        budgets=Budgets(memory.gpu_budget_bytes, memory.ram_budget_bytes, memory.disk_budget_bytes),
        wishes=wishes,
        device_reserve_bytes=memory.device_reserve_bytes,
        mode=settings.retrieval.index_mode,
        is_streamable=demand.is_streamable,
        is_packable=demand.is_packable,
        can_copy_streamed=demand.can_copy_streamed,
        can_quantise_kv=demand.can_quantise_kv,
    )


def can_quantise_kv(metadata: Mapping[str, Any]) -> bool:
    """Whether keys and values of a model can be kept in 8 bits, by the metadata of its header."""
    architecture = metadata.get("general.architecture", "")
    most_heads = max([1, *_all_of(metadata.get(f"{architecture}.attention.head_count", 1))])
    width = metadata.get(f"{architecture}.embedding_length", 0) // most_heads
    lengths = (metadata.get(f"{architecture}.attention.{part}_length", width) for part in ("key", "value"))
    return all(length % _NUMBERS_OF_A_SCALE == 0 for told in lengths for length in _all_of(told))


def _all_of(told: Any) -> list[int]:
    """A number of the metadata, be there one for all layers or one for each."""
    return told if isinstance(told, list) else [told]


def is_streamable(tables: Sequence[Sequence[TensorExtent]], platform: str = sys.platform) -> bool:
    """Whether layers can be read one by one, as far as headers tell: each lies by itself, where the system can map it.

    Those of which a token needs only a few experts are better left to the system, which reads the pages of these.
    Whether they are computed one after another shows when the model is loaded (generation/weights/tracing.py).
    """
    stretches = Counter(
        (part, layer)
        for part, table in enumerate(tables)
        for layer, _ in groupby(layer_of(tensor.name) for tensor in sorted(table, key=lambda tensor: tensor.offset))
    )
    lie_apart = all(count <= MOST_STRETCHES for (_, layer), count in stretches.items() if layer is not None)
    return platform == "linux" and lie_apart and not picks_experts(tables)


def is_packable(weight_bytes: int) -> bool:
    """Whether the system may give room to all weights of a model at once, though it is never filled."""
    with suppress(OSError):
        if _OVERCOMMIT.read_text(encoding="ascii").strip() == "1":
            return True
    return weight_bytes <= psutil.virtual_memory().total + psutil.swap_memory().total


def picks_experts(tables: Sequence[Sequence[TensorExtent]]) -> bool:
    """Whether each token needs some of the weights of a layer only (a mixture of experts)."""
    return any(_EXPERTS in tensor.name for table in tables for tensor in table)
