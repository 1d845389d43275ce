"""Stages of a layer: the groups of its weights that are computed one after another, each about a quarter.

A ring whose slots hold stages hides reading behind computing as well as one of whole layers, in a quarter of the
memory. The same rule cuts by a header alone, in the order in which architectures mostly compute, and by the graph of a
model that is loaded (generation/weights/stages.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# About so many of each layer: a read of less than some megabytes is no faster for it.
STAGES_OF_LAYER = 4
# A stage may be larger by this share, so that a norm more does not begin another.
TOLERANCE = 1.25
# Below, a stage is not worth stopping for.
LEAST_BYTES = 2**20
# What comes after all else of a layer, in this order; a stage begins with one of these. What is before them is mostly
# computed at once, from the same input.
_LAST = ("attn_output", "ffn_gate", "ffn_up", "ffn_down")


def cut(
    tensors: Sequence[str], sizes: Mapping[str, int], may_begin: Callable[[Sequence[str], str], bool]
) -> list[list[str]]:
    """Divides the tensors of a layer into stages.

    Args:
        tensors: In the order in which they are first computed with.
        sizes: Bytes of each.
        may_begin: Whether a stage can begin with a tensor behind a stage of these.
    """
    most = max(LEAST_BYTES, TOLERANCE * sum(sizes[name] for name in tensors) / STAGES_OF_LAYER)
    stages: list[list[str]] = []
    for name in tensors:
        is_full = stages and sum(sizes[one] for one in stages[-1]) + sizes[name] > most
        if not stages or (is_full and may_begin(stages[-1], name)):
            stages.append([])
        stages[-1].append(name)
    return stages


def largest_stage_bytes(sizes_by_layer: Sequence[Mapping[str, int]]) -> int:
    """Of all layers, the largest stage that is to be expected; `sizes_by_layer` has the tensors of each by name."""
    stages = (
        sum(sizes[name] for name in stage)
        for sizes in sizes_by_layer
        for stage in cut(sorted(sizes, key=_rank), sizes, lambda before, name: _rank(name) > 0)
    )
    return max(stages, default=0)


def _rank(name: str) -> int:
    return next((place for place, what in enumerate(_LAST, 1) if f".{what}." in name), 0)
