"""Tests for engine.models.catalogue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.config import Settings
from engine.memory.hardware import Hardware
from engine.models import shelf
from engine.models.catalogue import CATALOGUE, KnownModel, Quantisation, in_repository, named
from engine.models.gguf import parts_of, read_shape
from tests.helpers.tiny_gguf import write_tiny_model

# As large as the files are said to be, to three figures.
PUBLISHED = {
    "Qwen2.5 0.5B Instruct": 429e6,
    "Qwen2.5 1.5B Instruct": 1.12e9,
    "Llama 3.2 3B Instruct": 2.02e9,
    "Qwen3 4B Instruct": 2.50e9,
    "Qwen2.5 7B Instruct": 4.68e9,
    "Qwen2.5 14B Instruct": 8.99e9,
}


@pytest.mark.parametrize("known", CATALOGUE, ids=lambda known: known.name)
def test_a_known_model_is_about_as_large_as_it_is_published(known: KnownModel):
    assert known.shape().file_bytes == pytest.approx(PUBLISHED[known.name], rel=0.02)
    assert known.shape().ties_embeddings is not known.has_own_head


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_an_estimated_shape_is_what_a_header_says(tmp_path: Path, architecture: str):
    path = write_tiny_model(tmp_path / "m.gguf", architecture=architecture, layers=3, dim=512, ff=768, context=512)
    read = read_shape(path)
    known = KnownModel(
        "tiny", "o/r", "m.gguf", "", architecture, num_layers=3, width=512, feed_forward=768, heads=4, kv_heads=2,
        head_size=128, vocabulary_size=read.vocabulary_size, trained_context=512, has_own_head=True,
        quantisation=Quantisation(32, 32, 32),
    )  # fmt: skip
    estimated = known.shape()
    assert estimated.layer_bytes == pytest.approx(read.layer_bytes, rel=0.01)
    assert estimated.stage_bytes == pytest.approx(read.stage_bytes, rel=0.01)
    assert (estimated.other_bytes, estimated.output_bytes) == pytest.approx(
        (read.other_bytes, read.output_bytes), rel=0.01
    )
    same = ("kv_cell_bytes", "vocabulary_size", "trained_context", "width", "architecture", "ties_embeddings")
    assert [getattr(estimated, name) for name in same] == [getattr(read, name) for name in same]
    tied = replace(known, has_own_head=False).shape()
    assert tied.ties_embeddings
    assert tied.head_bytes == estimated.head_bytes


def test_a_known_model_says_how_it_would_fit_before_it_is_there():
    small, large = CATALOGUE[0], CATALOGUE[-1]
    hardware = Hardware(6 * 2**30, 4 * 2**30, 2**40, 2**39, 2**27, ())
    entry = shelf.to_be_had(small, Path("/models/small.gguf"), Settings(), hardware)
    assert entry.fits
    assert entry.fit.startswith("All 24 layers in memory (no GPU found): about ")
    assert (entry.path, entry.name, entry.problem) == ("/models/small.gguf", small.name, "")
    slower = shelf.to_be_had(large, Path("/models/large.gguf"), Settings(), hardware)
    assert slower.tokens_per_s < entry.tokens_per_s
    assert "All 48 layers in memory" not in slower.fit


def test_a_known_model_is_found_by_its_name_or_its_file():
    for known in CATALOGUE:
        for name in (known.name, known.name.lower().replace(" ", "-"), known.file, known.source):
            assert named(name) is known
    assert named("qwen") is None


def test_each_known_model_is_one_file_from_small_to_large():
    sizes = [known.shape().file_bytes for known in CATALOGUE]
    assert sizes == sorted(sizes)
    assert len({known.source for known in CATALOGUE}) == len(CATALOGUE)
    assert all(parts_of(Path(known.file)) == [Path(known.file)] for known in CATALOGUE)


def test_a_known_model_in_another_size_is_the_same_model():
    known = CATALOGUE[0]
    other = known.in_bytes(2 * known.shape().file_bytes).shape()
    assert other.file_bytes == pytest.approx(2 * known.shape().file_bytes, rel=1e-6)
    assert other.kv_cell_bytes == known.shape().kv_cell_bytes
    assert known.in_bytes(0) == known
    assert in_repository(known.repo) == known
    assert in_repository("owner/name") is None
