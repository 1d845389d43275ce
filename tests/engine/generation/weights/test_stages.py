"""Tests for engine.generation.weights.stages: parts of layers by what a graph reads."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from engine.generation.model import Model
from engine.generation.weights.stages import Node, Stages, misplaced, stages_of, whole_layers
from engine.generation.weights.tracing import graphs_of
from engine.memory.placement import PinnedPart
from engine.models import layer_stages
from engine.models.gguf import layer_of, read_header, read_shape
from tests.helpers.streamed_model import opened, same, watched
from tests.helpers.tiny_gguf import write_tiny_gemma2, write_tiny_model

MIB = 2**20
# As llama.cpp computes a layer, with the weights of each step; "" is a node without a stable name.
STEPS = (
    ("attn_norm", "attn_norm"),
    ("Qcur", "attn_q"),
    ("Qcur", ""),
    ("Kcur", "attn_k"),
    ("", ""),
    ("attn_out", "attn_output"),
    ("ffn_norm", "ffn_norm"),
    ("ffn_gate", "ffn_gate"),
    ("ffn_up", "ffn_up"),
    ("ffn_swiglu", ""),
    ("ffn_out", "ffn_down"),
    ("l_out", ""),
)
SIZES = {"attn_norm": 100, "ffn_norm": 100, "attn_q": 6 * MIB, "attn_k": 2 * MIB, "attn_output": 6 * MIB}
SIZES |= {"ffn_gate": 16 * MIB, "ffn_up": 16 * MIB, "ffn_down": 16 * MIB}


def tensor(layer: int, name: str) -> str:
    return f"blk.{layer}.{name}.weight"


def graph(steps: Sequence[tuple[str, str]] = STEPS, num_layers: int = 2) -> list[Node]:
    nodes = [Node(b"embd", ("token_embd.weight",))]
    for layer in range(num_layers):
        for name, weights in steps:
            named = f"{name}-{layer}" if name else f"node_{len(nodes)}"
            nodes.append(Node(named.encode(), (tensor(layer, weights),) if weights else ()))
    return [*nodes, Node(b"result_output", ("output.weight",))]


def sizes(num_layers: int = 2) -> dict[str, int]:
    return {tensor(layer, name): size for layer in range(num_layers) for name, size in SIZES.items()}


def cut(steps: Sequence[tuple[str, str]] = STEPS, in_memory: Sequence[int] = (0, 1)) -> Stages:
    return stages_of([graph(steps)], 2, in_memory, sizes())


def test_a_layer_comes_apart_into_attention_and_each_large_matrix() -> None:
    found = cut()
    assert found.layers == (range(4), range(4, 8))
    assert found.marks[:4] == (b"ffn_norm-0", b"ffn_gate-0", b"ffn_up-0", b"l_out-0")
    assert [found.of(tensor(1, name)) for name in ("attn_norm", "attn_output", "ffn_norm")] == [4, 4, 4]
    assert [found.of(tensor(1, name)) for name in ("ffn_gate", "ffn_up", "ffn_down")] == [5, 6, 7]
    assert found.of("output.weight") is None


def test_the_order_is_that_of_the_graph_whatever_it_is() -> None:
    steps = list(STEPS)
    gate, up = steps.index(("ffn_gate", "ffn_gate")), steps.index(("ffn_up", "ffn_up"))
    steps[gate], steps[up] = steps[up], steps[gate]
    found = cut(steps)
    assert found.marks[:4] == (b"ffn_norm-0", b"ffn_up-0", b"ffn_gate-0", b"l_out-0")
    assert found.of(tensor(0, "ffn_up")) == 1


def test_weights_that_are_read_again_later_hold_their_stage_open() -> None:
    steps = [*STEPS[:-2], ("ffn_again", "ffn_gate"), *STEPS[-2:]]
    found = cut(steps)
    # The gate's matrix is read behind that of the second one: both are one stage.
    assert found.marks[:3] == (b"ffn_norm-0", b"ffn_again-0", b"l_out-0")
    assert found.of(tensor(0, "ffn_gate")) == found.of(tensor(0, "ffn_up")) == 1


def test_a_stage_ends_only_at_a_node_whose_name_is_its_own() -> None:
    nameless = [("" if name in ("ffn_norm", "ffn_gate") else name, weights) for name, weights in STEPS]
    found = cut(nameless)
    assert found.marks[:2] == (b"ffn_up-0", b"l_out-0")
    doubled = [("twice" if name in ("ffn_norm", "ffn_up", "ffn_swiglu") else name, weights) for name, weights in STEPS]
    assert b"twice-0" not in cut(doubled).marks


def test_what_lies_on_a_device_and_what_is_not_told_is_one_stage() -> None:
    assert cut(in_memory=(1,)).layers == (range(1), range(1, 5))
    blind = [Node(node.name) for node in graph()]
    assert stages_of([blind], 2, (0, 1), sizes()) == whole_layers(2)


def test_a_layer_of_whose_weights_some_are_never_seen_is_one_stage() -> None:
    more = sizes() | {tensor(0, "attn_kv_b"): 4 * MIB}
    assert stages_of([graph()], 2, (0, 1), more).layers == (range(1), range(1, 5))


def test_what_another_graph_reads_in_another_order_does_not_come_apart() -> None:
    assert stages_of([graph(), graph()], 2, (0, 1), sizes()) == cut()
    swapped = list(STEPS)
    gate, up = swapped.index(("ffn_gate", "ffn_gate")), swapped.index(("ffn_up", "ffn_up"))
    swapped[gate], swapped[up] = swapped[up], swapped[gate]
    late = [*STEPS[:-1], ("again", "attn_q"), STEPS[-1]]
    nameless = [("" if name == "ffn_gate" else name, weights) for name, weights in STEPS]
    for steps in (swapped, late, nameless):
        assert stages_of([graph(), graph(steps)], 2, (0, 1), sizes()) == whole_layers(2)


def test_views_of_the_end_of_a_layer_are_not_its_end() -> None:
    nodes = graph()
    end = next(place for place, node in enumerate(nodes) if node.name == b"l_out-0")
    viewed = [*nodes[: end + 1], Node(b"l_out-0 (view)"), Node(b"l_out-0 (permuted)"), *nodes[end + 1 :]]
    assert misplaced(viewed, {0, 1}) == ""
    assert stages_of([viewed], 2, (0, 1), sizes()) == cut()


def test_small_layers_do_not_come_apart() -> None:
    small = {name: size // 64 for name, size in sizes().items()}
    assert stages_of([graph()], 2, (0, 1), small) == whole_layers(2)


def test_weights_that_are_read_outside_of_their_layer_are_found() -> None:
    nodes = graph()
    assert misplaced(nodes, {0, 1}) == ""
    early = [*nodes[:5], Node(b"Qcur-0", (tensor(1, "attn_q"),)), *nodes[5:]]
    assert misplaced(early, {0, 1}) == tensor(1, "attn_q")
    assert misplaced(early, {0}) == ""


@pytest.mark.parametrize("seed", range(40))
def test_no_stage_ends_while_its_weights_are_still_read_nor_after_those_that_follow_are(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"w{number}" for number in range(chance.randint(1, 12))]
    reads = [("", chance.choice(names)) for _ in range(chance.randint(len(names), 30))]
    steps = [(f"s{chance.choice('abcdefgh')}{'x' * number}", weights) for number, (_, weights) in enumerate(reads)]
    nodes = graph([*steps, ("l_out", "")])
    bytes_of = {tensor(layer, name): chance.randint(1, 9) * MIB for layer in range(2) for name in names}
    found = stages_of([nodes], 2, (0, 1), bytes_of)
    ends = [next(place for place, node in enumerate(nodes) if node.name == mark) for mark in found.marks]
    assert all(one < other for one, other in pairwise(ends))
    for place, node in enumerate(nodes):
        for name in node.weights:
            if layer_of(name) is not None:
                stage = found.of(name)
                assert place <= ends[stage]
                assert stage == 0 or place > ends[stage - 1]


# --- real graphs ---


@pytest.fixture
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of tiny models come apart as well."""
    monkeypatch.setattr(layer_stages, "LEAST_BYTES", 1)


