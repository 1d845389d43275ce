"""Reading ahead: the next documents are parsed while the present ones are embedded, within bounds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from types import TracebackType

from engine.core import Document
from engine.errors import LibraryError, RagdollError
from engine.library.reading import Outcome, Ready

# Bounds of what is read but not embedded: a few seconds of work for the embedder, a few megabytes of text.
MAX_CHUNKS_AHEAD = 1024
MAX_DOCUMENTS_AHEAD = 512
# Looking up stored vectors costs 10 ms for one document or for thirty, so documents are taken together, unless a
# user waits.
GATHERED_CHUNKS = 128
GATHERED_DOCUMENTS = 32
# Noting what is read next costs a transaction each time.
_DOCUMENTS_PER_NOTE = 32


class ReadAhead:
    """Threads that read documents into a bounded queue, for as long as the `with` block lasts."""

    def __init__(
        self,
        documents: Iterable[Document],
        read: Callable[[Document], Outcome],
        enough: threading.Event,
        num_threads: int = 1,
        changed: threading.Condition | None = None,
        note: Callable[[Sequence[Document]], None] = lambda documents: None,
    ) -> None:
        """Takes what to read and how.

        `enough` is set at the end; `read` should raise Cancelled soon after. `changed` is notified whenever there is
        something to take; its lock is also the queue's. `note` receives documents before they are read.
        """
        self._waiting = deque(documents)
        self._read, self._note = read, note
        self._enough = enough
        self._noted: set[int] = set()
        self._urgent: set[int] = set()
        self._outcomes: deque[Outcome] = deque()
        self._num_chunks = 0
        self._changed = changed or threading.Condition()
        self._is_closed = False
        self._fault: RagdollError | None = None
        self._threads = [
            threading.Thread(target=self._run, name=f"read-ahead-{index}", daemon=True) for index in range(num_threads)
        ]
        self._num_reading = num_threads

    def __enter__(self) -> ReadAhead:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the threads; the files that are being read are given up."""
        self._enough.set()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def hurry(self, document_ids: Collection[int]) -> None:
        """Moves these documents before all others, as far as they are still to be read or taken."""
        with self._changed:
            self._urgent.update(document_ids)
            first = [document for document in self._waiting if document.document_id in document_ids]
            rest = [document for document in self._waiting if document.document_id not in document_ids]
            self._waiting = deque([*first, *rest])
            self._outcomes = deque(sorted(self._outcomes, key=lambda outcome: not self._is_urgent(outcome)))
            self._changed.notify_all()

    @property
    def has_news(self) -> bool:
        """Whether `take` would not have to wait; the caller holds the lock of `changed`."""
        return bool(self._outcomes) or self._is_over

    @property
    def has_gathered(self) -> bool:
        """Whether enough can be taken at once not to wait for more; the caller holds the lock of `changed`."""
        return self._is_over or self._num_chunks >= GATHERED_CHUNKS or len(self._outcomes) >= GATHERED_DOCUMENTS

    @property
    def has_urgent(self) -> bool:
        """Whether the next outcome is urgent; the caller holds the lock of `changed`."""
        return bool(self._outcomes) and self._is_urgent(self._outcomes[0])

    def take(self, max_chunks: int, timeout_seconds: float) -> list[Outcome] | None:
        """Takes outcomes: at least one, otherwise no more than fill `max_chunks`; None when all were taken.

        An empty list means that nothing was ready within the timeout.

        Raises:
            RagdollError: Reading stopped for a reason that concerns all files.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.has_news, timeout_seconds)
            if not self._outcomes:
                if self._fault is not None:
                    raise self._fault
                return None if self._is_over else []
            taken = self._take(max_chunks)
            self._changed.notify_all()
        return taken

    def _take(self, max_chunks: int) -> list[Outcome]:
        taken = [self._outcomes.popleft()]
        num_chunks = _num_chunks(taken[0])
        while self._outcomes and num_chunks + _num_chunks(self._outcomes[0]) <= max_chunks:
            taken.append(self._outcomes.popleft())
            num_chunks += _num_chunks(taken[-1])
        self._num_chunks -= num_chunks
        return taken

    @property
    def _is_over(self) -> bool:
        return self._num_reading == 0

    @property
    def _has_room(self) -> bool:
        num_chunks, num_documents = self._num_chunks, len(self._outcomes)
        if self._waiting and self._waiting[0].document_id in self._urgent:
            # Urgent documents have a bound of their own, so that others do not hold them up.
            urgent = [outcome for outcome in self._outcomes if self._is_urgent(outcome)]
            num_chunks, num_documents = sum(map(_num_chunks, urgent)), len(urgent)
        return num_chunks < MAX_CHUNKS_AHEAD and num_documents < MAX_DOCUMENTS_AHEAD

    def _is_urgent(self, outcome: Outcome) -> bool:
        return outcome.document.document_id in self._urgent

    def _run(self) -> None:
        try:
            while (document := self._next()) is not None:
                self._put(self._read(document))
        except RagdollError as error:
            self._close(error)
        except Exception as error:  # noqa: BLE001 - a thread's end: reported to the next caller
            self._close(LibraryError(f"Reading stopped unexpectedly: {error!r}.", "Please report it."))
        finally:
            with self._changed:
                self._num_reading -= 1
                self._changed.notify_all()

    def _next(self) -> Document | None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_room or self._is_closed)
            if self._is_closed or not self._waiting:
                return None
            document = self._waiting.popleft()
            if document.document_id in self._noted:
                return document
            together = [document, *islice(self._waiting, _DOCUMENTS_PER_NOTE - 1)]
            self._noted.update(one.document_id for one in together)
        # Without the lock: it is a transaction, and the embedding threads use the lock as well.
        self._note(together)
        return document

    def _put(self, outcome: Outcome) -> None:
        with self._changed:
            (self._outcomes.appendleft if self._is_urgent(outcome) else self._outcomes.append)(outcome)
            self._num_chunks += _num_chunks(outcome)
            self._changed.notify_all()

    def _close(self, fault: RagdollError | None) -> None:
        with self._changed:
            self._is_closed = True
            self._fault = self._fault or fault
            self._changed.notify_all()


def _num_chunks(outcome: Outcome) -> int:
    return len(outcome.keys) if isinstance(outcome, Ready) else 0
