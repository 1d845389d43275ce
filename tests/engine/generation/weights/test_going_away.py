"""Tests for engine.generation.weights.stream: a model's weights leave memory for another's, and come back."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from engine.errors import WeightsNotRead
from tests.helpers.streamed_model import Logits, opened, same, slow, watched
from tests.helpers.tiny_gguf import write_tiny_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only")

NUM_LAYERS = 8
ALL = 1 << 40
UNWATCHED = watched(lambda number: None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", layers=NUM_LAYERS, dim=128, ff=352)


@pytest.fixture(scope="module")
def whole(path: Path) -> Logits:
    with opened(path, None) as model:
        return model.text()


@pytest.mark.parametrize(
    ("streamed", "num_slots"), [((), 1), ((1, 2, 3, 4), 2), (range(NUM_LAYERS), 1), (range(1, NUM_LAYERS), 7)]
)
@pytest.mark.parametrize("num_bytes", [1, 500_000, ALL])
def test_logits_are_the_same_however_much_was_away(
    path: Path, whole: Logits, streamed, num_slots: int, num_bytes: int
) -> None:
    with opened(path, streamed, num_slots, UNWATCHED) as model:
        assert model.stream is not None
        got = model.prefill()
        for number in range(6):
            model.stream.go_away(num_bytes)
            assert not model.stream.is_whole
            model.stream.come_back()
            got += model.step(number)
        assert same(got, whole)


def test_a_slow_disk_is_waited_for(path: Path, whole: Logits) -> None:
    with opened(path, (), 1, watched(slow(0.002))) as model:
        assert model.stream is not None
        got = model.prefill()
        model.stream.go_away(ALL)
        model.stream.come_back()
        got += model.step(0)
        assert same(got, whole[: len(got)])


def test_all_memory_is_given_back_and_the_ledger_says_so(path: Path) -> None:
    with opened(path, (6, 7), 1) as model:
        assert model.stream is not None
        model.text(1)
        held, entered = model.stream.counters().held_bytes, model.ledger.held_bytes("ram")
        removable = model.stream.removable_bytes
        model.stream.go_away(ALL)
        assert model.stream.removable_bytes == 0
        # In addition to layers and head, it gave back its slot.
        assert model.stream.missing_bytes == removable
        assert model.stream.counters().held_bytes <= held - removable
        assert model.ledger.held_bytes("ram") == model.stream.counters().held_bytes < entered / 10
        model.stream.come_back()
        model.step(1)
        model.stream.before_decode()
        assert model.stream.is_whole
        assert model.ledger.held_bytes("ram") == entered


def test_no_more_leaves_than_is_wanted_and_the_last_layers_do(path: Path) -> None:
    with opened(path, (), 1) as model:
        assert model.stream is not None
        model.text(1)
        layer_bytes = next(span.num_bytes for span in model.ledger.spans() if span.what == "layer 3")
        model.stream.go_away(2 * layer_bytes)
        assert model.stream.streamed == (6, 7)
        model.stream.go_away(layer_bytes)
        assert model.stream.streamed == (5, 6, 7)
        before = model.stream.counters().read_bytes
        model.stream.come_back()
        model.step(1)
        # The others had stayed.
        assert model.stream.counters().read_bytes - before == pytest.approx(3 * layer_bytes, rel=0.1)


def test_nothing_is_read_while_it_is_away(path: Path) -> None:
    with opened(path, range(NUM_LAYERS), 3) as model:
        assert model.stream is not None
        model.text(1)
        model.stream.go_away(ALL)
        before = model.stream.counters().read_bytes
        threading.Event().wait(0.05)
        assert model.stream.counters().read_bytes == before
        assert model.stream.counters().held_bytes < model.stream.missing_bytes


def test_other_places_are_taken_when_it_comes_back(path: Path, whole: Logits) -> None:
    with opened(path, (), 1, UNWATCHED) as model:
        assert model.stream is not None
        got = model.prefill()
        model.stream.go_away(ALL)
        model.stream.retarget((4, 5, 6, 7), 2)
        model.stream.come_back()
        assert model.stream.streamed == (4, 5, 6, 7)
        got += model.step(0)
        assert same(got, whole[: len(got)])


@pytest.mark.expects_warnings
def test_a_head_that_cannot_be_read_is_told_and_read_another_time(path: Path, whole: Logits) -> None:
    fails = threading.Event()

    def on_read(number: int) -> None:
        if fails.is_set():
            raise OSError(5, "Input/output error")

    with opened(path, (), 1, watched(on_read)) as model:
        assert model.stream is not None
        got = model.prefill()
        model.stream.go_away(ALL)
        fails.set()
        with pytest.raises(WeightsNotRead, match="Input/output error"):
            model.stream.come_back()
        fails.clear()
        model.stream.come_back()
        again, _ = model.retry(lambda: model.step(0))
        assert same([*got, *again], whole[: len(got) + 2])


def test_it_can_be_closed_while_it_is_away(path: Path) -> None:
    with opened(path, (1, 2), 1) as model:
        assert model.stream is not None
        model.text(1)
        model.stream.go_away(ALL)
