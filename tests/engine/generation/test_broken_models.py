"""Tests for engine.generation.loader: files that are no models, or not whole ones."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError, ModelFileInvalid
from engine.events import Event, ModelStateChanged
from engine.generation.model import Model
from engine.memory.ledger import Ledger
from engine.models.gguf import read_header
from tests.helpers.broken_gguf import cut, outcome, with_value
from tests.helpers.loaders import loader_in
from tests.helpers.tiny_gguf import write_tiny_gemma2, write_tiny_model

NUM_CUTS, NUM_CHANGED = 100, 60


class Bench:
    """A loader, and a place for files; nothing of a model that is refused may be left."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self.ledger = Ledger()
        self.loader = loader_in(folder, self.events.append, self.ledger)
        self._path = folder / "broken.gguf"

    def refusal_of(self, content: bytes) -> ModelError:
        self._path.write_bytes(content)
        try:
            return self.refusal_of_path(self._path)
        finally:
            self._path.unlink()

    def refusal_of_path(self, path: Path) -> ModelError:
        with pytest.raises(ModelError) as refused:
            self.loader.load(path, None)
        told = self.events[-1]
        assert isinstance(told, ModelStateChanged)
        assert told.state == "failed"
        assert told.sentence == f"{refused.value.sentence} {refused.value.way_out}"
        assert refused.value.way_out
        assert self.loader.loaded_now is None
        assert sum(span.num_bytes for span in self.ledger.spans()) == 0
        return refused.value


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.loader.end()
    assert bench.ledger.spans() == ()


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_a_model_that_is_cut_anywhere_is_refused(bench, architecture: str, tmp_path: Path):
    model = write_tiny_model(tmp_path / "whole.gguf", architecture=architecture)
    refusals = [bench.refusal_of(cut(model, seed)) for seed in range(NUM_CUTS)]
    assert all(isinstance(refusal, ModelFileInvalid) for refusal in refusals)
    assert {"header is cut" in str(refusal) for refusal in refusals} == {True, False}


def test_a_model_is_refused_for_its_very_last_byte(bench, tiny_model: Path):
    assert "cut short" in str(bench.refusal_of(tiny_model.read_bytes()[:-1]))


def test_llama_cpp_itself_refuses_what_is_cut_after_we_have_looked(tiny_model: Path, tmp_path: Path):
    path = tmp_path / "cut.gguf"
    for seed in range(20):
        path.write_bytes(cut(tiny_model, seed))
        with pytest.raises(ModelError, match=r"cut\.gguf could not be loaded"):
            Model(path, 0, lambda fraction: True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        b"%PDF-1.7\n" + b"x" * 4096,
        b"\x89PNG\r\n\x1a\n" + bytes(4096),
        bytes(4096),
        b"GGUF" + struct.pack("<IQQ", 3, 2**64 - 1, 1) + bytes(4096),
        b"GGUF" + struct.pack("<IQQ", 3, 1, 2**64 - 1) + bytes(4096),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**64 - 1) + bytes(4096),
        b"FUGG" + struct.pack(">IQQ", 3, 1, 1) + bytes(4096),
    ],
    ids=["empty", "magic", "pdf", "png", "zeros", "tensors", "keys", "string", "other end"],
)
def test_what_is_no_model_is_refused(bench, content: bytes):
    assert isinstance(bench.refusal_of(content), ModelFileInvalid)


def test_a_folder_and_a_file_that_is_not_there_are_refused(bench, tmp_path: Path):
    bench.refusal_of_path(tmp_path)
    bench.refusal_of_path(tmp_path / "missing.gguf")


def test_sizes_beyond_all_files_are_refused_and_nothing_is_allocated(bench, tiny_model: Path):
    data = bytearray(tiny_model.read_bytes())
    name = b"token_embd.weight"
    rows = data.index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4 + 8
    struct.pack_into("<Q", data, rows, 2**30)
    assert "cut short" in str(bench.refusal_of(bytes(data)))
    struct.pack_into("<Q", data, rows, 2**63)
    assert "tensor table is damaged" in str(bench.refusal_of(bytes(data)))


@pytest.mark.parametrize(
    ("key", "code", "value"),
    [
        ("llama.block_count", "I", 3),
        ("llama.block_count", "I", 600),
        ("llama.embedding_length", "I", 32),
        ("llama.attention.head_count", "I", 0),
        ("llama.attention.head_count_kv", "I", 3),
        ("llama.attention.layer_norm_rms_epsilon", "f", -1.0),
        ("llama.rope.dimension_count", "I", 7),
    ],
)
def test_numbers_that_do_not_fit_the_tensors_are_refused(bench, tiny_model: Path, key: str, code: str, value: float):
    bench.refusal_of(with_value(tiny_model, key, code, value))


def test_a_window_that_no_memory_is_enough_for_is_refused(bench, tmp_path: Path):
    model = write_tiny_gemma2(tmp_path / "model.gguf")
    assert "further than" in str(bench.refusal_of(with_value(model, "gemma2.attention.sliding_window", "I", 2**31)))


def test_why_llama_cpp_refused_a_file_is_told(bench, tiny_model: Path):
    data = tiny_model.read_bytes().replace(b"output_norm.weight", b"output_form.weight")
    assert "output_norm.weight" in str(bench.refusal_of(data))


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_no_byte_of_a_header_that_is_another_ends_the_process(architecture: str, tmp_path: Path):
    model = write_tiny_model(tmp_path / "model.gguf", architecture=architecture, context=256)
    assert outcome(model, tmp_path) == "answers"
    run = [sys.executable, "-m", "tests.helpers.broken_gguf", str(model), "0", str(NUM_CHANGED)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0, done.stderr[-500:]
    told = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert len(told) == NUM_CHANGED
    assert "answers" in told
    assert not [line for line in told if "NO WAY OUT" in line]
    assert sum("cannot be used" in line for line in told) > NUM_CHANGED / 10


def test_weights_that_compute_no_numbers_are_refused_before_anybody_asks(bench, tiny_model: Path):
    data = bytearray(tiny_model.read_bytes())
    norm = next(tensor for tensor in read_header(tiny_model).tensors if tensor.name == "output_norm.weight")
    data[norm.offset : norm.offset + norm.num_bytes] = np.full(norm.num_bytes // 4, np.nan, np.float32).tobytes()
    assert "weights are damaged" in str(bench.refusal_of(bytes(data)))
