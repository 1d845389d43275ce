"""Moving the library to another embedding model: document by document, from the text that is stored already.

No file is read again. The current table answers meanwhile and takes new documents. A document counts as moved once its
rows are durable in the next table, so a kill loses only the few that were being embedded.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.catalog import Catalog
from engine.core import Document
from engine.errors import Cancelled
from engine.events import IndexProgressed
from engine.library.chunker import indexed_text
from engine.library.pace import Before, Clock, Pace
from engine.library.recording import tidy_up_if_there_is_room, tidy_up_in_passing
from engine.library.rows import content_key
from engine.library.seams import Embedder, Table
from engine.library.windows import PORTION_CHUNKS, WINDOW_CHUNKS, longest_first
from engine.memory.heap import trim_heap
from engine.partitions.rows import ChunkRow, Vectors

log = logging.getLogger(__name__)

_DOCUMENTS_PER_COMMIT = 64


@dataclass(slots=True, eq=False)
class AtHand:
    """The current batch of a move and its vectors so far, kept because other jobs interrupt the move again and again.

    The next mover of the same model continues with it, so that a huge document gets done in a busy library.
    """

    identity: str = ""
    document_ids: tuple[int, ...] = ()
    vectors: dict[str, Vectors] = field(default_factory=dict)

    def drop(self) -> None:
        self.document_ids, self.vectors = (), {}


class Mover:
    """One turn of a move, on the index thread. It may stop at each step, and documents may change between two steps."""

    def __init__(
        self,
        catalog: Catalog,
        source: Table,
        embedder: Embedder,
        target: Table,
        clock: Clock = time.monotonic,
        at_hand: AtHand | None = None,
    ) -> None:
        """Prepares a turn. `at_hand` holds what the last turn left, and receives what this one leaves."""
        self._catalog, self._source, self._embedder, self._target = catalog, source, embedder, target
        self._clock = clock
        self._at_hand = at_hand or AtHand()
        if self._at_hand.identity != embedder.identity:
            self._at_hand.drop()
            self._at_hand.identity = embedder.identity

    def run(self, cancelled: threading.Event) -> Generator[IndexProgressed, None, None]:
        """Moves all documents, and leaves nothing in the next table that is not in the library.

        Raises:
            Cancelled: Moved documents stay moved.
            DiskFull: Likewise.
            RagdollError: Likewise, for another reason.
        """
        pace = self._pace()
        self._agree()
        yield from pace.timed(self._batches(pace, cancelled))
        drop_removed(self._catalog, self._target)
        # If it fails for want of room: the old table is dropped next, which frees the most.
        tidy_up_if_there_is_room(self._target)

    def _agree(self) -> None:
        """Drops removed documents from the next table, and marks documents that it has lost to be moved again."""
        drop_removed(self._catalog, self._target)
        if self._target.went_back_to_ns is None:
            lost = self._catalog.ids_moved() - self._target.document_ids()
        else:
            # It may have old versions of the others.
            lost = self._catalog.ids_moved()
        if lost:
            log.warning("the next table has lost documents, which are moved once more: %d", len(lost))
            self._catalog.mark_unmoved(lost)
        self._target.forget_loss()

    def _pace(self) -> Pace:
        moved, total = self._catalog.moved()
        waiting = self._catalog.documents_by_id(self._catalog.ids_to_move(-1)).values()
        return Pace.of(waiting, self._clock, Before(documents=total - len(waiting) if moved else 0))

    def _batches(self, pace: Pace, cancelled: threading.Event) -> Iterator[IndexProgressed]:
        while document_ids := self._next_ids():
            rows = self._some_rows(document_ids)
            self._at_hand.document_ids = tuple(rows)
            documents = self._catalog.documents_by_id(rows)
            for _ in self._embedded(rows):
                if cancelled.is_set():
                    raise Cancelled("Moving to another embedding model was stopped.")
                yield pace.progress(next(iter(documents.values())).path)
            self._write(documents, rows, self._at_hand.vectors, pace)
            self._at_hand.drop()
            trim_heap()

    def _next_ids(self) -> Sequence[int]:
        """Returns the documents at hand that still exist; otherwise the next ones that have not been moved."""
        known = self._catalog.documents_by_id(self._at_hand.document_ids)
        begun = [one for one in self._at_hand.document_ids if one in known and known[one].embedder]
        return begun or self._catalog.ids_to_move(_DOCUMENTS_PER_COMMIT)

    def _some_rows(self, document_ids: Sequence[int]) -> dict[int, list[ChunkRow]]:
        """Returns the rows of the first documents: about a window of rows, of at least one document."""
        found: dict[int, list[ChunkRow]] = {}
        for document_id in document_ids:
            found[document_id] = self._source.rows_of(document_id)
            if sum(map(len, found.values())) >= WINDOW_CHUNKS:
                break
        return found

    def _embedded(self, rows: Mapping[int, Sequence[ChunkRow]]) -> Iterator[None]:
        """Embeds all rows, and keeps the vectors at hand. Yields after each portion: a turn completes at least one."""
        texts = {self._key(row): indexed_text(row) for of_one in rows.values() for row in of_one}
        vectors = {key: vector for key, vector in self._at_hand.vectors.items() if key in texts}
        unknown = [key for key in texts if key not in vectors]
        vectors |= self._target.vectors_by_content_key(unknown) if unknown else {}
        self._at_hand.vectors = vectors
        missing = longest_first({key: texts[key] for key in unknown if key not in vectors}, self._embedder)
        for start in range(0, len(missing), PORTION_CHUNKS):
            keys = missing[start : start + PORTION_CHUNKS]
            vectors.update(zip(keys, self._embedder.embed_documents([texts[key] for key in keys]), strict=True))
            yield
        if not missing:
            yield

    def _write(
        self,
        before: Mapping[int, Document],
        rows: Mapping[int, Sequence[ChunkRow]],
        vectors: Mapping[str, Vectors],
        pace: Pace,
    ) -> None:
        """Writes the documents that have not changed since their rows were read."""
        now = self._catalog.documents_by_id(rows)
        same = [one for one, document in before.items() if one in now and _is_same(document, now[one])]
        if same:
            self._target.put_documents({one: [self._moved(row, vectors) for row in rows[one]] for one in same})
            self._catalog.mark_moved(same)
        for one in same:
            pace.embedded(now[one], len(rows[one]), max(1, len(rows[one])))
            pace.done(now[one])
        tidy_up_in_passing(self._target)

    def _moved(self, row: ChunkRow, vectors: Mapping[str, Vectors]) -> ChunkRow:
        key = self._key(row)
        return replace(row, content_key=key, vector=vectors[key])

    def _key(self, row: ChunkRow) -> str:
        return content_key(indexed_text(row), self._embedder.identity)


def drop_removed(catalog: Catalog, target: Table) -> None:
    """Deletes documents that are no longer in the library from the table to which it moves."""
    removed = target.document_ids() - catalog.ids_with_rows()
    if removed:
        target.delete_documents(removed)


def _is_same(before: Document, now: Document) -> bool:
    return (before.content_hash, before.num_chunks, before.embedder) == (now.content_hash, now.num_chunks, now.embedder)
