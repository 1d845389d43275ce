"""Tests for engine.memory.workspace, held against what llama.cpp says it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core import ModelShape
from engine.generation.context import Context, ContextSpec
from engine.generation.model import Model
from engine.memory.workspace import compute_bytes, num_sequences, output_bytes
from engine.models.gguf import read_shape
from tests.helpers.tiny_gguf import write_tiny_model

MIB = 2**20


@pytest.mark.parametrize(("dim", "ff"), [(64, 96), (256, 1024)])
def test_no_more_is_taken_than_was_planned_and_not_much_less(tmp_path: Path, dim: int, ff: int):
    path = write_tiny_model(tmp_path / "m.gguf", dim=dim, ff=ff, context=16_384)
    shape, model = read_shape(path), Model(path, 0, lambda fraction: True)
    try:
        for num_cells, n_ubatch in ((2048, 128), (2048, 512), (16_384, 512), (16_384, 1024)):
            rows = num_sequences(shape.vocabulary_size)
            spec = ContextSpec(num_cells, 1024, n_ubatch, num_threads=1, num_sequences=rows)
            context = Context(model, spec)
            taken = sum(context.compute_bytes.values())
            context.close()
            planned = compute_bytes(shape, n_ubatch, num_cells) + output_bytes(shape)
            assert taken <= planned <= 2 * taken + MIB
    finally:
        model.close()


def test_a_vocabulary_of_many_words_has_fewer_rows():
    assert num_sequences(400) == 256
    assert num_sequences(128_256) == 130
    assert num_sequences(10**6) == 32


def test_without_a_model_there_is_no_buffer():
    nothing = ModelShape("", "", 0, (), 0, 0, (), 0, 0, has_chat_template=False)
    assert compute_bytes(nothing, 512, 8192) == 0
