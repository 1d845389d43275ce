"""Tests for engine.generation.weights.tracing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.errors import NotStreamable
from engine.generation.context import Context
from engine.generation.model import Model
from engine.generation.weights import tracing
from engine.generation.weights.mappings import Mapping, covers, current
from engine.generation.weights.memory_map import MappingLost, bytes_at
from engine.generation.weights.tracing import emptied, fault_of, graphs_of
from tests.bench.bench_model import Shape, write_model
from tests.helpers.tiny_gguf import write_tiny_lfm2, write_tiny_mamba, write_tiny_model

ALL = frozenset(range(3))
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")


def graph(num_layers: int = 3) -> list[bytes]:
    """The names of a model's nodes, as llama.cpp gives them."""
    parts = (b"attn_norm-%d", b"Qcur-%d", b"cache_k_l%d (view)", b"ffn_out-%d", b"l_out-%d")
    layers = [part % layer for layer in range(num_layers) for part in parts]
    return [b"inp_embd", *layers, b"result_norm", b"result_output"]


def test_layers_one_behind_the_other_can_be_followed() -> None:
    assert fault_of(graph(), 3, ALL) == ""


def test_a_layer_whose_end_is_not_named_cannot_be_followed() -> None:
    assert "not named" in fault_of([name for name in graph() if name != b"l_out-2"], 3, ALL)
    assert fault_of([name for name in graph() if name != b"l_out-1"], 3, ALL) != ""


def test_layers_out_of_order_cannot_be_followed() -> None:
    names = graph()
    one, two = names.index(b"l_out-0"), names.index(b"l_out-1")
    names[one], names[two] = names[two], names[one]
    assert fault_of(names, 3, ALL) != ""
    assert fault_of([*graph(), b"l_out-1"], 3, ALL) != ""


def test_what_is_computed_of_a_layer_before_its_turn_would_be_computed_from_weights_that_are_not_there() -> None:
    names = graph()
    names.insert(2, b"Qcur-2")
    assert "“Qcur-2” is computed between the layers -1 and 0" in fault_of(names, 3, ALL)
    # On a device, they always are.
    assert fault_of(names, 3, frozenset({0, 1})) == ""


@pytest.mark.parametrize("write", [write_tiny_model, write_tiny_mamba, write_tiny_lfm2])
def test_the_graph_of_a_model_is_looked_at_without_computing_it(tmp_path: Path, write) -> None:
    path = write(tmp_path / "tiny.gguf")
    model = Model(path, 0, lambda _: True, is_repacked=False)
    try:
        graphs_of(model, 2, range(2))
        with pytest.raises(NotStreamable, match=r"tiny\.gguf cannot be read one by one"):
            graphs_of(model, 3, range(3))
    finally:
        model.close()


def test_the_graphs_are_those_of_just_as_many_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path / "tiny.gguf", Shape("traced", 2, 256, 512, heads=4, kv_heads=2, vocabulary=2000))
    sizes, compute = list[int](), Context._compute

    def watched(context: Context, num_added: int) -> Any:
        sizes.append(context._batch.struct.n_tokens)
        return compute(context, num_added)

    monkeypatch.setattr(Context, "_compute", watched)
    model = Model(tmp_path / "tiny.gguf", 0, lambda _: True)
    try:
        # In the processor's own order, where one token would be computed with others.
        graphs_of(model, 2, range(2))
    finally:
        model.close()
    assert sizes == [1, 4]


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[Model]:
    """A model whose file is mapped."""
    path = write_tiny_model(tmp_path / "tiny.gguf")
    with ThreadPoolExecutor(1) as thread:
        # As in the engine: a thread's first allocations are mappings that appear meanwhile, too.
        model = thread.submit(Model, path, 0, lambda _: True, is_repacked=False).result()
        yield model
    model.close()


def of_file(model: Model) -> list[Mapping]:
    return [mapping for mapping in model.mappings if mapping.file.path == str(model.path)]


def seen(model: Model) -> list[bytes]:
    found = [bytes_at(mapping.start, mapping.end - mapping.start).raw for mapping in of_file(model)]
    assert found
    return found


@ON_LINUX
def test_a_file_is_empty_memory_for_a_while_and_then_itself_again(mapped: Model) -> None:
    before = seen(mapped)
    assert any(any(content) for content in before)
    with emptied(mapped):
        assert not any(any(content) for content in seen(mapped))
    assert seen(mapped) == before
    assert all(covers(current(), one.start, one.end, one.file, one.base) for one in of_file(mapped))


@ON_LINUX
def test_a_file_that_is_another_by_now_is_left_as_it_is(mapped: Model) -> None:
    before = seen(mapped)
    mapped.path.rename(mapped.path.with_suffix(".old"))
    with emptied(mapped):
        assert seen(mapped) == before
    mapped.path.write_bytes(b"another")
    with emptied(mapped):
        assert seen(mapped) == before
    assert seen(mapped) == before


@ON_LINUX
def test_a_mapping_that_is_lost_ends_the_process(mapped: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = list[str]()

    def lose(address: int, num_bytes: int) -> None:
        raise MappingLost("it is gone")

    monkeypatch.setattr(tracing, "map_emptiness_over", lose)
    monkeypatch.setattr(tracing, "end_process", ended.append)
    with emptied(mapped):
        assert ended == ["The engine ends itself: it is gone."]


def test_nodes_tell_where_they_are_computed_and_which_compute_nothing(mapped: Model) -> None:
    nodes = graphs_of(mapped, 2, range(2))[1]
    assert {node.device for node in nodes} == {""}
    assert {node.copied for node in nodes} == {()}
    views = [node.name for node in nodes if node.is_view]
    assert any(b"reshaped" in name or b"view" in name for name in views)
    assert not any(node.is_view for node in nodes if any(name.startswith("blk.") for name in node.weights))


def test_whoever_asks_for_a_node_that_lies_otherwise_gets_its_name(
    mapped: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_NAME", 264)
    assert {node.weights for node in graphs_of(mapped, 2, range(2))[0]} == {()}
