"""Stages of a layer: the groups of its weights that are computed one after another, each about a quarter.

A ring buffer of stages hides reading behind computing as well as one of whole layers, in a quarter of the memory. The
same rule is applied to a header, in the usual order of computation, and to the graph of a loaded model
(generation/weights/stages.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# About this many per layer: smaller reads than some megabytes would be slower.
STAGES_OF_LAYER = 4
# A stage may be larger by this factor, so that a small tensor does not start another one.
TOLERANCE = 1.25
# Smaller stages are not worthwhile.
LEAST_BYTES = 2**20
# The last tensors of a layer, in order of computation; a stage begins with one of these. Those before them are mostly
# computed together, from the same input.
_LAST = ("attn_output", "ffn_gate", "ffn_up", "ffn_down")


def cut(
    tensors: Sequence[str], sizes: Mapping[str, int], may_begin: Callable[[Sequence[str], str], bool]
) -> list[list[str]]:
    """Divides the tensors of a layer into stages.

    Args:
        tensors: In the order of their first use.
        sizes: The bytes of each.
        may_begin: Returns whether a stage can begin with a tensor, after a stage of the given ones.
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
    """Estimates the largest stage of all layers; `sizes_by_layer` has the tensors of each by name."""
    stages = (
        sum(sizes[name] for name in stage)
        for sizes in sizes_by_layer
        for stage in cut(sorted(sizes, key=_rank), sizes, lambda before, name: _rank(name) > 0)
    )
    return max(stages, default=0)


def _rank(name: str) -> int:
    return next((place for place, what in enumerate(_LAST, 1) if f".{what}." in name), 0)
