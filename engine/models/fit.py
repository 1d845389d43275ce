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

# In 8 bits, 32 numbers of a head share a scale, so its length must be a multiple of this.
_NUMBERS_OF_A_SCALE = 32
# Part of the names of tensors with all experts of a layer.
_EXPERTS = "_exps."
# Linux's overcommit mode: 1 grants any allocation, others limit it to about the total memory.
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
# The most contiguous ranges of a file that the tensors of one layer may occupy.
MOST_STRETCHES = 4


def demand_of(path: Path, settings: Settings, n_gpu_layers: int | None = None) -> Demand:
    """Returns the memory demand of a model, without anything that competes with it.

    Args:
        path: Its file, or the first of several.
        settings: The present settings.
        n_gpu_layers: The user's choice for this model; None leaves it to the settings, and they to the plan.

    Raises:
        ModelNotFound: There is no such file.
        ModelFileInvalid: It is not a model that can write answers, or it is damaged.
        ModelUnreadable: The system refuses to read it.
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
    """Returns the demand of a model that is not on this machine, by its estimated shape."""
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
    """Returns the demand of the same model with these settings, without anything that competes with it."""
    chosen, memory = settings.generation, settings.memory
    context_tokens = context_cells(demand.shape, chosen.max_context)
    wishes = Wishes(
        n_gpu_layers=n_gpu_layers if n_gpu_layers is not None else chosen.n_gpu_layers,
        kv_type=chosen.kv_type if demand.can_quantise_kv else "f16",
        # As in llama.cpp: a larger batch would not fit into the cells.
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
    """Returns whether keys and values of a model can be stored in 8 bits, by the metadata of its header."""
    architecture = metadata.get("general.architecture", "")
    most_heads = max([1, *_all_of(metadata.get(f"{architecture}.attention.head_count", 1))])
    width = sum(_all_of(metadata.get(f"{architecture}.embedding_length", 0))) // most_heads
    lengths = (metadata.get(f"{architecture}.attention.{part}_length", width) for part in ("key", "value"))
    return all(length % _NUMBERS_OF_A_SCALE == 0 for told in lengths for length in _all_of(told))


def _all_of(told: Any) -> list[int]:
    """Returns a number of the metadata as a list: one for all layers, or one for each; else nothing."""
    return [one for one in (told if isinstance(told, list) else [told]) if isinstance(one, int)]


def is_streamable(tables: Sequence[Sequence[TensorExtent]], platform: str = sys.platform) -> bool:
    """Returns whether layers can be read one by one, as far as headers tell: each is stored separately.

    A mixture of experts is left to the operating system, which reads only the pages of the experts that a token needs.
    Whether layers are computed one after another is known when the model is loaded (generation/weights/tracing.py).
    """
    stretches = Counter(
        (part, layer)
        for part, table in enumerate(tables)
        for layer, _ in groupby(layer_of(tensor.name) for tensor in sorted(table, key=lambda tensor: tensor.offset))
    )
    lie_apart = all(count <= MOST_STRETCHES for (_, layer), count in stretches.items() if layer is not None)
    return platform == "linux" and lie_apart and not picks_experts(tables)


def is_packable(weight_bytes: int) -> bool:
    """Returns whether the system grants address space for all weights at once, though it is never filled."""
    with suppress(OSError):
        if _OVERCOMMIT.read_text(encoding="ascii").strip() == "1":
            return True
    return weight_bytes <= psutil.virtual_memory().total + psutil.swap_memory().total


def picks_experts(tables: Sequence[Sequence[TensorExtent]]) -> bool:
    """Returns whether each token needs only some of the weights of a layer (a mixture of experts)."""
    return any(_EXPERTS in tensor.name for table in tables for tensor in table)
