"""Copying: whether a device may compute large batches of streamed layers, whose weights it copies for that.

llama.cpp computes a graph in splits: steps that follow each other on the same device. What a split takes from elsewhere
is copied when it begins, and each step that takes another weight from memory begins one (ggml-backend.cpp,
ggml_backend_sched_split_graph). So a weight is copied right before it is needed, when all before it was computed and
the ring has been told. But for the first of a stretch on the device: that one is copied where the stretch begins,
however much is computed before it is needed. If a stage ends in between, the next one is not there yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from engine.generation.weights.stages import Node, Stages
from engine.models.gguf import layer_of


def copied_too_early(nodes: Sequence[Node], stages: Stages, in_memory: Collection[int]) -> str:
    """A weight of a layer in memory that is copied before its stage can be there; "" where there is none.

    Args:
        nodes: Of a graph, in order.
        stages: They end where the nodes say.
        in_memory: Layers that may be streamed.
    """
    ends = {mark: stage for stage, mark in enumerate(stages.marks)}
    # How many stages have ended before a node.
    ended, before = 0, []
    for node in nodes:
        before.append(ended)
        if ends.get(node.name) == ended:
            ended += 1
    for start, names in _stretches(nodes):
        first = next((name for name in names if layer_of(name) in in_memory), None)
        if first is not None and (stages.of(first) or 0) > before[start]:
            return first
    return ""


def _stretches(nodes: Sequence[Node]) -> Iterator[tuple[int, list[str]]]:
    """Where each stretch on a device begins, and what is copied for it, in order."""
    computed = ((place, node) for place, node in enumerate(nodes) if not node.is_view)
    there: set[tuple[str, str]] = set()
    for device, stretch in groupby(computed, key=lambda one: one[1].device):
        places, steps = zip(*stretch, strict=True)
        if not device:
            continue
        # What was copied there before stays there.
        names = [name for step in steps for name in step.copied if (device, name) not in there]
        there.update((device, name) for name in names)
        yield places[0], names
