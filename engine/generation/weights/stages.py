"""Stages: parts of layers that are computed one after the other, each with the node at which it ends.

The ring holds stages, so that a slot holds far less than a layer while another one is read. The graph itself determines
which weights make a stage: a stage ends where all nodes that read its weights were computed, and none has yet read
those of the next. A layer that cannot be divided so is one stage, as is each that lies on a device.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from engine.models.gguf import layer_of
from engine.models.layer_stages import cut

# What llama.cpp calls the end of a layer.
MARK = b"l_out-"
# What it calls its nodes: the name of a step and the layer that it belongs to.
OF_LAYER = re.compile(rb"[A-Za-z_]+-(\d+)$")


@dataclass(frozen=True, slots=True)
class Node:
    """A step of the graph: its name, and the model's weights that it reads.

    `copied` are those tensors of which it reads a copy, made where it is computed: on the device of that name, or ""
    for the processor. `is_view`: it only shows another node differently, and nothing is computed.
    """

    name: bytes
    weights: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    device: str = ""
    is_view: bool = False

    @property
    def layer(self) -> int | None:
        """The layer that its name gives."""
        match = OF_LAYER.match(self.name)
        return int(match[1]) if match else None

    @property
    def is_end(self) -> bool:
        """Whether a layer ends with it; views of a layer's end have longer names."""
        return self.name.startswith(MARK) and self.layer is not None


@dataclass(frozen=True, slots=True)
class Stages:
    """`marks` are the names of the nodes at which stages end, `layers` has the stages of each layer.

    `by_tensor` has those tensors of layers that belong to another stage than the first.
    """

    marks: tuple[bytes, ...]
    layers: tuple[range, ...]
    by_tensor: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_stages(self) -> int:
        return len(self.marks)

    def of(self, tensor: str) -> int | None:
        """The stage of a tensor; None where it belongs to no layer."""
        layer = layer_of(tensor)
        if layer is None or layer >= len(self.layers):
            return None
        return self.by_tensor.get(tensor, self.layers[layer].start)


def whole_layers(num_layers: int) -> Stages:
    """Each layer is a stage."""
    marks = tuple(MARK + b"%d" % layer for layer in range(num_layers))
    return Stages(marks, tuple(range(layer, layer + 1) for layer in range(num_layers)))


def stages_of(
    graphs: Sequence[Sequence[Node]], num_layers: int, in_memory: Collection[int], sizes: Mapping[str, int]
) -> Stages:
    """Divides layers by the order in which graphs read their weights; only where that is the same in all graphs.

    Args:
        graphs: The nodes of several, each of which passes the layers one after another (tracing.py).
        num_layers: Of the model.
        in_memory: Layers whose weights the processor reads.
        sizes: Bytes of the model's tensors.
    """
    found = _divided(graphs[0], num_layers, in_memory, sizes)
    return found if all(are_apart(graph, found) for graph in graphs[1:]) else whole_layers(num_layers)


def are_apart(nodes: Sequence[Node], stages: Stages) -> bool:
    """Whether each stage ends in a graph, once and in order, and each of its weights is read in its turn."""
    numbers = {mark: number for number, mark in enumerate(stages.marks)}
    at = 0
    for node in nodes:
        if any(stages.of(name) not in (None, at) for name in node.weights):
            return False
        if node.name in numbers:
            if numbers[node.name] != at:
                return False
            at += 1
    return at == stages.num_stages


def _divided(nodes: Sequence[Node], num_layers: int, in_memory: Collection[int], sizes: Mapping[str, int]) -> Stages:
    marks: list[bytes] = []
    layers: list[range] = []
    by_tensor: dict[str, int] = {}
    named = Counter(node.name for node in nodes)
    ends = {node.name: place for place, node in enumerate(nodes) if node.is_end}
    before = -1
    for layer in range(num_layers):
        end = MARK + b"%d" % layer
        steps = nodes[before + 1 : ends[end] + 1]
        cuts = _cuts(steps, layer, sizes, named) if layer in in_memory else []
        first = len(marks)
        for mark, tensors in cuts:
            marks.append(mark)
            by_tensor.update(dict.fromkeys(tensors, len(marks)))
        marks.append(end)
        layers.append(range(first, len(marks)))
        before = ends[end]
    return Stages(tuple(marks), tuple(layers), by_tensor)


def _cuts(
    steps: Sequence[Node], layer: int, sizes: Mapping[str, int], named: Mapping[bytes, int]
) -> list[tuple[bytes, list[str]]]:
    """For each stage but the first of a layer, the node at which the one before it ends, and its tensors."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, node in enumerate(steps):
        for name in node.weights:
            if layer_of(name) == layer and name in sizes:
                first.setdefault(name, place)
                last[name] = place
    if sum(sizes[name] for name in first) < sum(size for name, size in sizes.items() if layer_of(name) == layer):
        # It is unknown when the others are read.
        return []
    marks: dict[str, bytes] = {}

    def may_begin(stage: Sequence[str], name: str) -> bool:
        # All weights of the stage before have been read by now, and none that follow have.
        end = max(last[one] for one in stage)
        between = (node.name for node in steps[end : first[name]] if node.layer == layer and named[node.name] == 1)
        marks[name] = next(between, b"")
        return bool(marks[name])

    stages = cut(sorted(first, key=lambda name: first[name]), sizes, may_begin)
    return [(marks[stage[0]], stage) for stage in stages[1:]]


def misplaced(nodes: Sequence[Node], in_memory: Collection[int]) -> str:
    """A tensor of a layer in memory that is read outside of that layer's turn; "" where there is none."""
    at = 0
    for node in nodes:
        for name in node.weights:
            if (layer := layer_of(name)) in in_memory and layer != at:
                return name
        at += node.is_end
    return ""
