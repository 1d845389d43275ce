"""Pace: how far an indexing job is, how fast it goes, and when it will end, by what it has done so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from engine.core import Document
from engine.events import IndexProgressed

Clock = Callable[[], float]

# Opening, parsing and writing a file costs something even if it is empty: about what these bytes do.
_BYTES_PER_FILE = 2_000
# Before that, a rate would be a guess.
_SECONDS_TO_JUDGE = 1.0


@dataclass(slots=True)
class Pace:
    """Counts in documents and chunks for people, in bytes for the time left. Time spent waiting does not count."""

    total: int
    total_bytes: int
    clock: Clock = time.monotonic
    documents_done: int = 0
    chunks_done: int = 0
    _bytes_done: float = 0.0
    _waited_seconds: float = 0.0
    _started: float = field(init=False)
    _chunks_counted: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._started = self.clock()

    @classmethod
    def of(cls, documents: Iterable[Document], clock: Clock = time.monotonic) -> Pace:
        weights = [_weight(document) for document in documents]
        return cls(len(weights), sum(weights), clock)

    def embedded(self, document: Document, num_chunks: int, of_chunks: int) -> None:
        """The first `num_chunks` of a document's `of_chunks` have their vectors."""
        before = self._chunks_counted.get(document.document_id, 0)
        self._chunks_counted[document.document_id] = num_chunks
        self.chunks_done += num_chunks - before
        self._bytes_done += _weight(document) * (num_chunks - before) / of_chunks

    def done(self, document: Document) -> None:
        """Nothing is left to do for a document without chunks, or for one whose chunks all have their vectors."""
        self.documents_done += 1
        if not self._chunks_counted.pop(document.document_id, 0):
            self._bytes_done += _weight(document)

    def timed(self, steps: Iterable[IndexProgressed]) -> Iterator[IndexProgressed]:
        """Hands steps through; the time that whoever takes them lets pass (a pause) does not count."""
        for step in steps:
            left = self.clock()
            yield step
            self._waited_seconds += self.clock() - left

    @property
    def seconds(self) -> float:
        """Working time so far."""
        return self.clock() - self._started - self._waited_seconds

    def progress(self, current: str) -> IndexProgressed:
        seconds = self.seconds
        is_known = seconds >= _SECONDS_TO_JUDGE and self._bytes_done > 0
        bytes_left = max(0.0, self.total_bytes - self._bytes_done)
        return IndexProgressed(
            documents_done=self.documents_done,
            documents_total=self.total,
            chunks_done=self.chunks_done,
            current=current,
            chunks_per_second=self.chunks_done / seconds if is_known else None,
            eta_seconds=bytes_left * seconds / self._bytes_done if is_known else None,
        )


def _weight(document: Document) -> int:
    return document.size_bytes + _BYTES_PER_FILE
