"""Tests for engine.generation.weights.tracing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import NotStreamable
from engine.generation.model import Model
from engine.generation.weights.tracing import fault_of, graphs_of
from tests.helpers.tiny_gguf import write_tiny_lfm2, write_tiny_mamba, write_tiny_model

ALL = frozenset(range(3))


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
