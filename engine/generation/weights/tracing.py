"""Whether a model's graph can be followed: one look at the names of its nodes, before any of its layers is moved.

llama.cpp asks about every node before it computes the first, so the look ends there and computes next to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as llama

from engine.errors import DecodeFailed, NotStreamable
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.weights.cursor import MARK, node_name

if TYPE_CHECKING:
    from engine.generation.model import Model

_SPEC = ContextSpec(num_cells=256, n_batch=8, n_ubatch=8, num_threads=1, num_sequences=1, op_offload=False)
# What llama.cpp calls its nodes: the name of a step and the layer that it belongs to.
_OF_LAYER = re.compile(rb"[A-Za-z_]+-(\d+)$")


def require_in_order(model: Model, num_layers: int, in_memory: Iterable[int]) -> None:
    """Looks at the graph of one token.

    Raises:
        NotStreamable: It does not pass the layers one after another, or does not say so.
    """
    trace = Trace(num_layers)
    context = Context(model, _SPEC, trace)
    stop = llama.ggml_abort_callback(lambda _: trace.is_complete)
    llama.llama_set_abort_callback(context.handle, stop, None)
    try:
        # That it was stopped is told as a failure.
        with suppress(DecodeFailed):
            context.decode([Stretch(0, 0, (max(0, model.bos),), 1)])
    finally:
        context.close()
    fault = fault_of(trace.names, num_layers, frozenset(in_memory))
    if fault:
        raise NotStreamable(f"The layers of {model.path.name} cannot be read one by one: {fault}.")


def fault_of(names: Iterable[bytes], num_layers: int, in_memory: frozenset[int]) -> str:
    """Why a graph with nodes of these names cannot be followed; "" where it can.

    The end of each layer must be there once, in order, and nothing of a layer in memory behind its end or before the
    end of the one before it: there its weights may not have been read.
    """
    at = 0
    for name in names:
        match = _OF_LAYER.match(name)
        if match is None:
            continue
        layer = int(match[1])
        if layer != at and (name.startswith(MARK) or layer in in_memory):
            return f"“{name.decode()}” is computed between the layers {at - 1} and {at}"
        at += name.startswith(MARK)
    return "" if at == num_layers else f"the ends of {num_layers - at} of its {num_layers} layers are not named"


class Trace:
    """Takes the place of a stream and remembers the names of all nodes."""

    def __init__(self, num_layers: int) -> None:
        self.names: list[bytes] = []
        self._last = MARK + b"%d" % (num_layers - 1)
        self.is_complete = False
        name_of = node_name()

        def on_node(tensor: int, is_asked: bool, user_data: object) -> bool:
            if is_asked:
                self.names.append(name_of(tensor))
                self.is_complete = self.is_complete or self.names[-1] == self._last
            # Where one was stopped at, the rest would not be computed: none is.
            return not is_asked

        self.cb_eval: Any = llama.ggml_backend_sched_eval_callback(on_node)

    def before_decode(self, num_tokens: int) -> None:
        self.names.clear()

    def after_decode(self, is_computed: bool) -> None: ...
