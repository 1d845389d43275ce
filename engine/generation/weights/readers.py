"""The threads that read weights ahead of the cursor, and the place where the cursor waits for them.

Pieces of several stages are under way at a time, so the disk is never without a request while there is room. A read
that fails stops them all: waiting threads are notified at once, and the next pass begins by trying again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from engine.generation.weights.ring import Chunk, Ring

log = logging.getLogger(__name__)

# Pieces that are being read at a time. Fewer while a prompt is read, whose passes compute for long, left no more of the
# disk or the processor to others (bench `oversubscribed`): the ring is full most of that time anyway.
READS_AT_ONCE = 4

# Reads one piece of a stage into its place.
ReadChunk = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class ReadCounters:
    """Totals since the stream was made; `reading_seconds` are those in which anything was being read."""

    read_bytes: int = 0
    reading_seconds: float = 0.0
    waited_seconds: float = 0.0
    num_failed: int = 0


class Readers:
    """Runs from the start to `close`. The cursor's thread calls `advance` and `wait_for`, the owner all else."""

    def __init__(self, ring: Ring, read: ReadChunk, num_at_once: int, patience_seconds: float) -> None:
        """Starts the threads; they find nothing to do until the ring is arranged.

        Args:
            ring: Used by this object only.
            read: Given a stage and the number of a piece; returns its bytes. Whatever it raises is a failed read.
            num_at_once: The most pieces being read at a time.
            patience_seconds: How long a pass waits for one stage before it is given up.
        """
        self._ring, self._read, self._num_at_once, self._patience_seconds = ring, read, num_at_once, patience_seconds
        self._lock = threading.Lock()
        self._room, self._arrival = threading.Condition(self._lock), threading.Condition(self._lock)
        self._error: OSError | None = None
        self._is_paused = self._is_held = self._is_closed = False
        self._counters, self._reading_since = ReadCounters(), 0.0
        names = [f"weights-{number}" for number in range(num_at_once)]
        self._threads = [threading.Thread(target=self._run, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    @property
    def error(self) -> OSError | None:
        """Why reading has stopped, if it has."""
        with self._lock:
            return self._error

    def counters(self) -> ReadCounters:
        with self._lock:
            return self._counters if self._ring.is_quiet else self._with_what_is_read(self._counters)

    def are_there(self, stages: Sequence[int]) -> list[bool]:
        """For each stage, whether it can be computed now."""
        with self._lock:
            return [self._ring.is_there(stage) for stage in stages]

    # --- for the cursor ---

    def advance(self, stage: int, ends_pass: bool) -> None:
        """A stage was computed; with the last that matters, the pass is over as far as reading goes."""
        with self._lock:
            if ends_pass:
                self._ring.end_pass()
            else:
                self._ring.advance(stage)
            self._room.notify_all()

    def wait_for(self, stage: int) -> bool:
        """Waits until a stage is there; False where it could not be read, or takes too long."""
        with self._lock:
            if self._ring.is_there(stage):
                return True
            since = time.perf_counter()
            self._arrival.wait_for(
                lambda: self._ring.is_there(stage) or self._error is not None or self._is_closed,
                self._patience_seconds,
            )
            waited = self._counters.waited_seconds + time.perf_counter() - since
            self._counters = replace(self._counters, waited_seconds=waited)
            return self._ring.is_there(stage)

    # --- for the owner, between passes ---

    def begin(self) -> None:
        """A decode begins: after a failure, everything is tried again.

        Reads that were under way as one failed belong to that try, and end first: else one of them could fail the new
        one too. Where one does not return in time, this decode fails with the earlier error.
        """
        with self._lock:
            if self._error is not None and self._await_quiet():
                self._error = None
                self._ring.rewind()
            self._room.notify_all()

    def rewind(self) -> None:
        """The pass was not finished as it should have been; the next begins from the start."""
        with self._lock:
            self._ring.rewind()
            self._room.notify_all()

    @contextmanager
    def still(self) -> Iterator[bool]:
        """Pauses reading meanwhile. Yields False where a read under way did not end in time."""
        with self._lock:
            self._is_paused = True
            is_quiet = self._await_quiet()
        try:
            yield is_quiet
        finally:
            with self._lock:
                self._is_paused = False
                self._room.notify_all()

    def arrange(self, places: Mapping[int, Hashable]) -> None:
        """Sets where stages are to lie; only while all is still."""
        with self._lock:
            self._ring.arrange(places)

    def hold(self, slots: Collection[Hashable]) -> None:
        """Stops reading until `let_go`, and drops what these places held; only while all is still."""
        with self._lock:
            self._is_held = True
            self._ring.lose_all(slots)

    def let_go(self) -> None:
        """Reads again what the next pass needs; harmless where nothing was held."""
        with self._lock:
            self._is_held = False
            self._room.notify_all()

    def close(self) -> None:
        """Ends the threads; waits for reads under way, as long as a pass would."""
        with self._lock:
            self._is_closed = True
            self._room.notify_all()
            self._arrival.notify_all()
        deadline = time.monotonic() + self._patience_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def is_running(self) -> bool:
        """Whether a thread is still running: after `close`, only one whose read does not return."""
        return any(thread.is_alive() for thread in self._threads)

    # --- the threads ---

    def _run(self) -> None:
        while (chunk := self._next()) is not None:
            num_bytes, error = 0, None
            try:
                num_bytes = self._read(chunk.stage, chunk.index)
            except Exception as failure:  # noqa: BLE001 - the edge of the thread: a pass would wait in vain
                error = _of_reading(failure)
            self._note(chunk, num_bytes, error)

    def _next(self) -> Chunk | None:
        with self._lock:
            while not self._is_closed:
                chunk = self._take()
                if chunk is not None:
                    return chunk
                self._room.wait()
            return None

    def _take(self) -> Chunk | None:
        if self._is_paused or self._is_held or self._error is not None:
            return None
        was_quiet, chunk = self._ring.is_quiet, self._ring.take()
        if was_quiet and chunk is not None:
            self._reading_since = time.perf_counter()
        return chunk

    def _note(self, chunk: Chunk, num_bytes: int, error: OSError | None) -> None:
        with self._lock:
            if error is None:
                self._counters = replace(self._counters, read_bytes=self._counters.read_bytes + num_bytes)
                is_whole = self._ring.put(chunk)
            else:
                self._ring.lose(chunk)
                self._error = error
                self._counters = replace(self._counters, num_failed=self._counters.num_failed + 1)
                log.warning("Stage %d could not be read: %s", chunk.stage, error)
            if self._ring.is_quiet:
                self._counters = self._with_what_is_read(self._counters)
            if self._error is not None or is_whole or self._is_paused:
                self._arrival.notify_all()
            self._room.notify()

    def _await_quiet(self) -> bool:
        """Waits until nothing is read, with the lock held and no reads to begin; False where that takes too long."""
        return self._arrival.wait_for(lambda: self._ring.is_quiet, self._patience_seconds)

    def _with_what_is_read(self, counters: ReadCounters) -> ReadCounters:
        """The counters with the time since the disk was last without a request."""
        return replace(counters, reading_seconds=counters.reading_seconds + time.perf_counter() - self._reading_since)


def _of_reading(failure: Exception) -> OSError:
    """Why a piece could not be read, whatever went wrong."""
    if isinstance(failure, OSError):
        return failure
    return OSError(f"{type(failure).__name__}: {failure}")
