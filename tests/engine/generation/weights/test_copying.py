"""Tests for engine.generation.weights.copying: what llama.cpp copies to a device, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    """As llama.cpp computes one that lies in memory beside a card: its cells stay, all else is computed there."""
    yield node(f"norm-{layer}", others=("inp_embd",) if not layer else ())
    yield node(f"attn_norm-{layer}", tensor(layer, "attn_norm"))
    yield node(f"Qcur-{layer}", tensor(layer, "attn_q"))
    yield node(f"Vcur-{layer}", tensor(layer, "attn_v"))
    yield node(f"cache_k-{layer}", device="", others=("Kcur",))
    yield node(f"kqv-{layer}", others=("cache_k",))
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


def test_a_weight_is_copied_when_the_step_that_reads_it_begins():
    for ends in ((), ("Vcur",), ("Qcur", "Vcur", "attn_out"), ("attn_norm", "ffn_up")):
        assert copied_too_early(graph(), stages(*ends), range(LAYERS)) == "", ends


def test_the_first_of_a_stretch_is_copied_where_the_stretch_begins():
    # What is left of the stage before is computed there, before the weight is read.
    assert copied_too_early(graph(), stages("kqv"), range(LAYERS)) == tensor(0, "attn_output")
    assert copied_too_early(graph(), stages("kqv"), ()) == ""


def test_views_neither_begin_nor_end_a_stretch():
    nodes = graph()
    at = next(place for place, one in enumerate(nodes) if one.name == b"attn_norm-1")
    nodes.insert(at, node("l_out-0 (view)", device="", is_view=True))
    assert copied_too_early(nodes, stages("Vcur"), range(LAYERS)) == ""
    # Were it computed, what follows would be copied for a stretch that begins with it.
    nodes[at] = node("l_out-0 (copy)", device="")
    assert copied_too_early(nodes, stages("Vcur"), range(LAYERS)) == ""


def test_what_was_copied_before_does_not_count_as_the_first_of_a_stretch():
    nodes = [
        node("Qcur-0", tensor(0, "attn_q")),
        node("cache_k-0", device=""),
        # It is there; what follows is the first that is copied for this stretch, when this step begins.
        node("again-0", tensor(0, "attn_q")),
        node("attn_out-0", tensor(0, "attn_output")),
        node("l_out-0"),
    ]
    late = Stages((b"again-0", b"l_out-0"), (range(2),), {tensor(0, "attn_output"): 1})
    assert copied_too_early(nodes, late, (0,)) == tensor(0, "attn_output")


def test_on_the_processor_nothing_is_copied():
    nodes = [node(one.name.decode(), *one.weights, device="") for one in graph()]
    assert copied_too_early(nodes, stages("kqv"), range(LAYERS)) == ""


def test_layers_that_are_one_stage_are_copied_in_their_turn():
    assert copied_too_early(graph(), whole_layers(LAYERS), range(LAYERS)) == ""
    # But not where a stretch goes on over the end of one without a weight of its own.
    nodes = [one for one in graph() if one.name not in (b"ffn_norm-0", b"ffn_up-0", b"attn_out-0")]
    end = next(place for place, one in enumerate(nodes) if one.name == b"l_out-0")
    nodes[end] = node("l_out-0")
    assert copied_too_early(nodes, whole_layers(LAYERS), range(LAYERS)) == tensor(1, "attn_norm")
