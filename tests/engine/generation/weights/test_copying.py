"""Tests for engine.generation.weights.copying: what llama.cpp copies to a device, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from engine.generation.weights.copying import copied_too_early
from engine.generation.weights.stages import Node, Stages, whole_layers

CARD = "CUDA0"
LAYERS = 2


def tensor(layer: int, name: str) -> str:
    return f"blk.{layer}.{name}.weight"


def node(name: str, *weights: str, device: str = CARD, is_view: bool = False, others: Sequence[str] = ()) -> Node:
    """A step that reads weights, copied where it is computed on a device, and other things that were copied."""
    copied = (*others, *weights) if device else ()
    return Node(name.encode(), (*others, *weights), copied, device, is_view)


def layer_of_large_batches(layer: int) -> Iterator[Node]:
    """As llama.cpp computes a layer in memory when there is a card: its cells stay, all else is computed there."""
    yield node(f"norm-{layer}", others=("inp_embd",) if not layer else ())
    yield node(f"attn_norm-{layer}", tensor(layer, "attn_norm"))
    yield node(f"Qcur-{layer}", tensor(layer, "attn_q"))
    yield node(f"Vcur-{layer}", tensor(layer, "attn_v"))
    yield node(f"cache_k-{layer}", device="", others=(f"Kcur-{layer}",))
    yield node(f"kqv-{layer}", others=(f"cache_k-{layer}",))
    yield node(f"attn_out-{layer}", tensor(layer, "attn_output"))
    yield node(f"ffn_norm-{layer}", tensor(layer, "ffn_norm"))
    yield node(f"ffn_up-{layer}", tensor(layer, "ffn_up"))
    yield node(f"l_out-{layer}", tensor(layer, "ffn_down"))


def graph() -> list[Node]:
    return [node("embd", device=""), *(step for layer in range(LAYERS) for step in layer_of_large_batches(layer))]


def stages(*ends: str) -> Stages:
    """Each layer comes apart at these nodes, behind which the weights are those of the next stage."""
    per_layer = [*ends, "l_out"]
    marks = tuple(f"{end}-{layer}".encode() for layer in range(LAYERS) for end in per_layer)
    count, by_tensor, at = len(per_layer), dict[str, int](), 0
    for one in graph():
        for name in one.weights:
            by_tensor[name] = at
        at += at < len(marks) and one.name == marks[at]
    return Stages(marks, tuple(range(layer * count, (layer + 1) * count) for layer in range(LAYERS)), by_tensor)


WEIGHTS = {name for step in graph() for name in step.weights if name.startswith("blk.")} | {"rope_freqs.weight"}


def early(nodes: Sequence[Node], stages: Stages, in_memory: Collection[int] = range(LAYERS)) -> str:
    return copied_too_early(nodes, stages, in_memory, WEIGHTS)


def replaced(name: str, by: Node) -> list[Node]:
    return [by if one.name == name.encode() else one for one in graph()]


def test_a_weight_is_copied_when_the_step_that_reads_it_begins():
    for ends in ((), ("Vcur",), ("Qcur", "Vcur", "kqv", "attn_out"), ("attn_norm", "ffn_up")):
        assert early(graph(), stages(*ends)) == "", ends


def test_the_first_of_a_split_that_takes_nothing_else_is_copied_where_the_split_begins():
    nodes = replaced("kqv-0", node("kqv-0"))
    # What is left of the stage before is computed there, before the weight is read.
    assert early(nodes, stages("kqv")) == tensor(0, "attn_output")
    assert early(nodes, stages("Vcur")) == ""
    assert early(nodes, stages("kqv"), ()) == ""


def test_a_weight_that_is_there_begins_a_split_as_well_which_the_next_one_is_copied_for():
    def roped(layer: int) -> list[Node]:
        q, rope, v = (f"{name}-{layer}" for name in ("Qcur", "Qrope", "Vcur"))
        return [
            node(q, tensor(layer, "attn_q")),
            node(rope, "rope_freqs.weight"),
            node(v, tensor(layer, "attn_v")),
            node(f"l_out-{layer}"),
        ]

    marks = (b"Qrope-0", b"l_out-0", b"Qrope-1", b"l_out-1")
    late = Stages(marks, (range(2), range(2, 4)), {tensor(0, "attn_v"): 1, tensor(1, "attn_v"): 3})
    assert early([*roped(0), *roped(1)], late) == tensor(1, "attn_v")
    # Where it is copied for the first time, the split takes something.
    assert early(roped(0), late) == ""


def test_views_neither_begin_nor_end_a_split():
    viewed = replaced("kqv-0", node("kqv-0"))
    at = next(place for place, one in enumerate(viewed) if one.name == b"kqv-0")
    viewed.insert(at + 1, node("kqv-0 (view)", device="", is_view=True))
    assert early(viewed, stages("kqv")) == tensor(0, "attn_output")
    # Were it computed by the processor, what follows would be copied for a split that begins with it.
    viewed[at + 1] = node("kqv-0 (copy)", device="")
    assert early(viewed, stages("kqv")) == ""


def test_on_the_processor_nothing_is_copied():
    nodes = [node(one.name.decode(), *one.weights, device="") for one in graph()]
    assert early(nodes, stages("kqv")) == ""


def test_layers_that_are_one_stage_are_copied_in_their_turn():
    assert early(graph(), whole_layers(LAYERS)) == ""
    # But not where a split that takes nothing goes on over the end of one.
    nodes = [one for one in replaced("kqv-0", node("kqv-0")) if b"ffn" not in one.name and one.name != b"attn_out-0"]
    nodes = [node("l_out-0") if one.name == b"l_out-0" else one for one in nodes]
    assert early(nodes, whole_layers(LAYERS)) == tensor(1, "attn_norm")
