"""Tests for engine.generation.weights.stream: logits are those of the whole model, whatever is streamed."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from engine.errors import NotStreamable
from engine.generation.model import Model
from engine.generation.weights import mappings
from engine.generation.weights.stream import LayerStream, Options
from engine.memory.ledger import Ledger
from engine.memory.process import process_memory
from tests.helpers.streamed_model import CHUNK_BYTES, USUAL, Logits, StreamedModel, opened, same, slow, watched
from tests.helpers.tiny_gguf import write_tiny_gemma2, write_tiny_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")

NUM_LAYERS = 8
UNWATCHED = watched(lambda number: None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", layers=NUM_LAYERS, dim=128, ff=352)


@pytest.fixture(scope="module")
def whole(path: Path) -> Logits:
    """What stock llama.cpp computes, with the file mapped."""
    with opened(path, None) as model:
        return model.text()


@pytest.mark.parametrize(
    ("streamed", "num_slots"),
    [
        ((), 1),
        ((3,), 1),
        ((2, 4, 6), 1),
        ((1, 2, 3, 4, 5, 6, 7), 2),
        ((1, 2, 3, 4, 5, 6, 7), 3),
        ((1, 2, 3, 4, 5, 6, 7), 7),
        (range(NUM_LAYERS), 1),
        (range(NUM_LAYERS), 3),
    ],
)
def test_logits_are_bit_for_bit_those_of_the_whole_model(path: Path, whole: Logits, streamed, num_slots: int) -> None:
    with opened(path, streamed, num_slots, UNWATCHED) as model:
        assert same(model.text(), whole)


def test_a_slow_disk_makes_an_answer_slower_and_no_different(path: Path, whole: Logits) -> None:
    with opened(path, range(1, NUM_LAYERS), 2, watched(slow(0.002))) as model:
        assert same(model.text(2), whole[: 2 + 2 * 2])
        assert model.stream is not None
        assert model.stream.counters().waited_seconds > 0


def test_each_pass_reads_the_streamed_layers_once(path: Path) -> None:
    with opened(path, (1, 3, 5, 7), 2) as model:
        assert model.stream is not None
        model.text(3)
        layers = {span.what: span.num_bytes for span in model.ledger.spans()}
        streamed = sum(layers[f"layer {layer}"] for layer in (1, 3, 5, 7))
        before = model.stream.counters()
        for number in range(3, 13):
            model.step(number)
        after = model.stream.counters()
        assert after.num_passes - before.num_passes == 10
        # What is read ahead when it is counted, before and after, is at most what the slots hold.
        ahead = sum(size for what, size in layers.items() if what.startswith("slot"))
        assert abs((after.read_bytes - before.read_bytes) - 10 * streamed) <= ahead


def test_layers_that_have_a_slot_each_are_read_once(path: Path) -> None:
    with opened(path, (2, 5), 2) as model:
        assert model.stream is not None
        model.text(3)
        before = model.stream.counters().read_bytes
        model.step(3)
        assert model.stream.counters().read_bytes == before


def test_another_architecture_is_streamed_as_well(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "tiny.gguf", architecture="qwen2", layers=NUM_LAYERS, dim=128, ff=352)
    with opened(path, None) as model:
        whole = model.text()
    for streamed, num_slots in (((1, 2, 3, 4, 5, 6, 7), 3), (range(NUM_LAYERS), 2)):
        with opened(path, streamed, num_slots, UNWATCHED) as model:
            assert same(model.text(), whole)


def test_a_model_with_tied_embeddings_is_streamed(tmp_path: Path) -> None:
    path = write_tiny_gemma2(tmp_path / "tied.gguf", layers=4, dim=128)
    with opened(path, None) as model:
        whole = model.text()
    with opened(path, (1, 2, 3), 1, UNWATCHED) as model:
        assert same(model.text(), whole)


def test_a_model_in_several_files_is_streamed(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "split.gguf", layers=6, dim=128, ff=352, tensors_in_part=20)
    parts = sorted(tmp_path.glob("split-*.gguf"))
    assert len(parts) == 3
    with opened(parts[0], None) as model:
        whole = model.text()
    with opened(parts[0], range(1, 6), 2, UNWATCHED) as model:
        assert same(model.text(), whole)


def test_layers_smaller_than_a_page_stay_where_they_are(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "small.gguf", layers=3, dim=8, ff=8, heads=2, kv_heads=2)
    with opened(path, None) as model:
        whole = model.text()
    with opened(path, (1, 2), 1) as model:
        assert same(model.text(), whole)


def test_no_more_is_read_at_a_time_than_was_said(path: Path, whole: Logits) -> None:
    under_way, most = threading.Semaphore(0), []
    lock, counts = threading.Lock(), [0]

    def note(number: int) -> None:
        with lock:
            counts[0] += 1
            most.append(counts[0])
        under_way.acquire(timeout=0.002)
        with lock:
            counts[0] -= 1

    for reads_at_once in (1, 3):
        most.clear()
        options = watched(note, Options(reads_at_once=reads_at_once, chunk_bytes=CHUNK_BYTES))
        with opened(path, range(1, NUM_LAYERS), 2, options) as model:
            assert same(model.text(), whole)
        assert max(most) <= reads_at_once
    assert max(most) > 1


# Changing places.


def test_places_change_between_decodes_and_logits_do_not(path: Path, whole: Logits) -> None:
    targets = [
        ((1, 2, 3, 4, 5, 6, 7), 2),
        ((4, 6), 1),
        ((), 1),
        (range(NUM_LAYERS), 3),
        ((2, 3, 4, 5, 6), 2),
        ((7,), 1),
    ]
    with opened(path, (1, 2, 3, 4, 5), 2, UNWATCHED) as model:
        assert model.stream is not None
        got = model.prefill()
        for number, target in enumerate(targets):
            model.stream.retarget(*target)
            got += model.step(number)
        assert same(got, whole)


def test_places_change_while_reads_are_slow(path: Path, whole: Logits) -> None:
    with opened(path, (1, 2, 3, 4, 5), 2, watched(slow(0.002))) as model:
        assert model.stream is not None
        got = model.prefill()
        for number in range(3):
            model.stream.retarget((1, 2, 3, 4, 5, 6, 7) if number % 2 else (2, 6), 1 + number % 2)
            got += model.step(number)
        assert same(got, whole[: len(got)])


def test_layers_that_get_a_home_are_read_by_the_next_pass_and_never_again(path: Path) -> None:
    with opened(path, (1, 2, 3, 4, 5, 6, 7), 2) as model:
        assert model.stream is not None
        model.text(1)
        layer_bytes = {span.what: span.num_bytes for span in model.ledger.spans()}
        a_pass = sum(layer_bytes[f"layer {layer}"] for layer in range(1, 8))
        model.stream.retarget((6,), 1)
        assert model.stream.counters().num_moving == 6
        for number in range(1, 20):
            before = model.stream.counters().read_bytes
            model.step(number)
            # No pass reads more than those before did, but for what was read ahead.
            assert model.stream.counters().read_bytes - before <= a_pass * 9 / 7
        assert model.stream.counters().num_moving == 0
        assert model.stream.counters().read_bytes == before
        assert model.stream.streamed == (6,)


def test_layers_that_trade_places_do_so_a_few_at_a_time(path: Path, whole: Logits) -> None:
    with opened(path, (1, 2, 3, 4), 2, UNWATCHED) as model:
        assert model.stream is not None
        got = model.prefill()
        model.stream.retarget((4, 5, 6, 7), 2)
        seen = []
        for number in range(6):
            seen.append(model.stream.streamed)
            got += model.step(number)
        assert seen[:4] == [(1, 2, 4, 7), (1, 4, 6, 7), (4, 5, 6, 7), (4, 5, 6, 7)]
        assert same(got, whole)


def test_memory_of_layers_that_leave_is_free_at_once(path: Path) -> None:
    with opened(path, (), 1) as model:
        assert model.stream is not None
        model.text(1)
        all_pinned = model.stream.counters().held_bytes
        model.stream.retarget(range(NUM_LAYERS), 1)
        held = model.stream.counters().held_bytes
        assert held < all_pinned / 3
        model.step(1)
        model.stream.retarget((), 1)
        for number in range(2, 12):
            model.step(number)
        assert model.stream.counters().held_bytes == all_pinned


def test_the_ledger_knows_what_lies_where(path: Path) -> None:
    with opened(path, (1, 2, 3), 2) as model:
        assert model.stream is not None
        model.text(1)
        model.stream.before_decode()
        states = {span.what: (span.tier, span.state) for span in model.ledger.spans()}
        assert states["layer 0"] == ("ram", "resident")
        assert states["layer 2"] == ("disk", "streaming")
        assert states["slot 1"] == ("ram", "streaming")
        assert model.ledger.held_bytes("ram") == pytest.approx(model.stream.counters().held_bytes, rel=0.05)
        model.stream.retarget((1,), 1)
        states = {span.what: (span.tier, span.state) for span in model.ledger.spans()}
        assert states["layer 3"] == ("ram", "loading")
        assert states["layer 2"] == ("disk", "streaming")
        assert "slot 1" not in states
        for number in range(1, 4):
            model.step(number)
        model.stream.before_decode()
        states = {span.what: (span.tier, span.state) for span in model.ledger.spans()}
        assert states["layer 2"] == states["layer 3"] == ("ram", "resident")
        assert model.ledger.held_bytes("ram") == pytest.approx(model.stream.counters().held_bytes, rel=0.05)


def test_the_system_counts_the_memory_of_a_slot_once_however_many_layers_pass_through_it(path: Path) -> None:
    before = process_memory().shmem_bytes
    with opened(path, range(1, NUM_LAYERS), 2) as model:
        model.text(4)
        slots = sum(span.num_bytes for span in model.ledger.spans() if span.what.startswith("slot"))
        assert process_memory().shmem_bytes - before <= slots + 64 * 1024


# What cannot be streamed.


def test_a_model_whose_weights_were_copied_is_refused(path: Path) -> None:
    model = Model(path, 0, lambda _: True)
    # Of this one nothing is, whatever the processor.
    model.copied_bytes = 1
    with pytest.raises(NotStreamable, match="in another order"):
        LayerStream(model, path, (1,), 1, Ledger())
    model.close()


def test_a_file_that_cannot_be_opened_is_refused_and_the_model_stays_whole(path: Path) -> None:
    def refuse(paths: object) -> None:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(NotStreamable, match="Permission denied"):
        StreamedModel(path, (1,), 1, Options(open_files=refuse))  # type: ignore[arg-type]


def test_memory_that_something_else_lies_in_is_never_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    model = Model(path, 0, lambda _: True, is_repacked=False)
    monkeypatch.setattr(mappings, "current", list)
    with pytest.raises(NotStreamable, match="Something else lies in memory"):
        LayerStream(model, path, (1,), 1, ledger)
    model.close()
    assert ledger.spans() == ()


def test_a_change_of_places_that_is_refused_changes_nothing(
    path: Path, whole: Logits, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(path, (1, 2, 3), 2, UNWATCHED) as model:
        assert model.stream is not None
        got = model.prefill()
        with monkeypatch.context() as patch:
            patch.setattr(mappings, "current", list)
            with pytest.raises(NotStreamable):
                model.stream.retarget((5,), 1)
        assert model.stream.streamed == (1, 2, 3)
        got += model.step(0)
        assert same(got, whole[: len(got)])


# What is left behind.


def test_nothing_is_left_after_closing(path: Path) -> None:
    def held() -> tuple[int, list[str], set[str]]:
        with open("/proc/self/maps") as lines:
            maps = [line for line in lines if "ragdoll-weights" in line or path.name in line]
        return len(os.listdir("/proc/self/fd")), maps, {thread.name for thread in threading.enumerate()}

    with opened(path, (1, 2), 1, USUAL) as model:
        model.text(1)
    before = held()
    with opened(path, (1, 2, 3, 4), 2, USUAL) as model:
        model.text(1)
        assert model.stream is not None
        model.stream.retarget((5,), 1)
        model.step(1)
    assert held() == before
