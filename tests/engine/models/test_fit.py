"""Tests for engine.models.fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config import Settings
from engine.models import fit
from engine.models.fit import by_settings, can_quantise_kv, demand_of, is_packable, is_streamable
from engine.models.gguf import TensorExtent, read_shape
from tests.helpers.tiny_gguf import write_tiny_model


def table(*names: str) -> list[TensorExtent]:
    return [TensorExtent(name, 100 * place, 100) for place, name in enumerate(names)]


def test_a_demand_says_what_header_and_settings_say(tmp_path: Path):
    path = write_tiny_model(tmp_path / "m.gguf", layers=3, context=512)
    settings = Settings.model_validate({"generation": {"parallel_answers": 7, "n_gpu_layers": 2, "n_ubatch": 64}})
    demand = demand_of(path, settings)
    assert demand.shape == read_shape(path)
    assert (demand.context_tokens, demand.parallel_answers) == (512, 7)
    assert (demand.wishes.n_gpu_layers, demand.wishes.n_ubatch) == (2, 64)
    assert demand_of(path, settings, n_gpu_layers=1).wishes.n_gpu_layers == 1


def test_other_settings_leave_the_model_as_it_is(tmp_path: Path):
    demand = demand_of(write_tiny_model(tmp_path / "m.gguf"), Settings())
    changed = by_settings(demand, Settings.model_validate({"generation": {"max_context": 256, "kv_type": "q8_0"}}))
    assert changed.shape is demand.shape
    assert changed.context_tokens == 256
    # Heads of 16 numbers share no scale of 32.
    assert changed.wishes.kv_type == "f16"


@pytest.mark.parametrize(("chosen", "wished"), [(0, None), (64, 64), (4096, 256)])
def test_no_pass_is_planned_for_that_has_more_tokens_than_cells(tmp_path: Path, chosen: int, wished: int | None):
    settings = Settings.model_validate({"generation": {"max_context": 256, "n_ubatch": chosen}})
    assert demand_of(write_tiny_model(tmp_path / "m.gguf"), settings).wishes.n_ubatch == wished


def test_heads_of_whole_scales_can_be_kept_in_eight_bits():
    def metadata(width: int) -> dict[str, object]:
        return {"general.architecture": "llama", "llama.attention.head_count": 2, "llama.embedding_length": width}

    assert can_quantise_kv(metadata(128))
    assert not can_quantise_kv(metadata(96))
    # Told of each layer, as some headers do.
    assert can_quantise_kv(metadata(128) | {"llama.attention.key_length": [64, 128]})
    assert not can_quantise_kv(metadata(128) | {"llama.attention.key_length": [64, 80]})
    assert can_quantise_kv(metadata(64) | {"llama.attention.head_count": []})
    # A header may say what it likes of an architecture that is unknown.
    assert can_quantise_kv(metadata(128) | {"llama.attention.key_length": "many", "llama.embedding_length": "wide"})


def test_layers_that_lie_one_after_another_can_be_streamed():
    apart = table("token_embd.weight", "blk.0.a", "blk.0.b", "blk.1.a", "blk.1.b", "output.weight")
    assert is_streamable([apart], platform="linux")
    assert not is_streamable([apart], platform="darwin")


def test_layers_that_lie_between_each_other_cannot():
    names = [f"blk.{layer}.{tensor}" for tensor in "abcde" for layer in range(3)]
    assert not is_streamable([table(*names)], platform="linux")
    # A layer that is cut by the end of a file is none of them.
    parts = [table("blk.0.a", "blk.1.a"), table("blk.1.b", "blk.2.a")]
    assert is_streamable(parts, platform="linux")


@pytest.mark.parametrize(("layers", "dim"), [(2, 64), (5, 128)])
def test_a_header_tells_the_width_of_a_token(tmp_path: Path, layers: int, dim: int):
    shape = read_shape(write_tiny_model(tmp_path / "m.gguf", layers=layers, dim=dim))
    assert shape.width == dim
    assert (shape.expert_share, shape.expert_use) == (0.0, 1.0)


@pytest.mark.parametrize(("policy", "expected"), [("0\n", False), ("1\n", True), (None, False)])
def test_weights_that_a_system_has_no_room_for_at_once_cannot_be_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str | None, expected: bool
):
    told = tmp_path / "overcommit_memory"
    if policy is not None:
        told.write_text(policy)
    monkeypatch.setattr(fit, "_OVERCOMMIT", told)
    assert is_packable(1000)
    assert is_packable(1 << 60) == expected
