"""A tiny model whose layers are streamed, what it computes, and files that are slow, fail or are poisoned first."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.errors import WeightsNotRead
from engine.generation.context import Context, ContextSpec, Stretch
from engine.generation.model import Model
from engine.generation.weights.direct_reads import DirectFiles
from engine.generation.weights.packing import Packing
from engine.generation.weights.stream import LayerStream, Options
from engine.memory.ledger import Ledger

SPEC = ContextSpec(num_cells=256, n_batch=64, n_ubatch=16, num_threads=1, num_sequences=4)
# Small, so that a layer has many.
CHUNK_BYTES = 64 << 10
USUAL = Options(chunk_bytes=CHUNK_BYTES, patience_seconds=20.0)
Logits = list[np.ndarray]


class WatchedFiles(DirectFiles):
    """Spoils what a piece goes into before it is read there, so that whoever computes too early is found out.

    `on_read` is called in between with the number of the read, and may wait or raise.
    """

    on_read: Callable[[int], None] = staticmethod(lambda number: None)

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(paths)
        self._lock, self.num_reads = threading.Lock(), 0

    def read(self, part: int, offset: int, into: ctypes.Array) -> None:
        with self._lock:
            number = self.num_reads
            self.num_reads += 1
        # As a float, each four of them are no number.
        ctypes.memset(into, 0xFF, len(into))
        self.on_read(number)
        super().read(part, offset, into)


def watched(on_read: Callable[[int], None], options: Options = USUAL) -> Options:
    """Options with files that call `on_read`."""
    files = type("Files", (WatchedFiles,), {"on_read": staticmethod(on_read)})
    return replace(options, open_files=files)


class StreamedModel:
    """A model, its stream and a context; `stream` is None where all of it is mapped as llama.cpp does.

    Given a `folder`, weights are in the processor's order, and the copy of those that are streamed lies there.
    """

    def __init__(
        self,
        path: Path,
        streamed: Collection[int] | None,
        num_slots: int = 2,
        options: Options = USUAL,
        n_gpu_layers: int = 0,
        spec: ContextSpec = SPEC,
        folder: Path | None = None,
    ):
        self.ledger = Ledger()
        packing = Packing(folder, self.ledger) if folder is not None and streamed is not None else None
        try:
            self.model = Model(path, n_gpu_layers, lambda _: True, folder is not None, packing)
            copied = packing.finish() if packing is not None else None
        finally:
            if packing is not None:
                packing.close()
        self.stream: LayerStream | None = None
        try:
            if streamed is not None:
                self.stream = LayerStream(self.model, path, streamed, num_slots, self.ledger, options, copied)
        except BaseException:
            self.model.close()
            raise
        self.context = Context(self.model, spec, self.stream)
        self.lengths = dict.fromkeys(range(spec.num_sequences), 0)

    def prefill(self) -> Logits:
        """Several ubatches of two sequences."""
        return self.decode({0: range(3, 43), 1: range(20, 35)})

    def decode(self, tokens: dict[int, Sequence[int]]) -> Logits:
        """Appends tokens to sequences; returns the logits behind each."""
        stretches = [Stretch(slot, self.lengths[slot], list(new), 1) for slot, new in tokens.items()]
        rows = self.context.decode(stretches)
        for slot, new in tokens.items():
            self.lengths[slot] += len(new)
        ends = [row + len(stretch.tokens) - 1 for row, stretch in zip(rows, stretches, strict=True)]
        return [self.context.logits(end).copy() for end in ends]

    def step(self, number: int) -> Logits:
        """A token more for each of the two sequences."""
        return self.decode({0: [5 + number], 1: [9 + number]})

    def retry(self, decode: Callable[[], Logits]) -> tuple[Logits, int]:
        """As the step loop does, but until it succeeds; returns how many times it failed."""
        for failures in range(100):
            try:
                return decode(), failures
            except WeightsNotRead:
                self.trim()
        raise AssertionError("the weights are never read")

    def trim(self) -> None:
        """Forgets what a decode that failed left in the cells."""
        for slot, length in self.lengths.items():
            assert self.context.remove(slot, length)

    def go_back(self, num_tokens: int = 1) -> None:
        """Forgets the last tokens of both sequences."""
        for slot in (0, 1):
            self.lengths[slot] -= num_tokens
        self.trim()

    def text(self, num_steps: int = 6) -> Logits:
        """Everything that a prompt and some steps compute."""
        return [*self.prefill(), *(logits for number in range(num_steps) for logits in self.step(number))]

    def close(self) -> None:
        self.context.close()
        if self.stream is not None:
            self.stream.close()
        self.model.close()
        assert self.ledger.spans() == ()


@contextmanager
def opened(
    path: Path,
    streamed: Collection[int] | None,
    num_slots: int = 2,
    options: Options = USUAL,
    n_gpu_layers: int = 0,
    spec: ContextSpec = SPEC,
    folder: Path | None = None,
) -> Iterator[StreamedModel]:
    """Closes it in the end."""
    model = StreamedModel(path, streamed, num_slots, options, n_gpu_layers, spec, folder)
    try:
        yield model
    finally:
        model.close()


def same(left: Logits, right: Logits) -> bool:
    """Bit for bit."""
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def slow(seconds: float) -> Callable[[int], None]:
    """Every other read takes its time."""
    return lambda number: time.sleep(seconds * (number % 2))
