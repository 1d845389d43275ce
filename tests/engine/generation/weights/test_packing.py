"""Tests for engine.generation.weights.packing: weights in the processor's order go to a file while they are loaded."""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.errors import NotStreamable
from engine.generation import model as model_module
from engine.generation.model import Model
from engine.generation.weights import addresses, packing
from engine.generation.weights.copied_file import CopiedFile
from engine.generation.weights.packing import Packing
from engine.memory.ledger import Ledger
from engine.memory.pages import anonymous_ranges, appeared, resident_bytes
from tests.bench import bench_model
from tests.bench.bench_model import Shape, write_model
from tests.helpers.one_kernel import take_one_kernel
from tests.helpers.streamed_model import Logits, StreamedModel, opened, same, watched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")

PAGE, MIB = mmap.PAGESIZE, 2**20
# More than fits into what the allocator holds for a thread.
SHAPE = Shape("packed", layers=12, width=512, feed_forward=6656, heads=8, kv_heads=2, vocabulary=2000)
UNWATCHED = watched(lambda number: None)


@pytest.fixture(scope="module", autouse=True)
def one_kernel() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        take_one_kernel(monkeypatch)
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("models") / "packed.gguf"
    write_model(file, SHAPE)
    model = Model(file, 0, lambda _: True)
    is_copied = model.copied_range is not None
    model.close()
    if not is_copied:
        pytest.skip("llama.cpp keeps this processor's weights as they lie in the file")
    return file


@pytest.fixture(scope="module")
def whole(path: Path) -> Logits:
    """What llama.cpp computes with all of it in memory."""
    with opened(path, None, folder=path.parent) as model:
        return model.text()


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LOOK_BYTES", 3 * MIB)
    monkeypatch.setattr(packing, "WRITE_BYTES", MIB)


# What is computed.


@pytest.mark.parametrize(
    ("streamed", "num_slots"), [((), 1), ((3,), 1), (range(1, 12), 2), (range(12), 1), (range(12), 3)]
)
def test_logits_are_bit_for_bit_those_of_the_whole_model(
    path: Path, whole: Logits, tmp_path: Path, streamed, num_slots: int
) -> None:
    with opened(path, streamed, num_slots, UNWATCHED, folder=tmp_path) as model:
        assert same(model.text(), whole)


def test_layers_change_places_and_leave_memory_under_an_answer(path: Path, whole: Logits, tmp_path: Path) -> None:
    with opened(path, range(2, 12), 2, UNWATCHED, folder=tmp_path) as model:
        assert model.stream is not None
        got = model.prefill()
        for number, streamed in enumerate((range(12), (5,), (), (1, 2, 3), range(6, 12), (0, 11))):
            model.stream.retarget(streamed, 2)
            got += model.step(number)
            model.stream.go_away(1 << 40)
            model.stream.come_back()
        assert same(got, whole)


def test_a_head_that_is_the_embeddings_as_well_lies_in_two_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    tensors = bench_model._tensors

    def without_head(shape: Shape) -> Iterator[tuple[str, int, int]]:
        return (one for one in tensors(shape) if one[0] != "output.weight")

    monkeypatch.setattr(bench_model, "_tensors", without_head)
    tied = tmp_path / "tied.gguf"
    write_model(tied, SHAPE)
    with opened(tied, None, folder=tmp_path) as model:
        whole = model.text(2)
    with opened(tied, range(1, 12), 2, UNWATCHED, folder=tmp_path) as model:
        assert same(model.text(2), whole)
        held = {span.what: span.num_bytes for span in model.ledger.spans()}
        # Once, in the processor's order; rows of embeddings are read from the file.
        assert held["output head and edges of layers"] < 2 * SHAPE.vocabulary * SHAPE.width * 18 / 32


# What loading takes, and leaves.


def test_a_model_is_never_in_memory_as_a_whole_while_it_is_loaded(path: Path, tmp_path: Path, small_pieces) -> None:
    seen: list[int] = []
    before = anonymous_ranges()

    def look(_: float) -> bool:
        large = [one for one in appeared(before, anonymous_ranges()) if one[1] - one[0] > 40 * MIB]
        seen.append(resident_bytes(large))
        return True

    pack = Packing(tmp_path, Ledger())
    model = Model(path, 0, look, True, pack)
    file = pack.finish()
    assert file is not None
    assert file.where[1] - file.where[0] > 40 * MIB
    assert 0 < max(seen) < 12 * MIB
    assert resident_bytes([file.where]) == 0
    file.close()
    model.close()


def test_the_copy_is_in_the_ledger_and_nothing_is_left_of_it(path: Path, tmp_path: Path) -> None:
    def held() -> int:
        return len(os.listdir("/proc/self/fd"))

    with opened(path, (1, 2), 1, folder=tmp_path):
        pass
    before = held()
    with opened(path, (1, 2), 1, folder=tmp_path) as model:
        assert model.stream is not None
        model.prefill()
        for streamed in ((1, 2), (), range(12)):
            model.stream.retarget(streamed, 1)
            for number in range(12):
                model.step(number)
            assert model.stream.streamed == tuple(streamed)
            # Layers that are read from the copy are reported once, by their names.
            assert model.ledger.counted_bytes("disk") == pytest.approx(model.model.copied_bytes, rel=0.01)
        assert list(tmp_path.iterdir()) == []
    assert held() == before


