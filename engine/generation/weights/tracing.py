"""Whether a model's graphs can be followed, and which weights their nodes read: a look before any layer is moved.

llama.cpp asks about every node before it computes the first, so the look ends there and computes next to nothing. It
covers a graph that writes, and one that reads a prompt. Where some layers lie on a device, all of them are computed:
then over empty memory, because nothing should be read from disk for it.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as llama

from engine.errors import DecodeFailed, NotStreamable
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.rows import Filling
from engine.generation.weights.copying import copied_too_early
from engine.generation.weights.cursor import node_name
from engine.generation.weights.mappings import FileId, Mapping, covers, current
from engine.generation.weights.memory_map import MappingLost, end_process, map_emptiness_over, map_file_over
from engine.generation.weights.stages import MARK, Node, Stages, are_apart, misplaced
from engine.models.gguf import parts_of
from engine.own_cores import physical_cores

if TYPE_CHECKING:
    from engine.generation.model import Model

_SPEC = ContextSpec(num_cells=256, n_batch=8, n_ubatch=8, num_threads=1, num_sequences=1, op_offload=False)
# From this many tokens on, llama.cpp leaves it to ggml where norms of a layer are computed
# (llama_context::graph_get_cb).
_PROMPT_TOKENS = 32
# Where a node of ggml has its buffer, its operation, its sources, what it is a view of, and its name (ggml.h; the
# release is pinned).
_NUM_SOURCES = 10
_BUFFER, _OPERATION, _SOURCES, _VIEWED, _NAME = 8, 80, 152, 232, 256
_VIEWS = frozenset({b"NONE", b"RESHAPE", b"VIEW", b"PERMUTE", b"TRANSPOSE"})
# What ggml calls a copy: the backend it was made for, what it is a copy of, and its index.
_COPY = re.compile(rb"[^#]*#(.+)#\d+$", re.DOTALL)
# Tokens of the traced graphs, and the most.
_TOKENS, _MOST_TOKENS = (1, 4), 128


def graphs_of(model: Model, num_layers: int, in_memory: Iterable[int]) -> list[tuple[Node, ...]]:
    """Graphs, which pass the layers one after another; weights are included where they can be found.

    Raises:
        NotStreamable: A graph does not pass the layers so, or does not show it.
    """
    layers = frozenset(in_memory)
    graphs = _traced(model, num_layers, _TOKENS, _SPEC)
    for nodes in graphs:
        if fault := _fault_in(nodes, num_layers, layers):
            raise NotStreamable(f"The layers of {model.path.name} cannot be read one by one: {fault}.")
    return graphs


def can_be_copied(
    model: Model,
    stages: Stages,
    in_memory: Collection[int],
    weights: Collection[str],
    from_tokens: int,
    rows_of_token: Iterable[int],
) -> bool:
    """Whether a device may compute large batches of streamed layers, in any of the possible graphs.

    Args:
        model: Some of its layers lie on a device.
        stages: Of its layers, as they are streamed.
        in_memory: The layers that do not lie there.
        weights: The names of all of the model's tensors.
        from_tokens: A step with this many rows or more is computed there.
        rows_of_token: How many rows steps have for a token; steps with more rows are copied for sooner.
    """
    num_layers, layers = len(stages.layers), frozenset(in_memory)
    if num_layers - 1 in layers or from_tokens > _MOST_TOKENS:
        # Of the last layer, only tokens whose logits are wanted are computed to the end.
        return False
    counts = {-(-from_tokens // rows) for rows in rows_of_token}
    tokens = sorted(counts | {1, from_tokens, max(from_tokens, _PROMPT_TOKENS)})
    spec = replace(_SPEC, n_batch=tokens[-1], n_ubatch=tokens[-1], op_offload=True)
    return not any(
        _fault_in(nodes, num_layers, layers)
        or not are_apart(nodes, stages)
        or copied_too_early(nodes, stages, layers, weights)
        for nodes in _traced(model, num_layers, tokens, spec)
    )


def _traced(model: Model, num_layers: int, tokens: Iterable[int], spec: ContextSpec) -> list[tuple[Node, ...]]:
    """The graphs for these numbers of tokens."""
    trace, graphs = Trace(num_layers), list[tuple[Node, ...]]()
    stop = llama.ggml_abort_callback(lambda _: trace.is_complete)
    with ExitStack() as undo:
        if any(device != "CPU" for device in model.layer_devices.values()):
            undo.enter_context(emptied(model))
            spec = replace(spec, num_threads=physical_cores())
        context = Context(model, spec, trace)
        undo.callback(context.close)
        llama.llama_set_abort_callback(context.handle, stop, None)
        # The graphs must be those of exactly this many tokens.
        context.filling = Filling()
        for num_tokens in tokens:
            # Stopping it is reported as a failure.
            with suppress(DecodeFailed):
                context.decode([Stretch(0, 0, (max(0, model.bos),) * num_tokens, 1)])
            graphs.append(tuple(trace.nodes))
            # A device computes all of it.
            context.clear()
    return graphs


@contextmanager
def emptied(model: Model) -> Iterator[None]:
    """Replaces mapped files of a model by empty memory meanwhile, which takes none and is read from no disk.

    Files that cannot be opened, or have changed by now, stay as they are.
    """
    with ExitStack() as undo:
        for part in parts_of(model.path):
            with suppress(OSError):
                opened = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
                undo.callback(os.close, opened)
                for mapping in _mapped_from(model.mappings, FileId.of(part), os.fstat(opened).st_ino):
                    num_bytes = mapping.end - mapping.start
                    undo.callback(_or_end, map_file_over, mapping.start, num_bytes, opened, mapping.offset)
                    _or_end(map_emptiness_over, mapping.start, num_bytes)
        yield


def _mapped_from(mappings: Iterable[Mapping], file: FileId, inode: int) -> list[Mapping]:
    """Where the file of that number is still mapped. Some file systems show another device in a mapping."""
    now = current()
    return [
        one
        for one in mappings
        if one.file.is_same(file) and one.file.inode == inode and covers(now, one.start, one.end, one.file, one.base)
    ]


def _or_end(lay: Callable[..., None], *where: int) -> None:
    try:
        lay(*where)
    except MappingLost as lost:
        end_process(f"The engine ends itself: {lost}.")


def _fault_in(nodes: Sequence[Node], num_layers: int, in_memory: frozenset[int]) -> str:
    """Why a graph cannot be followed; "" where it can."""
    fault = fault_of((node.name for node in nodes), num_layers, in_memory)
    if not fault and (name := misplaced(nodes, in_memory)):
        return f"“{name}” is read outside of its layer"
    return fault


def fault_of(names: Iterable[bytes], num_layers: int, in_memory: frozenset[int]) -> str:
    """Why a graph with nodes of these names cannot be followed; "" where it can.

    The end of each layer must occur once, in order, and no node of a layer in memory after its end or before the end of
    the layer before it: there its weights may not have been read.
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
        node_of = node_reader()

        def on_node(tensor: int, is_asked: bool, user_data: object) -> bool:
            if is_asked:
                node = node_of(tensor)
                self.nodes.append(node)
                self.is_complete = self.is_complete or node.name == self._last
            # If it stopped at a node, the rest would not be computed: it stops at none.
            return not is_asked

        self.cb_eval: Any = llama.ggml_backend_sched_eval_callback(on_node)

    # As its specification says.
    can_copy = True

    def disk_seconds(self) -> tuple[float, float]:
        """Nothing is read."""
        return 0.0, 0.0

    def before_decode(self) -> None:
        self.nodes.clear()
        self.is_complete = False

    def after_decode(self, is_computed: bool) -> None: ...


