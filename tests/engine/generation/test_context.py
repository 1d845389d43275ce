"""Tests for engine.generation.context."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.core import KVType
from engine.errors import DecodeFailed, NoCells
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.models.gguf import read_shape
from tests.helpers.tiny_gguf import write_tiny_gemma2, write_tiny_lfm2, write_tiny_mamba, write_tiny_model

TEXT = "Threads share state through a mutex, and wait for it."


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", architecture=request.param, dim=128)
    model = Model(path, 0, lambda _: True)
    yield model
    model.close()


@pytest.fixture(params=["f16", "q8_0"])
def context(model: Model, request: pytest.FixtureRequest) -> Iterator[Context]:
    kv_type: KVType = request.param
    context = Context(model, ContextSpec(256, 64, 64, 1, num_sequences=8, kv_type=kv_type))
    yield context
    context.close()


@pytest.fixture
def tokens(model: Model) -> list[int]:
    return [model.bos, *model.tokenize(TEXT)]


def last_logits(context: Context, slot: int, position: int, tokens: list[int]) -> np.ndarray:
    (row,) = context.decode([Stretch(slot, position, tokens, 1)])
    return context.logits(row + len(tokens) - 1).copy()


def test_sequences_side_by_side_do_not_see_each_other(context: Context, tokens: list[int]) -> None:
    alone = last_logits(context, 0, 0, tokens[:20])
    context.clear()

    rows = context.decode([Stretch(3, 0, tokens[20:30], 1), Stretch(0, 0, tokens[:20], 1)])

    assert rows == [0, 10]
    assert np.abs(context.logits(rows[1] + 19) - alone).max() < 1e-2


def test_logits_are_kept_for_the_last_tokens_that_want_them(context: Context, tokens: list[int]) -> None:
    one_by_one = [last_logits(context, 0, at, tokens[at : at + 1]) for at in range(10)]

    (row,) = context.decode([Stretch(1, 0, tokens[:10], 4)])

    for at in range(6, 10):
        assert np.abs(context.logits(row + at) - one_by_one[at]).max() < 1e-2


def test_a_prompt_composed_of_saved_parts_is_the_prompt_bit_for_bit(context: Context, tokens: list[int]) -> None:
    parts = [(0, 12), (12, 20), (20, len(tokens) - 1)]
    for start, end in parts:
        context.decode([Stretch(0, start, tokens[start:end], 0)])
    plain = last_logits(context, 0, len(tokens) - 1, tokens[-1:])

    saved = []
    for start, end in parts:
        context.copy(0, 1, start, end)
        state = np.empty(context.state_bytes(1), np.uint8)
        assert context.save(1, state) == state.nbytes
        assert context.remove(1)
        saved.append(state)
    context.clear()
    for (start, end), state in zip(parts, saved, strict=True):
        assert context.load(state, 2)
        context.copy(2, 5, start, end)
    context.remove(2)

    assert np.array_equal(last_logits(context, 5, len(tokens) - 1, tokens[-1:]), plain)


def test_parts_load_into_cells_that_lie_apart(context: Context, tokens: list[int]) -> None:
    length = len(tokens) - 1
    context.decode([Stretch(0, 0, tokens[:-1], 0)])
    plain = last_logits(context, 0, length, tokens[-1:])
    context.remove(0, length)
    state = np.empty(context.state_bytes(0), np.uint8)
    context.save(0, state)
    context.clear()
    # Every other cell is taken.
    for at in range(120):
        context.decode([Stretch(0, at, tokens[:1], 0), Stretch(1, at, tokens[:1], 0)])
    context.remove(1)

    assert context.load(state, 2)
    assert np.abs(last_logits(context, 2, length, tokens[-1:]) - plain).max() < 1e-2


def test_a_full_context_refuses_and_stays_as_it_was(context: Context, tokens: list[int]) -> None:
    for at in range(0, 240, 40):
        context.decode([Stretch(0, at, tokens[:40], 0)])
    with pytest.raises(NoCells):
        context.decode([Stretch(1, 0, tokens[:17], 1)])
    context.decode([Stretch(1, 0, tokens[:16], 1)])


def test_a_position_out_of_order_is_an_error_that_can_be_survived(context: Context, tokens: list[int]) -> None:
    with pytest.raises(DecodeFailed):
        context.decode([Stretch(0, 0, tokens[:4], 0), Stretch(0, 40, tokens[4:8], 1)])
    context.remove(0)
    assert np.isfinite(last_logits(context, 0, 0, tokens)).all()


def test_a_damaged_state_is_refused(context: Context, tokens: list[int]) -> None:
    context.decode([Stretch(0, 0, tokens, 0)])
    state = np.empty(context.state_bytes(0), np.uint8)
    context.save(0, state)

    assert not context.load(state[: state.nbytes // 2].copy(), 1)
    assert context.load(state, 1)


def test_a_model_that_sums_up_what_it_read_shares_no_prefixes(tmp_path: Path) -> None:
    model = Model(write_tiny_mamba(tmp_path / "mamba.gguf"), 0, lambda _: True)
    context = Context(model, ContextSpec(256, 64, 64, 1))
    tokens = [model.bos, *model.tokenize(TEXT)]

    assert not model.can_share_prefixes
    assert context.num_sequences == 16
    first = last_logits(context, 0, 0, tokens)
    assert not context.remove(0, 5)
    assert context.remove(0)
    assert np.array_equal(last_logits(context, 0, 0, tokens), first)
    context.close()
    model.close()


@pytest.mark.parametrize("n_batch", [1, 2, 64])
def test_a_context_has_no_more_sequences_than_a_batch_has_tokens(model: Model, n_batch: int) -> None:
    small = Context(model, ContextSpec(256, n_batch, n_batch, 1, num_sequences=256))
    try:
        # One is for the padding of batches, where there are two.
        assert small.num_sequences == max(1, n_batch - 1)
        small.decode([Stretch(small.num_sequences - 1, 0, [model.bos], 1)])
    finally:
        small.close()


def test_models_of_keys_and_values_share_prefixes(model: Model) -> None:
    assert model.can_share_prefixes


@pytest.mark.parametrize(
    ("devices", "kv_on_gpu", "on_processor"),
    [
        ({0: "CPU", 1: "CPU", 2: "CPU"}, True, True),
        ({0: "CPU", 1: "Vulkan0", 2: "Vulkan0"}, True, True),
        ({0: "Vulkan0", 1: "Vulkan0", 2: "CPU"}, True, False),
        ({0: "Vulkan0", 1: "Vulkan0", 2: "Vulkan0"}, False, True),
    ],
)
def test_attention_is_where_most_layers_have_their_keys_and_values(
    context: Context, monkeypatch: pytest.MonkeyPatch, devices: dict[int, str], kv_on_gpu: bool, on_processor: bool
) -> None:
    monkeypatch.setattr(context.model, "layer_devices", devices)
    monkeypatch.setattr(context, "spec", replace(context.spec, kv_on_gpu=kv_on_gpu))
    assert context.attends_on_processor is on_processor
    assert context.attends_by_tiles is (on_processor and context.spec.kv_type == "f16")


@pytest.mark.parametrize(
    "write",
    [
        write_tiny_model,
        write_tiny_gemma2,
        lambda path: write_tiny_lfm2(path, dim=1024),
        lambda path: write_tiny_mamba(path, dim=512, state=64),
    ],
)
def test_cells_and_states_are_as_large_as_the_header_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path / "tiny.gguf")
    shape, model = read_shape(path), Model(path, 0, lambda _: True)
    with caplog.at_level(logging.DEBUG):
        context = Context(model, ContextSpec(16_384, 512, 128, 1, num_sequences=16))
    allocated = {"KV": 0.0, "RS": 0.0}
    for kind, mebibytes in re.findall(r"(KV|RS) buffer size =\s+([\d.]+) MiB", caplog.text):
        allocated[kind] += float(mebibytes)
    states = sum(shape.state_bytes) * context.num_sequences
    assert allocated["KV"] == pytest.approx(shape.kv_bytes(context.num_cells) / 2**20, abs=0.01)
    assert allocated["RS"] == pytest.approx(states / 2**20, abs=0.01)
    context.close()
    model.close()
