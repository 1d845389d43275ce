"""Whether a model's graphs can be followed, and which weights their nodes read: a look before any layer is moved.

llama.cpp asks about every node before it computes the first, so the look ends there and computes next to nothing. It is
at a graph that writes, and at one that reads a prompt.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as llama

from engine.errors import DecodeFailed, NotStreamable
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.weights.cursor import node_name
from engine.generation.weights.stages import MARK, Node, misplaced

if TYPE_CHECKING:
    from engine.generation.model import Model

_SPEC = ContextSpec(num_cells=256, n_batch=8, n_ubatch=8, num_threads=1, num_sequences=1, op_offload=False)
# Where a node of ggml has what it is computed from, what it is a view of, and its name (ggml.h; the release is pinned).
_NUM_SOURCES = 10
_SOURCES, _VIEWED, _NAME = 152, 232, 256
# Tokens of the graphs that are looked at.
_TOKENS = (1, 4)


def graphs_of(model: Model, num_layers: int, in_memory: Iterable[int]) -> list[tuple[Node, ...]]:
    """Graphs, which pass the layers one after another; weights are told where they can be found.

    Raises:
        NotStreamable: One does not pass the layers so, or does not say so.
    """
    trace, layers = Trace(num_layers), frozenset(in_memory)
    context = Context(model, _SPEC, trace)
    stop = llama.ggml_abort_callback(lambda _: trace.is_complete)
    llama.llama_set_abort_callback(context.handle, stop, None)
    graphs = []
    try:
        for num_tokens in _TOKENS:
            # That it was stopped is told as a failure.
            with suppress(DecodeFailed):
                context.decode([Stretch(0, 0, (max(0, model.bos),) * num_tokens, 1)])
            graphs.append(tuple(trace.nodes))
            # A device computes all of it.
            context.clear()
    finally:
        context.close()
    for nodes in graphs:
        fault = fault_of((node.name for node in nodes), num_layers, layers)
        if not fault and (name := misplaced(nodes, layers)):
            fault = f"“{name}” is read outside of its layer"
        if fault:
            raise NotStreamable(f"The layers of {model.path.name} cannot be read one by one: {fault}.")
    return graphs


def fault_of(names: Iterable[bytes], num_layers: int, in_memory: frozenset[int]) -> str:
    """Why a graph with nodes of these names cannot be followed; "" where it can.

    The end of each layer must be there once, in order, and nothing of a layer in memory behind its end or before the
    end of the one before it: there its weights may not have been read.
    """
    at = 0
    for name in names:
        layer = Node(name).layer
        if layer is None:
            continue
        if layer != at and (name.startswith(MARK) or layer in in_memory):
            return f"“{name.decode()}” is computed between the layers {at - 1} and {at}"
        at += name.startswith(MARK)
    return "" if at == num_layers else f"the ends of {num_layers - at} of its {num_layers} layers are not named"


class Trace:
    """Takes the place of a stream and remembers all nodes."""

    def __init__(self, num_layers: int) -> None:
        self.nodes: list[Node] = []
        self._last = MARK + b"%d" % (num_layers - 1)
        self.is_complete = False
        name_of = node_name()
        weights_of = _sources(name_of)

        def on_node(tensor: int, is_asked: bool, user_data: object) -> bool:
            if is_asked:
                name = name_of(tensor)
                self.nodes.append(Node(name, weights_of(tensor)))
                self.is_complete = self.is_complete or name == self._last
            # Where one was stopped at, the rest would not be computed: none is.
            return not is_asked

        self.cb_eval: Any = llama.ggml_backend_sched_eval_callback(on_node)

    def disk_seconds(self) -> tuple[float, float]:
        """Nothing is read."""
        return 0.0, 0.0

    def before_decode(self, num_tokens: int) -> None:
        self.nodes.clear()
        self.is_complete = False

    def after_decode(self, is_computed: bool) -> None: ...


def _sources(name_of: Callable[[int], bytes]) -> Callable[[int], tuple[str, ...]]:
    """How to tell what a node is computed from, by name; nothing where nodes do not lie in memory as we know them."""
    library = ctypes.PyDLL(None, handle=llama._lib._handle)
    place_of = library["ggml_get_name"]
    place_of.argtypes, place_of.restype = (ctypes.c_void_p,), ctypes.c_void_p

    def pointer_at(address: int) -> int:
        return ctypes.c_void_p.from_address(address).value or 0

    def viewed(tensor: int) -> int:
        """What a view shows part of, or the tensor itself."""
        while (shown := pointer_at(tensor + _VIEWED)) != 0:
            tensor = shown
        return tensor

    def sources(tensor: int) -> tuple[str, ...]:
        if place_of(tensor) != tensor + _NAME:
            return ()
        found = (pointer_at(tensor + _SOURCES + 8 * number) for number in range(_NUM_SOURCES))
        return tuple(name_of(viewed(source)).decode(errors="replace") for source in found if source)

    return sources