def test_a_model_that_has_no_faster_order_is_read_from_its_file(path: Path, tmp_path: Path, monkeypatch) -> None:
    # As where a graphics card is there, whose memory llama.cpp prefers.
    monkeypatch.setattr(model_module.Copying, "num_bytes", lambda self: 0)
    pack = Packing(tmp_path, Ledger())
    model = Model(path, 0, lambda _: True, True, pack)
    assert pack.finish() is None
    pack.close()
    model.close()


# What goes wrong.


def load(path: Path, folder: Path) -> None:
    StreamedModel(path, (1,), 1, folder=folder)


def test_a_disk_that_would_be_full_is_not_written_to(path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=900 * MIB, free=120 * MIB))
    with pytest.raises(NotStreamable, match=r"could not be written in the processor's order: No space left") as raised:
        load(path, tmp_path)
    # Nor is that held against the model.
    assert raised.value.may_pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_write_that_fails_ends_the_load_and_not_the_process(
    path: Path, tmp_path: Path, monkeypatch, number: int, small_pieces, whole: Logits
) -> None:
    write, calls = CopiedFile.write, []

    def fail(self: CopiedFile, data: object, offset: int) -> None:
        calls.append(offset)
        if len(calls) > number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        write(self, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(CopiedFile, "write", fail)
        with pytest.raises(NotStreamable, match="Input/output error"):
            load(path, tmp_path)
    assert len(calls) == number + 1
    with opened(path, (1, 2), 1, UNWATCHED, folder=tmp_path) as model:
        assert same(model.text(), whole)


def test_weights_that_lie_among_other_memory_are_left_alone(path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(model_module, "range_of", lambda ranges, num_bytes: None)
    with pytest.raises(NotStreamable, match="cannot be told"):
        load(path, tmp_path)


def test_an_order_that_is_not_known_is_not_read_from_a_file(path: Path, tmp_path: Path, monkeypatch) -> None:
    # As llama.cpp tells where a processor has a matrix unit.
    monkeypatch.setattr(model_module.native_log, "begin", lambda: None)
    monkeypatch.setitem(model_module.native_log.weight_buffers, "AMX", 7)
    with pytest.raises(NotStreamable, match="order that cannot be told"):
        load(path, tmp_path)


def test_whatever_goes_wrong_between_two_tensors_is_told(path: Path, tmp_path: Path, monkeypatch) -> None:
    def fail(self: Packing, where: object) -> None:
        raise MemoryError("no array")

    monkeypatch.setattr(Packing, "take", fail)
    with pytest.raises(NotStreamable, match="no array"):
        load(path, tmp_path)


def test_a_build_that_does_not_tell_addresses_is_refused(path: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(addresses, "_GET_TENSOR", "_ZN4none")
    with pytest.raises(NotStreamable, match="does not tell where"):
        load(path, tmp_path)


def test_weights_that_were_not_seen_while_they_were_loaded_are_not_trusted(tmp_path: Path) -> None:
    held, where = memory(2 * MIB)
    held[:] = b"x" * len(held)
    pack = Packing(tmp_path, Ledger())
    pack.take(where)
    pack._written[:] = False
    pack._touched = lambda first, last: np.zeros(0, np.bool_)  # type: ignore[method-assign]
    with pytest.raises(NotStreamable, match="Not all"):
        pack.finish()
    pack.close()


# Which pages.


def memory(num_bytes: int) -> tuple[mmap.mmap, tuple[int, int]]:
    before = anonymous_ranges()
    held = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    [where] = appeared(before, anonymous_ranges())
    return held, where


@pytest.mark.parametrize("seed", range(12))
def test_every_byte_is_written_down_wherever_tensors_begin_and_in_whatever_order(
    tmp_path: Path, seed: int, monkeypatch
) -> None:
    choice = random.Random(seed)
    monkeypatch.setattr(packing, "LOOK_BYTES", choice.choice((4, 16, 64)) * PAGE)
    monkeypatch.setattr(packing, "WRITE_BYTES", choice.choice((1, 3, 40)) * PAGE)
    num_bytes = 300 * PAGE
    held, where = memory(num_bytes)
    data = choice.randbytes(num_bytes)
    cuts = [0, *sorted(choice.sample(range(1, num_bytes), choice.randint(1, 400))), num_bytes]
    tensors = list(pairwise(cuts))
    if seed % 3 == 0:
        choice.shuffle(tensors)
    pack = Packing(tmp_path, Ledger())
    for start, end in tensors:
        pack.take(where)
        held[start:end] = data[start:end]
    file = pack.finish()
    assert file is not None
    written = bytearray(num_bytes)
    file.read(written, 0)
    assert written == data
    assert resident_bytes([where]) == 0
    file.close()
