"""Flow: reading, embedding and recording side by side, joined by bounded queues, so that the embedder never waits.

The threads of `ReadAhead` read files, those of `EmbeddingStage` embed texts. The job's own thread, the only one that
changes table and catalogue, passes results from one stage to the next.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType

from engine.core import Document
from engine.errors import Cancelled
from engine.library.embedding import EmbeddingStage
from engine.library.read_ahead import ReadAhead
from engine.library.reading import Outcome
from engine.library.recording import Recorder, Steps, Work
from engine.library.seams import Embedder
from engine.library.windows import WINDOW_CHUNKS

# The job can be stopped at least this often, even if nothing happens.
_PATIENCE_SECONDS = 0.2
# One commit writes the rows of at most this many chunks, or of one document.
_CHUNKS_PER_COMMIT = 2048


class Flow:
    """The stages of one job, for as long as the `with` block lasts."""

    def __init__(
        self,
        documents: Sequence[Document],
        read: Callable[[Document], Outcome],
        enough: threading.Event,
        embedder: Embedder,
        recorder: Recorder,
        num_readers: int,
        note: Callable[[Sequence[Document]], None],
    ) -> None:
        """Connects the stages.

        `read` returns the outcome of a document; `enough` tells it to give up. `note` receives documents before they
        are read.
        """
        self._changed = threading.Condition(threading.RLock())
        self._ahead = ReadAhead(documents, read, enough, num_readers, self._changed, note)
        self._stage = EmbeddingStage(embedder, self._changed)
        self._recorder = recorder
        self._is_read = False
        self._urgent: frozenset[int] = frozenset()
        self._stack = ExitStack()

    def __enter__(self) -> Flow:
        self._stack.enter_context(self._stage)
        self._stack.enter_context(self._ahead)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def hold(self, is_held: bool) -> None:
        """Stops embedding soon, or continues; reading stops by itself when enough has been read."""
        self._stage.hold(is_held)

    def hurry(self, document_ids: frozenset[int]) -> None:
        """Has these documents read and embedded before all others (from any thread)."""
        with self._changed:
            self._urgent |= document_ids
            self._ahead.hurry(document_ids)
            self._stage.hurry(document_ids)

    def run(self, work: Work) -> Steps:
        """Carries documents through until all are done. Raises the error with which a stage ended."""
        try:
            while not (self._is_read and self._stage.is_empty):
                self._wait()
                self._take_read(work)
                yield work.progress()
                self._record(work)
                yield work.progress()
        except Cancelled:
            self._stage.close()
            # Writing complete documents takes a moment, and saves embedding them again.
            while self._record(work):
                pass
            raise

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stage.has_news or self._wants_read, _PATIENCE_SECONDS)

    @property
    def _wants_read(self) -> bool:
        """Whether to take documents that were read; the caller holds the lock."""
        if self._is_read or not self._ahead.has_news:
            return False
        if self._ahead.has_urgent and self._stage.has_urgent_room:
            return True
        return self._stage.has_room and (self._stage.is_short or self._ahead.has_gathered)

    def _take_read(self, work: Work) -> None:
        """Passes documents that were read to the embedder, or records them if there is nothing to embed."""
        with self._changed:
            if not self._wants_read:
                return
        outcomes = self._ahead.take(WINDOW_CHUNKS, 0.0)
        if outcomes is None:
            self._is_read = True
            return
        work.go_on_with(outcomes)
        ready = self._recorder.settle(outcomes, work)
        stored = self._recorder.vectors_known(ready)
        for one in ready:
            self._stage.put(one, stored, is_urgent=one.document.document_id in self._urgent)

    def _record(self, work: Work) -> bool:
        """Writes complete documents; returns whether there were any."""
        for ready, num_chunks in self._stage.advanced():
            work.at(ready, num_chunks)
        complete = self._stage.take(_CHUNKS_PER_COMMIT)
        if complete:
            self._recorder.write(complete, work)
            self._stage.release(complete)
        return bool(complete)