def wide(path: Path, architecture: str = "llama") -> Path:
    return write_tiny_model(path, architecture=architecture, layers=4, dim=128, ff=352)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma2"])
def test_real_graphs_tell_their_weights_and_come_apart(tmp_path: Path, fine: None, architecture: str) -> None:
    path = tmp_path / "m.gguf"
    if architecture == "gemma2":
        write_tiny_gemma2(path, layers=4, dim=128)
    else:
        wide(path, architecture)
    model = Model(path, 0, lambda _: True, is_repacked=False)
    try:
        graphs = graphs_of(model, 4, range(4))
    finally:
        model.close()
    assert len(graphs) == 2
    told = {name for node in graphs[0] for name in node.weights}
    table = {one.name: one.num_bytes for one in read_header(path).tensors}
    of_layers = {name for name in table if layer_of(name) is not None}
    assert of_layers <= told
    found = stages_of(graphs, 4, range(4), table)
    assert all(len(layer) >= 3 for layer in found.layers)
    largest = max(
        sum(size for name, size in table.items() if found.of(name) == stage) for stage in range(found.num_stages)
    )
    # As large as the header alone had promised: memory is planned by that.
    assert largest <= layer_stages.largest_stage_bytes(
        [{name: size for name, size in table.items() if layer_of(name) == layer} for layer in range(4)]
    )


