"""Tests for engine.generation.rows: batches are filled up to what a processor computes at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import NoCells
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.rows import TILE_TOKENS, Extent, Filling, cell_cost, computed_tokens
from tests.bench.bench_model import Shape, write_model
from tests.helpers.tiny_gguf import write_tiny_model

SPEC = ContextSpec(num_cells=256, n_batch=64, n_ubatch=32, num_threads=1, num_sequences=8)
SPEC_WITH_TILES = replace(SPEC, n_batch=128, n_ubatch=64, num_sequences=64)
SHAPE = Shape("rows", layers=2, width=256, feed_forward=512, heads=4, kv_heads=2, vocabulary=2000)


# Of a 3B model, which was measured: behind 1,500 tokens 48 by themselves take 1.06 s, 32 .72 s and 64 .93 s.
CELL_COST = cell_cost(2_900_000_000, 28, 3072, in_own_order=True)


@pytest.mark.parametrize(
    ("num_tokens", "before", "expected"), [(48, 1500, 16), (32, 1500, 0), (32, 8000, 32), (48, 350, 0), (64, 1500, 0)]
)
def test_a_tile_is_filled_up_where_attention_takes_long(num_tokens: int, before: int, expected: int) -> None:
    assert Filling(True, CELL_COST).num_to_tile([Extent(num_tokens, before + num_tokens)], 128) == expected


def test_where_attention_token_by_token_was_measured_to_take_longer_shorter_ends_are_filled_up() -> None:
    # 26 tokens behind 638 took .58 s, 64 of a longer prompt .42 s (5.2 ms each, of .6 B parameters).
    reckoned = Filling(True, 0.0014)
    assert reckoned.num_to_tile([Extent(26, 664)], 128) == 0
    assert reckoned.measured(0.0052, 8.0).num_to_tile([Extent(26, 664)], 128) == 38
    assert reckoned.measured(0.0052, 8.0).num_to_tile([Extent(1, 664)], 128) == 0


def test_a_prompt_and_answers_of_few_tokens_are_apart_where_the_prompt_alone_is_filled_up() -> None:
    filling = Filling(True, 0.0014).measured(0.0052, 8.0)
    answers = [Extent(1, 700)] * 3
    assert filling.are_faster_apart([Extent(58, 838)], answers, 128)
    # Two passes read the weights twice, which short ends are not worth.
    assert not filling.are_faster_apart([Extent(4, 838)], answers, 128)
    assert not filling.are_faster_apart([Extent(62, 838)], answers, 128)
    assert not filling.are_faster_apart([Extent(58, 838)], [], 128)
    assert not filling.are_faster_apart([Extent(58, 838)], answers, 63)
    assert not Filling(True).are_faster_apart([Extent(58, 838)], answers, 128)


def test_no_tile_is_filled_up_that_looks_at_the_cells_of_many() -> None:
    answers = [Extent(1, 1500)] * 48
    assert Filling(True, CELL_COST).num_to_tile(answers, 128) == 0


def test_a_batch_takes_its_matrices_and_what_its_tokens_look_at() -> None:
    # Fewer than a tile: each token at the cells before it.
    assert computed_tokens([Extent(2, 101)], 0.01) == pytest.approx(2 + 0.01 * 2 * 100)
    # By tiles, all of a tile's tokens at the cells of all in it, a third as long: of these two only the first has both.
    answers, prompt = [Extent(1, 300)] * 10, [Extent(118, 118)]
    alone, mixed = computed_tokens(prompt, 0.01), computed_tokens([*answers, *prompt], 0.01)
    assert alone == pytest.approx(118 + 0.01 / 3 * 64 * 118 * 2)
    assert mixed == pytest.approx(128 + 0.01 / 3 * 64 * (3000 + 118 * 2))


def test_no_tile_is_filled_up_where_there_are_none() -> None:
    prompt = [Extent(48, 1548)]
    assert Filling(True, 0.0).num_to_tile(prompt, 128) == 0
    assert Filling(True, CELL_COST).num_to_tile(prompt, 32) == 0


def test_weights_in_file_order_take_longer_and_attention_less_beside_them() -> None:
    assert cell_cost(2_900_000_000, 28, 3072, in_own_order=False) < CELL_COST / 2


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("models") / "rows.gguf"
    write_model(file, SHAPE)
    model = Model(file, 0, lambda _: True)
    is_copied = model.copied_bytes > 0
    model.close()
    if not is_copied:
        pytest.skip("llama.cpp keeps this processor's weights as they lie in the file")
    return file


def decoded(context: Context, stretches: list[Stretch]) -> list[np.ndarray]:
    rows = context.decode(stretches)
    return [context.logits(row + len(stretch.tokens) - 1).copy() for row, stretch in zip(rows, stretches, strict=True)]


def test_what_is_added_changes_nothing_and_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(*, fills_up: bool) -> tuple[list[np.ndarray], list[int]]:
        model = Model(path, 0, lambda _: True)
        context = Context(model, SPEC)
        context.filling = context.filling if fills_up else Filling()
        found = decoded(context, [Stretch(0, 0, range(300, 319), 1), Stretch(1, 0, range(400, 412), 1)])
        for step in range(8):
            found += decoded(context, [Stretch(slot, at + step, (500 + step,), 1) for slot, at in ((0, 19), (1, 12))])
            third = [Stretch(2, step, (600 + step,), 1)]
            found += decoded(context, [Stretch(5, step, (800 + step,), 1)])
            found += decoded(context, third + [Stretch(slot, step, (700 + step,), 1) for slot in (3, 4)])
        sizes = [context.state_bytes(slot) for slot in range(5)]
        context.close()
        model.close()
        return found, sizes

    calls: list[int] = []
    add = Context._decode

    def watched(self: Context, extents: Sequence[Extent]) -> Any:
        calls.append(self._batch.struct.n_tokens)
        return add(self, extents)

    monkeypatch.setattr(Context, "_decode", watched)
    (filled, sizes), (plain, sizes_before) = answers(fills_up=True), answers(fills_up=False)
    assert {1, 2, 3} <= set(calls)
    assert sizes == sizes_before
    assert len(filled) == len(plain)
    for one, other in zip(filled, plain, strict=True):
        assert np.abs(one - other).max() <= 1e-2
        assert one.argmax() == other.argmax()


def test_a_context_that_is_full_is_used_to_the_last_cell(path: Path) -> None:
    model = Model(path, 0, lambda _: True)
    context = Context(model, SPEC)
    for start in range(0, 192, 64):
        context.decode([Stretch(0, start, range(300, 364), 0)])
    context.decode([Stretch(0, 192, range(300, 361), 0)])
    context.decode([Stretch(1, 0, (5, 6, 7), 1)])
    with pytest.raises(NoCells):
        context.decode([Stretch(2, 0, (5, 6, 7), 1)])
    assert context.remove(1)
    context.decode([Stretch(2, 0, (5, 6, 7), 1)])
    context.close()
    model.close()


def test_sequences_are_as_many_as_were_asked_for(path: Path, tmp_path: Path) -> None:
    in_file_order = write_tiny_model(tmp_path / "tiny.gguf")
    for file in (path, in_file_order):
        model = Model(file, 0, lambda _: True)
        context = Context(model, SPEC)
        assert context.num_sequences == SPEC.num_sequences
        context.close()
        model.close()


def test_a_tile_is_computed_as_that_of_a_longer_prompt(path: Path) -> None:
    def logits(tokens: range, filling: Filling) -> np.ndarray:
        model = Model(path, 0, lambda _: True)
        context = Context(model, SPEC_WITH_TILES)
        context.filling = filling
        context.decode([Stretch(0, 0, range(300, 364), 0)])
        [row] = context.decode([Stretch(0, 64, tokens, len(tokens))])
        found = np.stack([context.logits(row + place).copy() for place in range(40)])
        context.close()
        model.close()
        return found

    tile = Filling(True, 1.0)
    assert tile.num_to_tile([Extent(40, 104)], SPEC_WITH_TILES.n_ubatch) == TILE_TOKENS - 40
    assert np.array_equal(logits(range(364, 404), tile), logits(range(364, 428), Filling()))


def test_nothing_is_added_beyond_the_context_that_a_model_was_trained_with(path: Path) -> None:
    model = Model(path, 0, lambda _: True)
    context = Context(model, SPEC_WITH_TILES)
    assert context._trained_tokens == SHAPE.context
    context.filling = Filling(True, 1.0)
    context.decode([Stretch(0, 0, range(300, 364), 0)])
    sizes, add = list[int](), context._batch.add

    def watched(count: int, slot: int) -> None:
        sizes.append(count)
        add(count, slot)

    context._batch.add = watched  # type: ignore[method-assign]
    for trained in (23, 24):
        context._trained_tokens = trained
        context.decode([Stretch(0, 64, range(364, 404), 1)])
        context.remove(0, 64)
    assert sizes == [24]
    context.close()
    model.close()


def test_a_mixture_of_experts_is_told_by_its_header(path: Path) -> None:
    model = Model(path, 0, lambda _: True)
    assert not model.has_experts
    assert model._metadata("general.architecture") == "llama"
    assert model._metadata("llama.expert_count") == ""
    model.close()
