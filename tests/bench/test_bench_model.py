"""Tests for tests.bench.bench_model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.models.gguf import read_shape
from tests.bench.bench_model import BOS, EOS, ONE_BILLION, QUICK, Shape, bench_model, plain_tokens, write_model

SMALL = Shape("small", layers=2, width=64, feed_forward=96, heads=4, kv_heads=2, vocabulary=2_000, context=512)


def test_the_same_shape_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    write_model(tmp_path / "one.gguf", SMALL)
    write_model(tmp_path / "other.gguf", SMALL)
    write_model(tmp_path / "another seed.gguf", SMALL, seed=7)

    one, other, reseeded = ((tmp_path / f"{name}.gguf").read_bytes() for name in ("one", "other", "another seed"))
    assert one == other
    assert one != reseeded


def test_a_model_is_written_once(tmp_path: Path) -> None:
    first = bench_model(tmp_path, SMALL)
    written = first.stat().st_mtime_ns

    assert bench_model(tmp_path, SMALL) == first
    assert first.stat().st_mtime_ns == written
    assert [file.name for file in tmp_path.iterdir()] == [first.name]


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.pid_exists", lambda number: number == 11)
    name = bench_model(tmp_path, SMALL).stem
    for left in (f"{name}.10.part", f"{name}.11.part", "other.10.part"):
        (tmp_path / left).touch()
    (tmp_path / f"{name}.gguf").unlink()
    bench_model(tmp_path, SMALL)
    # Process 11 is still writing, and the last file is one of another model.
    assert {file.name for file in tmp_path.iterdir()} == {f"{name}.gguf", f"{name}.11.part", "other.10.part"}


def test_a_model_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: Path, *rest: object) -> None:
        file.touch()
        raise OSError("No space left on device")

    monkeypatch.setattr("tests.bench.bench_model.write_model", fails)
    with pytest.raises(OSError, match="No space"):
        bench_model(tmp_path, SMALL)
    assert not list(tmp_path.iterdir())


def test_the_header_says_what_the_shape_says(tmp_path: Path) -> None:
    read = read_shape(bench_model(tmp_path, SMALL))

    assert (read.num_layers, read.vocabulary_size, read.trained_context) == (2, 2_000, 512)
    assert sum(read.kv_cell_bytes) == SMALL.kv_bytes_per_token


@pytest.mark.parametrize("shape", [ONE_BILLION, QUICK])
def test_matrices_are_whole_blocks_and_heads_are_as_wide_as_usual(shape: Shape) -> None:
    assert shape.width // shape.heads == 64
    assert shape.kv_width % 32 == shape.feed_forward % 32 == 0


def test_words_that_it_was_given_are_one_token_each(tmp_path: Path) -> None:
    words = ["retrieval", "restores", "retries"]
    file = bench_model(tmp_path, SMALL, words)
    model = Model(file, 0, lambda share: True)
    try:
        text = " retries retrieval restores; restored"
        tokens = model.tokenize(text)

        pieces = [model.piece(token).decode() for token in tokens]
        assert pieces == [" retries", " retrieval", " restores", ";", " restore", "d"]
        assert set(tokens) <= set(plain_tokens(SMALL.vocabulary))
        assert file != bench_model(tmp_path, SMALL, words[:2]) != bench_model(tmp_path, SMALL)
    finally:
        model.close()


def test_an_answer_is_made_of_words_and_never_ends_by_itself(tmp_path: Path) -> None:
    model = Model(bench_model(tmp_path, SMALL), 0, lambda share: True)
    context = Context(model, ContextSpec(num_cells=256, n_batch=64, n_ubatch=64, num_threads=1, num_sequences=64))
    try:
        random = np.random.default_rng(3)
        prompt = [BOS, *random.choice(plain_tokens(SMALL.vocabulary), 63).tolist()]
        row = context.decode([Stretch(0, 0, prompt, num_logits=64)])[0]
        likeliest = [int(context.logits(row + place).argmax()) for place in range(64)]

        assert set(likeliest) <= set(plain_tokens(SMALL.vocabulary))
        assert all(model.piece(token).decode() for token in likeliest)
        assert model.ends(EOS)
    finally:
        context.close()
        model.close()
