"""Tests for engine.models.layer_caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.models.gguf import read_shape
from engine.models.layer_caches import layer_caches, per_layer
from tests.helpers.tiny_gguf import write_tiny_lfm2, write_tiny_mamba, write_tiny_model

ATTENDS = {"attn_q.weight": 64, "attn_k.weight": 16, "attn_v.weight": 16}
SUMS_UP = {"ssm_conv1d.weight": 96, "attn_qkv.weight": 96}


def told(**values: Any) -> Callable[[str, Any], Any]:
    named = {name.replace("__", "."): value for name, value in values.items()}
    return lambda key, default: named.get(key, default)


def test_a_layer_keeps_as_many_numbers_as_its_keys_and_values_have_rows():
    wide = {"attn_k.weight": 32, "attn_v.weight": 24}
    # As Gemma 4 has them: narrower heads in windows, and no values of their own where all is looked at.
    keys_alone = {"attn_k.weight": 48}
    found = layer_caches("gemma4", told(attention__head_count=4), [ATTENDS, wide, keys_alone])
    assert found.cell_bytes == (2 * 32, 2 * 56, 2 * 96)
    assert found.state_bytes == (0, 0, 0)


@pytest.mark.parametrize(
    ("architecture", "values", "num_with_keys"),
    [
        ("gemma4", {"attention__shared_kv_layers": 18}, 7),
        ("gemma3n", {}, 20),
        ("glm4moe", {"nextn_predict_layers": 1}, 24),
        ("llama", {}, 25),
    ],
)
def test_layers_that_use_the_keys_of_others_or_are_not_computed_keep_nothing(
    architecture: str, values: dict[str, int], num_with_keys: int
):
    found = layer_caches(architecture, told(**values), [ATTENDS] * 25)
    assert found.cell_bytes == (64,) * num_with_keys + (0,) * (25 - num_with_keys)


def test_of_a_hybrid_only_some_layers_have_cells_and_the_others_a_state():
    # Qwen3-Next says one number of heads for all.
    values = told(
        embedding_length=64,
        attention__head_count=4,
        attention__head_count_kv=1,
        ssm__conv_kernel=4,
        ssm__inner_size=64,
        ssm__state_size=16,
        ssm__group_count=2,
    )
    found = layer_caches("qwen3next", values, [SUMS_UP, SUMS_UP, SUMS_UP, ATTENDS])
    assert found.cell_bytes == (0, 0, 0, 64)
    assert found.state_bytes == (4 * (3 * (64 + 2 * 2 * 16) + 16 * 64),) * 3 + (0,)


def test_what_has_matrices_of_keys_and_sums_them_up_keeps_none():
    linear = {**ATTENDS, "ssm_conv1d_k.weight": 16}
    values = {"attention__head_count": 4, "embedding_length": 64, "kda__head_dim": 8}
    assert layer_caches("bailingmoe3", told(**values, attention__head_count_kv=1), [linear]).cell_bytes == (0,)
    kimi = layer_caches(
        "kimi-linear", told(**values, attention__head_count_kv=[0, 1]), [{**ATTENDS, "ssm_g_a.weight": 8}] * 2
    )
    assert kimi.cell_bytes == (0, 64)
    # Falcon-H1 does both in each layer.
    both = layer_caches("falcon-h1", told(**values, attention__head_count_kv=1), [{**ATTENDS, "ssm_in.weight": 8}])
    assert both.cell_bytes == (64,)
    assert all(both.state_bytes)


@pytest.mark.parametrize(
    ("values", "state_bytes"),
    [
        ({"wkv__head_size": 16}, 4 * 64 * (2 + 16)),
        ({"wkv__head_size": 16, "token_shift_count": 1}, 4 * 64 * (1 + 16)),
        ({"shortconv__l_cache": 3}, 4 * 64 * 2),
        ({"kda__head_dim": 8, "ssm__conv_kernel": 4}, 4 * 4 * 8 * (9 + 8)),
    ],
)
def test_each_way_to_sum_up_has_a_state_of_its_own_size(values: dict[str, int], state_bytes: int):
    told_of = told(embedding_length=64, attention__head_count=4, **values)
    [found] = layer_caches("any", told_of, [{"time_mix_key.weight": 64}]).state_bytes
    assert found == state_bytes


def test_where_keys_are_made_with_others_the_metadata_says_how_wide_they_are():
    values = {"embedding_length": 64, "attention__head_count": 4, "attention__head_count_kv": [1, 2]}
    layers = [{"attn_qkv.weight": 96}, {"attn_qkv.weight": 128}]
    assert layer_caches("phi3", told(**values), layers).cell_bytes == (2 * 32, 2 * 64)
    # Of DeepSeek's only the shorter vector is kept, which both are made from.
    values |= {"attention__head_count_kv": 1, "attention__key_length": 72, "attention__value_length": 64}
    latent = told(**values, attention__key_length_mla=24, attention__value_length_mla=16)
    assert layer_caches("deepseek2", latent, layers).cell_bytes == (2 * 72, 2 * 72)


def test_numbers_that_are_told_of_fewer_layers_are_none_of_the_others():
    assert per_layer([1, 2], 3) == [1, 2, 0]
    assert per_layer(5, 2) == [5, 5]


@pytest.mark.parametrize("write", [write_tiny_model, write_tiny_mamba, write_tiny_lfm2])
def test_a_real_header_tells_it_of_every_layer(tmp_path: Path, write: Callable[[Path], Path]):
    shape = read_shape(write(tmp_path / "tiny.gguf"))
    kept = list(zip(shape.kv_cell_bytes, shape.state_bytes, strict=True))
    assert len(kept) == shape.num_layers
    assert all(bool(cell) != bool(state) for cell, state in kept)