def test_a_header_promises_a_quarter_of_a_layer(tmp_path: Path) -> None:
    shape = read_shape(write_tiny_model(tmp_path / "m.gguf", layers=2, dim=512, ff=1536))
    assert 0.2 < shape.slot_bytes / max(shape.layer_bytes) < 0.4


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
@pytest.mark.parametrize("num_slots", [1, 2, 3, 6])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_logits_through_slots_of_stages_are_those_of_the_whole_model(
    tmp_path: Path, fine: None, architecture: str, num_slots: int
) -> None:
    path = wide(tmp_path / "m.gguf", architecture)
    with opened(path, None) as model:
        whole = model.text()
    with opened(path, (1, 2, 3), num_slots, watched(lambda number: None)) as model:
        assert model.stream is not None
        assert model.stream._layout.layers[0] == range(4)
        assert same(model.text(), whole)
        assert model.stream.counters().num_slots == num_slots
        assert model.stream.streamed == (1, 2, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
def test_where_stages_are_larger_than_promised_there_are_fewer_slots(
    tmp_path: Path, fine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wide(tmp_path / "m.gguf")
    promised = read_shape(path).slot_bytes
    # The graph turns out not to come apart.
    monkeypatch.setattr(layer_stages, "STAGES_OF_LAYER", 1)
    with opened(path, (1, 2, 3), 8, watched(lambda number: None)) as model:
        assert model.stream is not None
        slots = model.stream.counters().num_slots
        assert slots * max(read_shape(path).layer_bytes) <= 8 * promised
        assert 1 <= slots < 3


@pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")
def test_of_a_streamed_layer_some_stages_stay_and_come_and_go_and_logits_are_the_same(
    tmp_path: Path, fine: None
) -> None:
    path, num_passes = wide(tmp_path / "m.gguf"), 6
    with opened(path, None) as model:
        whole = model.prefill() + [row for number in range(4 * num_passes) for row in model.step(number)]
    with opened(path, (1, 2, 3), 1, watched(lambda number: None)) as model:
        stream, numbers = model.stream, iter(range(4 * num_passes))
        assert stream is not None
        got = model.prefill()

        def pass_over() -> None:
            for _ in range(num_passes):
                got.extend(model.step(next(numbers)))

        def is_read(num_bytes: int) -> bool:
            """Whether that is read at each pass; what is read ahead differs by a slot at either end."""
            before = stream.counters().read_bytes
            pass_over()
            read = stream.counters().read_bytes - before
            return abs(read - num_passes * num_bytes) <= 2 * stream.stage_bytes

        layers = sum(stream._layout.layer_bytes(layer) for layer in (1, 2, 3))
        assert is_read(layers)
        stream.retarget((1, 2, 3), 1, PinnedPart(2, 2))
        pass_over()
        stream.before_decode()
        spans = {span.tier: span for span in model.ledger.spans() if span.what == "layer 2"}
        assert (spans["ram"].state, spans["disk"].state) == ("resident", "streaming")
        assert spans["ram"].num_bytes + spans["disk"].num_bytes == stream._layout.layer_bytes(2)
        assert stream.stage_bytes < spans["ram"].num_bytes <= 2 * stream.stage_bytes
        assert stream.streamed == (1, 2, 3)
        assert is_read(layers - spans["ram"].num_bytes)
        stream.retarget((1, 3), 1)
        pass_over()
        assert stream.streamed == (1, 3)
        assert same(got, whole[: len(got)])
