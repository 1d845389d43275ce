"""Tests for engine.generation.weights.stream: reads that fail, or come late, never make a wrong token."""

from __future__ import annotations

import errno
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import llama_cpp.llama_cpp as llama
import pytest

from engine.errors import DecodeFailed, ModelLoadFailed, WeightsChanged, WeightsNotRead
from engine.generation.cells import Cells
from engine.generation.context import Context
from engine.generation.load_trials import LoadTrials
from engine.generation.request import Request, RequestFailed, RequestFinished, StepEvent
from engine.generation.segment import Segment
from engine.generation.step_loop import StepLoop
from engine.generation.weights import homes
from engine.generation.weights.memory_map import MappingLost
from engine.generation.weights.stream import LayerStream
from tests.helpers.loop_desk import GREEDY
from tests.helpers.streamed_model import SPEC, USUAL, Logits, StreamedModel, opened, same, watched
from tests.helpers.tiny_gguf import write_tiny_model

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="layers are streamed on Linux only"),
    pytest.mark.expects_warnings,
]
NUM_LAYERS = 6
STREAMED = range(1, NUM_LAYERS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return _written(folder / "tiny.gguf")


def _written(path: Path, seed: int = 0) -> Path:
    return write_tiny_model(path, layers=NUM_LAYERS, dim=128, ff=352, never_ends=True, seed=seed)


@pytest.fixture(scope="module")
def whole(path: Path) -> Logits:
    with opened(path, None) as model:
        return model.text(4)


class Disk:
    """Fails the reads that are numbered, or from one number on; and holds one up until it is let go."""

    def __init__(self, fails: frozenset[int] = frozenset(), fails_from: int = 1 << 30) -> None:
        self.fails, self.fails_from = fails, fails_from
        self.errno = errno.EIO
        # Reads still to come before the one that is held up.
        self.holds: int | None = None
        self.let_go = threading.Event()

    def __call__(self, number: int) -> None:
        if self.holds == 0:
            self.holds = None
            self.let_go.wait(30)
        if number in self.fails or number >= self.fails_from:
            raise OSError(self.errno, os.strerror(self.errno))


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.let_go.set()


@pytest.mark.parametrize("failing", [frozenset({n}) for n in (10, 14, 22, 27, 41)] + [frozenset(range(20, 60, 7))])
def test_reads_that_fail_at_times_cost_a_second_try_and_nothing_else(
    path: Path, whole: Logits, disk: Disk, failing: frozenset[int]
) -> None:
    disk.fails = failing
    with opened(path, STREAMED, 2, watched(disk)) as model:
        got, failed = model.retry(model.prefill)
        for number in range(4):
            more, failures = model.retry(lambda number=number: model.step(number))
            got, failed = got + more, failed + failures
        assert same(got, whole)
        assert model.stream is not None
        assert failed <= model.stream.counters().num_failed_reads
        assert model.stream.counters().num_failed_reads > 0


def test_a_disk_that_never_reads_makes_every_try_fail_in_a_sentence(path: Path, whole: Logits, disk: Disk) -> None:
    with opened(path, STREAMED, 2, watched(disk)) as model:
        got = model.prefill()
        disk.fails_from = 0
        for _ in range(3):
            with pytest.raises(WeightsNotRead, match="Input/output error") as raised:
                model.step(0)
            assert raised.value.drive_failed
            assert model.context.remove(0, model.lengths[0])
            assert model.context.remove(1, model.lengths[1])
        disk.fails_from = 1 << 30
        got += model.step(0)
        assert same(got, whole[: len(got)])


def wait_for_the_late(model: StreamedModel, disk: Disk) -> WeightsNotRead:
    """Computes the same step until it meets a read that is held up; what is said then."""
    disk.holds = 0
    for _ in range(100):
        try:
            model.step(0)
        except WeightsNotRead as error:
            model.trim()
            return error
        model.go_back()
    raise AssertionError("nothing was held up")


def test_a_read_that_comes_too_late_spoils_no_token(path: Path, whole: Logits, disk: Disk) -> None:
    with opened(path, STREAMED, 2, replace(watched(disk), patience_seconds=0.2)) as model:
        got, _ = model.retry(model.prefill)
        late = wait_for_the_late(model, disk)
        assert "did not answer in time" in late.sentence
        # It may only have fallen asleep.
        assert not late.drive_failed
        with pytest.raises(WeightsNotRead):
            model.step(0)
        model.trim()
        disk.let_go.set()
        more, _ = model.retry(lambda: model.step(0))
        assert same(got + more, whole[:4])


def test_a_read_that_does_not_come_back_puts_a_change_of_places_off(path: Path, whole: Logits, disk: Disk) -> None:
    with opened(path, STREAMED, 2, replace(watched(disk), patience_seconds=0.2)) as model:
        assert model.stream is not None
        got, _ = model.retry(model.prefill)
        wait_for_the_late(model, disk)
        before = {span.what: span.tier for span in model.ledger.spans()}
        model.stream.retarget((2,), 1)
        assert {span.what: span.tier for span in model.ledger.spans()} == before
        disk.let_go.set()
        more, _ = model.retry(lambda: model.step(0))
        assert same(got + more, whole[:4])
        assert {span.what: span.tier for span in model.ledger.spans()} != before


def test_a_file_that_was_cut_short_fails_in_a_sentence(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(path.read_bytes())
    with opened(copy, STREAMED, 2) as model:
        model.prefill()
        # Only what is streamed: the embeddings are still mapped, and lie before the layers.
        with copy.open("r+b") as stream:
            stream.truncate(copy.stat().st_size // 2)
        with pytest.raises(WeightsChanged, match="changed while the model was in use"):
            model.step(0)


def test_a_file_that_another_was_written_over_gives_no_token_of_both(path: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy.gguf", _written(tmp_path / "other.gguf", seed=1)
    copy.write_bytes(path.read_bytes())
    assert other.stat().st_size == copy.stat().st_size
    with opened(copy, STREAMED, 2) as model:
        model.prefill()
        with copy.open("r+b") as stream:
            stream.write(other.read_bytes())
        with pytest.raises(WeightsChanged, match="loaded anew"):
            model.step(0)


def test_tensors_of_no_layer_that_cannot_be_read_are_told_before_anything_is_computed(path: Path, disk: Disk) -> None:
    disk.fails_from = 0
    # The model's own memory has been emptied by then, so it is of no use unstreamed either.
    with pytest.raises(ModelLoadFailed, match="Input/output error"):
        StreamedModel(path, STREAMED, 2, watched(disk))


def test_a_decode_that_llama_cpp_stopped_in_between_is_followed_by_a_whole_one(path: Path, whole: Logits) -> None:
    with opened(path, STREAMED, 2) as model:
        got = model.prefill()
        asked = itertools.count()
        stop = llama.ggml_abort_callback(lambda _: next(asked) > 60)
        llama.llama_set_abort_callback(model.context.handle, stop, None)
        with pytest.raises(DecodeFailed, match="stopped computing"):
            model.step(0)
        llama.llama_set_abort_callback(model.context.handle, llama.ggml_abort_callback(0), None)
        model.trim()
        for number in range(4):
            got += model.step(number)
        assert same(got, whole)


def test_a_context_that_does_not_call_back_computes_nothing_that_is_used(path: Path) -> None:
    class Silent:
        """A stream that is not told of nodes."""

        cb_eval = llama.ggml_backend_sched_eval_callback(0)
        can_copy = False

        def __init__(self, stream: LayerStream) -> None:
            self.before_decode, self.after_decode = stream.before_decode, stream.after_decode
            self.disk_seconds = stream.disk_seconds

    with opened(path, STREAMED, 2, replace(USUAL, patience_seconds=0.2)) as model:
        assert model.stream is not None
        model.context.close()
        model.context = Context(model.model, SPEC, Silent(model.stream))
        with pytest.raises(WeightsNotRead):
            model.prefill()


class Ended(Exception):
    """Replaces the end of the process."""


@pytest.mark.parametrize("is_moving", [False, True])
def test_a_mapping_that_is_lost_ends_the_engine_and_the_next_one_loads_less(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_moving: bool
) -> None:
    said: list[str] = []

    def end(sentence: str) -> NoReturn:
        said.append(sentence)
        raise Ended

    def fail(*what: int) -> None:
        raise MappingLost("there is no memory for it")

    trials = LoadTrials(tmp_path / "model-on-trial.json")
    with ExitStack() as until_closed:
        with trials.of(path):
            model = until_closed.enter_context(opened(path, STREAMED, 1, replace(USUAL, end=end)))
        model.prefill()
        assert model.stream is not None
        if is_moving:
            # A few layers get their homes, and others with each pass that follows.
            model.stream.retarget((), 1)
        assert trials.deaths_of(path) == 0
        monkeypatch.setattr(homes, "map_private_over", fail)
        with pytest.raises(Ended):
            model.step(0) if is_moving else model.stream.retarget((), 1)
        assert said == ["The engine ends itself: there is no memory for it."]
        assert trials.deaths_of(path) == 1


# With the step loop.


class Loop:
    """Two requests that are answered at once by a model that is streamed."""

    def __init__(self, model: StreamedModel) -> None:
        self.cells = Cells(SPEC.num_cells, SPEC.num_sequences)
        self.loop = StepLoop(model.model, model.context, self.cells)
        self.events: list[StepEvent] = []
        for name, text in (("first", "Once upon a time"), ("second", "The lease ends")):
            tokens = (model.model.bos, *model.model.tokenize(text))
            self.loop.submit(Request(name, (Segment(tokens, "instructions"),), replace(GREEDY, max_tokens=8)))

    def run(self) -> dict[str, StepEvent]:
        for _ in range(200):
            if not self.loop.has_work:
                break
            self.events += self.loop.step()
        self.loop.close()
        ends = (RequestFinished, RequestFailed)
        return {event.request_id: event for event in self.events if isinstance(event, ends)}


def answers(ends: dict[str, StepEvent]) -> dict[str, list[tuple[int, ...]]]:
    return {
        name: [tuple(answer.tokens) for answer in end.answers]
        for name, end in ends.items()
        if isinstance(end, RequestFinished)
    }


def test_answers_are_the_same_where_reads_fail_now_and_then(path: Path, disk: Disk) -> None:
    with opened(path, None) as model:
        expected = answers(Loop(model).run())
    with opened(path, STREAMED, 2, watched(disk)) as model:
        disk.fails = frozenset(range(60, 2000, 211))
        assert answers(Loop(model).run()) == expected
        assert model.stream is not None
        assert model.stream.counters().num_failed_reads > 1
    assert len(expected) == 2


def test_what_failed_passes_left_in_cells_spoils_nobody_who_asks_later(path: Path, disk: Disk) -> None:
    # So wide that llama.cpp processes many tokens and cells at once, also those that it then masks.
    spec = replace(SPEC, num_cells=512, n_batch=128, n_ubatch=128)

    def answer(model: StreamedModel, first: int, num_tokens: int) -> StepEvent:
        loop = StepLoop(model.model, model.context, Cells(spec.num_cells, spec.num_sequences))
        tokens = tuple(first + at % 50 for at in range(num_tokens))
        loop.submit(Request("q", (Segment(tokens, "instructions"),), replace(GREEDY, max_tokens=4)))
        events = [event for _ in range(50) if loop.has_work for event in loop.step()]
        loop.close()
        return events[-1]

    with opened(path, None, spec=spec) as model:
        expected = answer(model, 5, 80)
    with opened(path, STREAMED, 2, watched(disk), spec=spec) as model:
        answer(model, 9, 120)
        disk.fails_from, disk.errno = 0, errno.ETIMEDOUT
        assert isinstance(answer(model, 9, 120), RequestFailed)
        disk.fails_from = 1 << 30
        assert isinstance(expected, RequestFinished)
        assert answer(model, 5, 80) == expected


def test_answers_fail_in_a_sentence_where_reads_fail_for_good(path: Path, disk: Disk) -> None:
    with opened(path, STREAMED, 2, watched(disk)) as model:
        disk.fails_from, disk.errno = 60, errno.ETIMEDOUT
        loop = Loop(model)
        ends = loop.run()
        assert [type(end) for end in ends.values()] == [RequestFailed] * 2
        for end in ends.values():
            assert isinstance(end, RequestFailed)
            assert "could not be read" in end.error.sentence
        assert loop.cells.num_used == 0


def test_a_drive_that_is_gone_has_the_model_loaded_anew(path: Path, disk: Disk) -> None:
    with opened(path, STREAMED, 2, watched(disk)) as model:
        disk.fails_from = 60
        with pytest.raises(WeightsChanged, match="could not be read from the disk: Input/output error"):
            Loop(model).run()
