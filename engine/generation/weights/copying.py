"""Copying: whether a device may compute large batches of streamed layers, whose weights it copies for that.

llama.cpp computes a graph in splits: steps that follow each other on the same device. What a split takes from elsewhere
is copied when it begins. A step that takes a weight from memory begins a split, but only where the present split
already takes something from elsewhere (ggml-backend.cpp, ggml_backend_sched_split_graph). So most weights are copied
right before they are needed, when all before them was computed and the ring has been notified; others as soon as their
split begins, however much is computed before they are needed. If a stage ends in between, the next one is not in memory
yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from engine.generation.weights.stages import Node, Stages
from engine.models.gguf import layer_of


def copied_too_early(
    nodes: Sequence[Node], stages: Stages, in_memory: Collection[int], weights: Collection[str]
) -> str:
    """A weight of a layer in memory that is copied before its stage can be there; "" where there is none.

    Args:
        nodes: Of a graph, in order.
        stages: They end where the nodes say.
        in_memory: Layers that may be streamed.
        weights: The names of the model's tensors, of any layer or none.
    """
    ended = _stages_ended(nodes, stages)
    for name, begun in _copies(nodes, weights):
        if layer_of(name) in in_memory and (stages.of(name) or 0) > ended[begun]:
            return name
    return ""


def _stages_ended(nodes: Sequence[Node], stages: Stages) -> list[int]:
    """How many stages have ended before each node."""
    counts, count = [], 0
    for node in nodes:
        counts.append(count)
        count += count < stages.num_stages and node.name == stages.marks[count]
    return counts


def _copies(nodes: Sequence[Node], weights: Collection[str]) -> Iterator[tuple[str, int]]:
    """What is copied to a device, each with the index of the node that begins the split that it is copied for."""
    there: set[tuple[str, str]] = set()
    device, begun, takes_something = None, 0, False
    for place, node in enumerate(nodes):
        if node.is_view:
            continue
        takes_weight = any(name in weights for name in node.copied)
        if node.device != device or (takes_weight and takes_something):
            device, begun, takes_something = node.device, place, False
        for name in node.copied:
            # What was copied before is on the device already.
            if (node.device, name) not in there:
                there.add((node.device, name))
                takes_something = True
                if node.device:
                    yield name, begun
