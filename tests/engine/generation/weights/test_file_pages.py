"""Tests for engine.generation.weights.file_pages."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.weights import file_pages
from engine.generation.weights.file_pages import copied_bytes, let_go, own_order_bytes, read_singly
from engine.models.gguf import read_header
from tests.bench.bench_model import Shape, write_model

MIB = 2**20
SHAPE = Shape("small", layers=4, width=512, feed_forward=2048, heads=8, kv_heads=2, vocabulary=8000, context=512)
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Q4_0 model of 12 MB, of which 10 are repacked where the processor gains by it."""
    path = tmp_path_factory.mktemp("models") / "small.gguf"
    write_model(path, SHAPE)
    return path


def mapped_resident_bytes(path: Path) -> int:
    """Pages of the file that this process has mapped and touched."""
    found, is_it = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(maxsplit=1)[0]:
            is_it = line.endswith(str(path))
        elif is_it and line.startswith("Rss:"):
            found += int(line.split()[1]) * 1024
    return found


def logits_of(model: Model) -> np.ndarray:
    context = Context(model, ContextSpec(num_cells=64, n_batch=32, n_ubatch=32, num_threads=1))
    try:
        (row,) = context.decode([Stretch(0, 0, (300, 301, 302), 1)])
        return context.logits(row + 2).copy()
    finally:
        context.close()


def test_what_is_in_memory_and_no_mapping_of_the_file_was_copied():
    buffers = {"CPU_Mapped": 50, "CPU_REPACK": 40, "CPU": 3, "CUDA0": 700, "CUDA_Host": 9}
    assert copied_bytes(buffers) == 52
    assert own_order_bytes(buffers) == 40
    assert copied_bytes({"CPU_Mapped": 50}) == 0
    assert own_order_bytes({"CPU_Mapped": 50, "AMX": 40}) == copied_bytes({"CPU_Mapped": 50, "AMX": 40}) == 40


@needs_linux
def test_a_model_that_was_copied_leaves_its_file_and_computes_the_same(file: Path):
    model = Model(file, 0, lambda fraction: True)
    try:
        if not model.copied_bytes:
            pytest.skip("this processor gains nothing by repacking")
        assert 8 * MIB < model.copied_bytes < file.stat().st_size
        assert mapped_resident_bytes(file) < MIB
        first = logits_of(model)
        # Rows of the embeddings and the norms came back, and nothing that was copied.
        assert mapped_resident_bytes(file) < 4 * MIB
        let_go(file, model.mappings)
        assert np.array_equal(logits_of(model), first)
    finally:
        model.close()


def singly_read(path: Path) -> list[tuple[int, int]]:
    """Bytes of the file that are mapped so that nothing around them is read: VM_RAND_READ of smaps."""
    found, place = [], (0, 0)
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:
            start, end = (int(number, 16) for number in words[0].split("-"))
            offset = int(words[2], 16)
            place = (offset, offset + end - start) if line.endswith(str(path)) else (0, 0)
        elif words[0] == "VmFlags:" and "rr" in words and place[1]:
            found.append(place)
    return found


@needs_linux
def test_what_a_step_touches_a_little_of_is_read_without_what_lies_around_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_pages, "SMALL_BYTES", 16 * 1024)
    model = Model(file, 0, lambda fraction: True)
    try:
        if not model.copied_bytes:
            pytest.skip("this processor gains nothing by repacking")
        singly = singly_read(file)
        for tensor in read_header(file).tensors:
            # It may begin in the page in which a norm ends.
            middle = tensor.offset + tensor.num_bytes // 2
            is_so = any(start <= middle < end for start, end in singly)
            assert is_so == ("norm" in tensor.name or tensor.name == "token_embd.weight"), tensor.name
    finally:
        model.close()
    read_singly(file.with_name("gone.gguf"), model.mappings)


@needs_linux
def test_a_model_that_is_computed_in_place_stays_mapped_and_copies_nothing(file: Path):
    model = Model(file, 0, lambda fraction: True, is_repacked=False)
    try:
        logits_of(model)
        assert model.copied_bytes == 0
        assert mapped_resident_bytes(file) > 8 * MIB
        assert singly_read(file) == []
    finally:
        model.close()


@needs_linux
def test_nothing_but_the_models_own_files_is_let_go(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = Model(file, 0, lambda fraction: True)
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF" + bytes(100))
    advised: list[int] = []
    monkeypatch.setattr(file_pages, "advise", lambda start, num_bytes, advice: advised.append(start))
    try:
        let_go(other, model.mappings)
        assert advised == []
        let_go(file, model.mappings)
        assert set(advised) == {mapping.start for mapping in model.mappings if mapping.file.path.endswith(file.name)}
        assert advised
    finally:
        model.close()
