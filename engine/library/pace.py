"""Pace: how far an indexing run is, how fast it goes, and when it will end, by what it has done lately.

Users see documents, chunks and bytes, which never go backwards: a run that was killed continues its counts. The rate is
that of the last half minute, and the remaining time approaches each new estimate instead of jumping to it. Time spent
waiting does not count.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.core import Document
from engine.events import IndexProgressed

Clock = Callable[[], float]

# Opening, parsing and writing a file costs as much as about this many bytes, even if it is empty.
_BYTES_PER_FILE = 2_000
# An earlier rate would be a guess.
_SECONDS_TO_JUDGE = 1.0
_WINDOW_SECONDS = 30.0
_SAMPLE_SECONDS = 0.5
# How fast the remaining time follows a new estimate.
_ETA_SECONDS = 10.0


class _Sample(NamedTuple):
    """The progress of a run at a moment of its working time."""

    seconds: float
    chunks: int
    weight: float


@dataclass(frozen=True, slots=True)
class Before:
    """What a run had done before it was interrupted."""

    documents: int = 0
    num_bytes: int = 0
    chunks: int = 0


@dataclass(slots=True)
class Pace:
    """The progress of one job, which owns it. Weights are bytes, with some added for each file."""

    num_documents: int
    num_bytes: int
    before: Before = Before()
    clock: Clock = time.monotonic
    _documents_done: int = 0
    _chunks_done: int = 0
    _bytes_done: float = 0.0
    _waited_seconds: float = 0.0
    _started: float = field(init=False)
    _chunks_counted: dict[int, int] = field(default_factory=dict)
    _samples: deque[_Sample] = field(default_factory=deque)
    _eta: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._started = self.clock()
        self._samples.append(self._now())

    @classmethod
    def of(cls, documents: Iterable[Document], clock: Clock = time.monotonic, before: Before = Before()) -> Pace:
        sizes = [document.size_bytes for document in documents]
        return cls(len(sizes), sum(sizes), before, clock)

    def embedded(self, document: Document, num_chunks: int, of_chunks: int) -> None:
        """Notes that `num_chunks` of a document's `of_chunks` have their vectors."""
        earlier = self._chunks_counted.get(document.document_id, 0)
        if num_chunks <= earlier:
            return
        self._chunks_counted[document.document_id] = num_chunks
        self._chunks_done += num_chunks - earlier
        self._bytes_done += document.size_bytes * (num_chunks - earlier) / of_chunks

    def done(self, document: Document) -> None:
        """Notes that a document is done: it has no chunks, or all of them have their vectors."""
        self._documents_done += 1
        if not self._chunks_counted.pop(document.document_id, 0):
            self._bytes_done += document.size_bytes

    def timed(self, steps: Iterable[IndexProgressed]) -> Iterator[IndexProgressed]:
        """Passes steps on; the time until the caller asks for the next one (a pause) does not count."""
        for step in steps:
            left = self.clock()
            yield step
            self._waited_seconds += self.clock() - left

    @property
    def seconds(self) -> float:
        """The working time so far."""
        return self.clock() - self._started - self._waited_seconds

    def progress(self, current: str) -> IndexProgressed:
        now = self._now()
        since = self._window(now)
        seconds = now.seconds - since.seconds
        is_known = seconds >= _SECONDS_TO_JUDGE and now.weight > since.weight
        return IndexProgressed(
            documents_done=self.before.documents + self._documents_done,
            documents_total=self.before.documents + self.num_documents,
            chunks_done=self.before.chunks + self._chunks_done,
            current=current,
            chunks_per_second=(now.chunks - since.chunks) / seconds if is_known else None,
            eta_seconds=self._time_left(now, (now.weight - since.weight) / seconds if is_known else None),
            bytes_done=self.before.num_bytes + min(self.num_bytes, round(self._bytes_done)),
            bytes_total=self.before.num_bytes + self.num_bytes,
        )

    def _now(self) -> _Sample:
        weight = self._bytes_done + _BYTES_PER_FILE * self._documents_done
        return _Sample(self.seconds, self._chunks_done, weight)

    def _window(self, now: _Sample) -> _Sample:
        """Returns the progress half a minute ago."""
        while len(self._samples) > 1 and self._samples[1].seconds <= now.seconds - _WINDOW_SECONDS:
            self._samples.popleft()
        if now.seconds - self._samples[-1].seconds >= _SAMPLE_SECONDS:
            self._samples.append(now)
        return self._samples[0]

    def _time_left(self, now: _Sample, weight_per_second: float | None) -> float | None:
        """Returns the remaining seconds; None until a rate is known. While nothing moves, the last estimate holds."""
        left = max(0.0, self.num_bytes + _BYTES_PER_FILE * self.num_documents - now.weight)
        if weight_per_second is None:
            return self._eta[1] if self._eta is not None else None
        estimate = left / weight_per_second
        if self._eta is None or not left:
            eta = estimate
        else:
            seconds, told = self._eta
            passed = now.seconds - seconds
            told = max(0.0, told - passed)
            eta = told + (estimate - told) * (1 - math.exp(-passed / _ETA_SECONDS))
        self._eta = now.seconds, eta
        return eta
