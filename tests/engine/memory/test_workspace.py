"""Tests for engine.memory.workspace, compared with what llama.cpp reports that it takes."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from unittest import mock

import pytest

from engine.core import ModelShape
from engine.generation import context as context_module
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.memory.workspace import (
    ROWS_OF_AN_ANSWER,
    compute_bytes,
    num_sequences,
    num_states,
    output_bytes,
    written_compute_bytes,
)
from engine.models.gguf import read_shape
from tests.bench.bench_model import Shape, write_model
from tests.helpers.glibc import in_a_new_process, needs_glibc
from tests.helpers.tiny_gguf import write_tiny_model

MIB = 2**20


@pytest.mark.parametrize(("dim", "ff"), [(64, 96), (256, 1024)])
def test_no_more_is_taken_than_was_planned_and_not_much_less(tmp_path: Path, dim: int, ff: int):
    path = write_tiny_model(tmp_path / "m.gguf", dim=dim, ff=ff, context=16_384)
    shape, model = read_shape(path), Model(path, 0, lambda fraction: True)
    try:
        for num_cells, n_ubatch in ((2048, 128), (2048, 512), (16_384, 512), (16_384, 1024)):
            rows = num_sequences(shape.vocabulary_size, num_cells)
            spec = ContextSpec(num_cells, 1024, n_ubatch, num_threads=1, num_sequences=rows)
            context = Context(model, spec)
            taken = sum(context.compute_bytes.values())
            context.close()
            planned = compute_bytes(shape, n_ubatch, num_cells) + output_bytes(shape, num_cells)
            assert taken <= planned <= 2 * taken + MIB
    finally:
        model.close()


def test_a_vocabulary_of_many_words_has_fewer_rows():
    assert num_sequences(400, 16_384) == 255
    assert num_sequences(128_256, 16_384) == 130
    assert num_sequences(10**6, 16_384) == 32


def test_few_cells_have_fewer_rows():
    assert num_sequences(400, 4096) == 128
    assert num_sequences(128_256, 2048) == 64
    assert num_sequences(400, 256) == 32


def test_without_a_model_there_is_no_buffer():
    nothing = ModelShape("", "", 0, (), 0, 0, (), 0, 0)
    assert compute_bytes(nothing, 512, 8192) == 0


def of_a_context_in_the_heap(path: Path) -> tuple[int, int, int]:
    """What counts of a context, its cells and its buffers, where glibc has taken them from its heap.

    It does so with less than 31 MiB after it was given back as much. Beside them appears what is never written to.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
    libc.free(libc.malloc(ctypes.c_size_t(31 * MIB)))
    shape, model = read_shape(path), Model(path, 0, lambda fraction: True)
    untouched = mmap.mmap(-1, 64 * MIB)
    address = ctypes.addressof(ctypes.c_char.from_buffer(untouched))
    looks = [(), ((address, address + 64 * MIB),)]
    with mock.patch.object(context_module, "anonymous_ranges", side_effect=looks):
        context = Context(model, ContextSpec(2048, 512, 128, num_threads=1, num_sequences=32))
    buffers, cells = sum(context.compute_bytes.values()), sum(shape.kv_cell_bytes) * 2048
    counted = context.touched_bytes(cells + buffers)
    context.close()
    model.close()
    return counted, cells, buffers


@needs_glibc
def test_buffers_that_lie_among_what_else_was_allocated_count_whatever_else_appeared(tmp_path: Path):
    path = tmp_path / "m.gguf"
    write_model(path, Shape("m", 2, width=256, feed_forward=1024, heads=4, kv_heads=2, vocabulary=8000, context=4096))
    counted, cells, buffers = in_a_new_process(of_a_context_in_the_heap, path)
    assert buffers / 2 < counted <= cells + buffers


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what was written to")
@pytest.mark.parametrize("num_slots", [1, 4])
def test_in_memory_it_takes_what_the_answers_at_once_write_to(tmp_path: Path, num_slots: int):
    path = tmp_path / "m.gguf"
    write_model(path, Shape("m", 2, width=256, feed_forward=1024, heads=4, kv_heads=2, vocabulary=8000, context=4096))
    shape, model = read_shape(path), Model(path, 0, lambda fraction: True)
    rows = num_sequences(shape.vocabulary_size, 8192)
    context = Context(model, ContextSpec(8192, 512, 128, num_threads=1, num_sequences=rows))
    try:
        buffers, cells = sum(context.compute_bytes.values()), sum(shape.kv_cell_bytes) * 8192
        # Rows that come out are cleared when they are made; nothing is written to the buffer before the first pass.
        made = context.touched_bytes(cells + buffers)
        context.decode([Stretch(0, 0, tuple(range(3, 515)), 1)])
        drafted = tuple(range(3, 3 + min(ROWS_OF_AN_ANSWER, 128 // num_slots)))
        context.decode([Stretch(slot, 0, drafted, len(drafted)) for slot in range(1, num_slots + 1)])
        planned = written_compute_bytes(shape, 128, 8192, num_slots)
        assert context.touched_bytes(cells + buffers) - made <= planned + MIB
        assert planned < compute_bytes(shape, 128, 8192) / (2 if num_slots == 1 else 1.5)
    finally:
        context.close()
        model.close()


def test_states_are_as_many_as_their_size_and_the_answers_at_once_allow():
    def states(mebibytes: int, num_slots: int = 1) -> int:
        shape = ModelShape("", "", 0, (), 0, 0, (), 0, 0, state_bytes=(0, mebibytes * MIB))
        return num_states(shape, num_slots)

    assert states(0) == 0
    assert states(1) == 16
    assert states(64) == 8
    assert states(150) == 6
    # Three of four are for running answers.
    assert states(150, num_slots=4) == 6
    assert states(150, num_slots=8) == 11
    assert states(150, num_slots=40) == 16