def node_reader() -> Callable[[int], Node]:
    """Returns a function that describes a node; by name alone where the memory layout of nodes is not as expected."""
    library = ctypes.PyDLL(None, handle=llama._lib._handle)
    name_of, place_of = node_name(), library["ggml_get_name"]
    place_of.argtypes, place_of.restype = (ctypes.c_void_p,), ctypes.c_void_p
    operation_name = library["ggml_op_name"]
    operation_name.argtypes, operation_name.restype = (ctypes.c_int,), ctypes.c_char_p
    is_host, buffer_name = library["ggml_backend_buffer_is_host"], library["ggml_backend_buffer_name"]
    is_host.argtypes, is_host.restype = (ctypes.c_void_p,), ctypes.c_bool
    buffer_name.argtypes, buffer_name.restype = (ctypes.c_void_p,), ctypes.c_char_p

    def pointer_at(address: int) -> int:
        return ctypes.c_void_p.from_address(address).value or 0

    def viewed(tensor: int) -> int:
        """What a view shows part of, or the tensor itself."""
        while (shown := pointer_at(tensor + _VIEWED)) != 0:
            tensor = shown
        return tensor

    def device_of(tensor: int) -> str:
        buffer = pointer_at(viewed(tensor) + _BUFFER)
        return "" if not buffer or is_host(buffer) else (buffer_name(buffer) or b"").decode(errors="replace")

    def node_of(tensor: int) -> Node:
        name = name_of(tensor)
        if place_of(tensor) != tensor + _NAME:
            return Node(name)
        found = (pointer_at(tensor + _SOURCES + 8 * number) for number in range(_NUM_SOURCES))
        sources = [name_of(viewed(source)) for source in found if source]
        copies = [_COPY.match(source) for source in sources]
        return Node(
            name,
            tuple(_text(copy[1] if copy else source) for source, copy in zip(sources, copies, strict=True)),
            tuple(_text(copy[1]) for copy in copies if copy),
            device_of(tensor),
            operation_name(ctypes.c_int32.from_address(tensor + _OPERATION).value) in _VIEWS,
        )

    return node_of


def _text(name: bytes) -> str:
    return name.decode(errors="replace")
