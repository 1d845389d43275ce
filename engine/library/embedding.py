"""Embedding as a stage of its own: threads that only embed, and never wait for a file, a commit or an index.

The job's thread puts in documents that were read, and takes out those that have all their vectors. The lock is never
held while the model runs. Two threads take turns: while one hands in its vectors and takes the next texts, or waits
for its last batch, the other keeps the model busy.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType

from engine.library.reading import Ready
from engine.library.rows import texts_by_key
from engine.library.seams import Embedder
from engine.library.windows import PORTION_CHUNKS, Waiting, longest_first, shares
from engine.memory.heap import trim_heap
from engine.partitions.rows import Vectors

# Chunks that wait for vectors: enough to last while the index is compacted, few enough for the memory.
MAX_CHUNKS_WAITING = 1024
# Small documents have room beside a huge one; two huge ones wait for each other.
MAX_LARGE_CHUNKS_WAITING = 60_000
# Memory that is given back to the system is needed again at once, so it is given back rarely.
UNTIDY_CHUNKS = 1024
_NUM_THREADS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """A document that has all its vectors, by content key."""

    ready: Ready
    vectors: Mapping[str, Vectors]


@dataclass(slots=True, eq=False)
class _Underway:
    """A document in the stage; `missing` are the texts without a vector, by content key."""

    ready: Ready
    missing: dict[str, str]
    is_urgent: bool
    is_large: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_large = self.waiting.is_large

    @property
    def waiting(self) -> Waiting:
        return Waiting(len(self.missing), self.is_urgent)

    @property
    def num_embedded(self) -> int:
        """Counts the chunks that have their vector."""
        return len(self.ready.keys) if not self.missing else sum(key not in self.missing for key in self.ready.keys)


class EmbeddingStage:
    """The embedder's threads, for as long as the `with` block lasts."""

    def __init__(self, embedder: Embedder, changed: threading.Condition | None = None) -> None:
        """Prepares the threads. `changed` is notified of progress; its lock is also the stage's lock."""
        self._embedder = embedder
        self._changed = changed or threading.Condition()
        self._underway: list[_Underway] = []
        self._complete: deque[_Underway] = deque()
        self._advanced: list[_Underway] = []
        self._window: deque[list[str]] = deque()
        self._is_window_urgent = False
        # Content keys of the texts that are being embedded now.
        self._inside: set[str] = set()
        self._vectors: dict[str, Vectors] = {}
        self._askers: Counter[str] = Counter()
        self._is_held = self._is_closed = False
        self._fault: BaseException | None = None
        self._num_untidy = 0
        self._threads = [
            threading.Thread(target=self._run, name=f"embedding-{number}", daemon=True)
            for number in range(1, _NUM_THREADS + 1)
        ]

    def __enter__(self) -> EmbeddingStage:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the threads after their current portions; complete documents can still be taken. Twice is harmless."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._trim()

    # --- one side: what is to be embedded ---

    @property
    def has_room(self) -> bool:
        """Whether more should be read; the caller holds the lock of `changed`."""
        small = sum(len(one.missing) for one in self._underway if not one.is_large)
        large = sum(len(one.missing) for one in self._underway if one.is_large)
        # Documents that are complete but not written count as well, so that a slow disk slows down the model.
        small += sum(len(one.ready.keys) for one in self._complete if not one.is_large)
        return small < MAX_CHUNKS_WAITING and large < MAX_LARGE_CHUNKS_WAITING

    @property
    def is_short(self) -> bool:
        """Whether the model has hardly a second's work left; the caller holds the lock."""
        return sum(len(one.missing) for one in self._underway) < _NUM_THREADS * PORTION_CHUNKS

    @property
    def has_urgent_room(self) -> bool:
        """Whether more urgent documents should be read, whatever else waits; the caller holds the lock."""
        underway = sum(len(one.missing) for one in self._underway if one.is_urgent)
        complete = sum(len(one.ready.keys) for one in self._complete if one.is_urgent)
        return underway + complete < MAX_CHUNKS_WAITING

    def put(self, ready: Ready, known: Mapping[str, Vectors], is_urgent: bool = False) -> None:
        """Takes a document in; `known` are stored vectors. The caller must `release` it once it is written.

        A text that several documents of the stage contain is embedded once.
        """
        texts = texts_by_key(ready.read, ready.keys)
        with self._changed:
            for key in texts:
                self._askers[key] += 1
                if key in known:
                    self._vectors[key] = known[key]
            missing = {key: text for key, text in texts.items() if key not in self._vectors}
            one = _Underway(ready, missing, is_urgent)
            (self._underway if missing else self._complete).append(one)
            self._changed.notify_all()

    def hurry(self, document_ids: frozenset[int]) -> None:
        """Marks these documents as urgent, because a user waits for them."""
        with self._changed:
            for one in self._underway:
                one.is_urgent = one.is_urgent or one.ready.document.document_id in document_ids

    def hold(self, is_held: bool) -> None:
        """Stops embedding after the current portions, or continues."""
        with self._changed:
            self._is_held = is_held
            self._changed.notify_all()

    # --- the other side: what is done ---

    @property
    def has_news(self) -> bool:
        return bool(self._complete or self._advanced or self._fault)

    @property
    def is_empty(self) -> bool:
        return not (self._underway or self._complete)

    def advanced(self) -> list[tuple[Ready, int]]:
        """Returns documents that got vectors since the last call, each with the number of chunks that have one."""
        with self._changed:
            advanced, self._advanced = self._advanced, []
            return [(one.ready, one.num_embedded) for one in advanced]

    def take(self, max_chunks: int) -> list[Embedded]:
        """Returns complete documents: at least one if there is any, otherwise no more than fill `max_chunks`.

        Raises:
            RagdollError: The embedder has failed, and all complete documents have been taken.
        """
        with self._changed:
            if not self._complete and self._fault is not None:
                raise self._fault
            taken: list[Embedded] = []
            num_chunks = 0
            while self._complete and (not taken or num_chunks + len(self._complete[0].ready.keys) <= max_chunks):
                ready = self._complete.popleft().ready
                taken.append(Embedded(ready, {key: self._vectors[key] for key in ready.keys}))
                num_chunks += len(ready.keys)
            return taken

    def release(self, written: Sequence[Embedded]) -> None:
        """Drops the vectors of documents that are in the table now."""
        with self._changed:
            for one in written:
                for key in one.vectors:
                    self._askers[key] -= 1
                    if not self._askers[key]:
                        del self._askers[key], self._vectors[key]

    # --- the threads ---

    def _run(self) -> None:
        try:
            while (texts := self._next()) is not None:
                self._embedded(list(texts), self._embedder.embed_documents(list(texts.values())))
                self._tidy_up(len(texts))
        except BaseException as error:  # noqa: BLE001 - a thread's end: reported to the next caller
            with self._changed:
                self._fault = self._fault or error
                self._changed.notify_all()

    def _tidy_up(self, num_embedded: int) -> None:
        """Trims the heap now and then: batches of all shapes fragment it, by a gigabyte in some thousand chunks."""
        with self._changed:
            self._num_untidy += num_embedded
            is_due = self._num_untidy >= UNTIDY_CHUNKS
        if is_due:
            self._trim()

    def _trim(self) -> None:
        with self._changed:
            is_untidy, self._num_untidy = self._num_untidy > 0, 0
        if is_untidy:
            trim_heap()

    def _next(self) -> dict[str, str] | None:
        """Waits for the next portion of texts, by content key; None when the stage ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or (self._has_work() and not self._is_held))
            if self._is_over:
                return None
            waiting = [self._untaken(one) for one in self._underway]
            is_urgent = any(one.is_urgent for one in waiting)
            if not self._window or (is_urgent and not self._is_window_urgent):
                self._open_window(waiting)
                self._is_window_urgent = is_urgent
            keys = self._window.popleft()
            missing: dict[str, str] = {}
            for one in self._underway:
                missing.update((key, one.missing[key]) for key in keys if key in one.missing)
            self._inside.update(keys)
            return {key: missing[key] for key in keys}

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self._fault is not None

    def _has_work(self) -> bool:
        """Whether there is a text that no thread has taken."""
        return bool(self._window) or any(not one.missing.keys() <= self._inside for one in self._underway)

    def _untaken(self, one: _Underway) -> Waiting:
        num_untaken = len(one.missing) - sum(key in one.missing for key in self._inside)
        return Waiting(num_untaken, one.is_urgent and num_untaken > 0)

    def _open_window(self, waiting: Sequence[Waiting]) -> None:
        texts: dict[str, str] = {}
        for one, share in zip(self._underway, shares(waiting), strict=True):
            untaken = ((key, text) for key, text in one.missing.items() if key not in self._inside)
            texts.update(islice(untaken, share))
        keys = longest_first(texts, self._embedder)
        starts = range(0, len(keys), PORTION_CHUNKS)
        self._window = deque(keys[start : start + PORTION_CHUNKS] for start in starts)

    def _embedded(self, keys: Sequence[str], vectors: Vectors) -> None:
        with self._changed:
            self._inside.difference_update(keys)
            self._vectors.update(zip(keys, vectors, strict=True))
            still: list[_Underway] = []
            for one in self._underway:
                num_missing = len(one.missing)
                for key in keys:
                    one.missing.pop(key, None)
                if not one.missing:
                    self._complete.append(one)
                else:
                    still.append(one)
                    if len(one.missing) < num_missing and one not in self._advanced:
                        self._advanced.append(one)
            self._underway = still
            self._changed.notify_all()
