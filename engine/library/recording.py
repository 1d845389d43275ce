"""Recording: outcomes become rows in the table and states in the catalogue, in the order that survives a kill.

A document's rows become durable in one commit, and only then the catalogue calls it indexed; before they replace
others, no content is known of it. Its rows are gone before it is called skipped or failed. `reconcile` mends what a
kill left in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field

from engine.catalog import Catalog
from engine.core import Document
from engine.errors import Cancelled, DiskFull, ParserGaveUp
from engine.events import IndexProgressed
from engine.library.embedding import Embedded
from engine.library.pace import Pace
from engine.library.reading import Outcome, OutOfReach, Postponed, Ready, Same, Unreadable, Vanished
from engine.library.rows import CHUNKS_PER_SHARD, rows
from engine.library.seams import Stores, Table
from engine.library.tally import Tally
from engine.partitions.rows import Vectors

log = logging.getLogger(__name__)

CRASHED = "The engine ended unexpectedly while this file alone was being read, twice in a row."
# A file may have waited so long between its last change and being read.
_LONGEST_WAIT_NS = 24 * 3600 * 10**9
TRY_AGAIN = "It is set aside until it changes or you add it again."
VANISHED = "It vanished while its folder was being indexed."

Steps = Generator[IndexProgressed, None, None]


@dataclass(slots=True)
class Work:
    """What a running job counts, and where it is; `left` are the documents that it is not done with."""

    tally: Tally
    pace: Pace
    cancelled: threading.Event
    left: set[int] = field(default_factory=set)
    postponed: list[Document] = field(default_factory=list)
    current: str = field(default="")

    def go_on_with(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            self.current = outcomes[0].document.path

    def at(self, ready: Ready, num_chunks: int) -> None:
        """A document has so many of its vectors."""
        self.current = ready.document.path
        self.pace.embedded(ready.document, num_chunks, len(ready.keys))

    def finished(self, ready: Ready) -> None:
        self.at(ready, len(ready.keys))
        self.done(ready.document)

    def done(self, document: Document) -> None:
        self.left.discard(document.document_id)
        self.pace.done(document)

    def progress(self) -> IndexProgressed:
        """Where the job is. Raises Cancelled when nobody wants it any more."""
        if self.cancelled.is_set():
            raise Cancelled("Indexing was cancelled.")
        return self.pace.progress(self.current)


class Recorder:
    """Writes what became of documents; the one that knows which of them have rows."""

    def __init__(self, catalog: Catalog, stores: Stores) -> None:
        self._catalog, self._embedder, self._table = catalog, stores.embedder, stores.table
        self._stored = self._table.document_ids()

    def has_rows(self, document_ids: Iterable[int]) -> bool:
        """Whether any of these have rows."""
        return not self._stored.isdisjoint(document_ids)

    def reconcile(self) -> None:
        """Makes catalogue and table agree after a kill: no orphaned row, no document without its rows.

        Rows of a pending document stay: they are a whole document (its last version, or the one that was about to
        be called indexed), and lend their vectors when it is read again.
        """
        self._set_aside(self._catalog.judge_crashes())
        if self._table.went_back_to_ns is not None:
            # Their rows may be those of the version before, which nobody can tell from them.
            since_ns = self._table.went_back_to_ns - _LONGEST_WAIT_NS
            self._catalog.mark_lost(self._catalog.ids_with_rows_since(since_ns))
            self._table.forget_loss()
        self.agree(may_be_hurried=True)

    def agree(self, *, may_be_hurried: bool = False) -> None:
        """The same for what a full disk left, which kept rows from being deleted, say.

        `may_be_hurried`: a person may have removed what has rows still, and waits for it to leave the disk.
        """
        claimed, pending = self._catalog.ids_with_rows(), self._catalog.ids_to_read()
        orphans, lost = self._stored - claimed - pending, claimed - self._stored
        if orphans or lost:
            log.info("reconciled: rows of %d documents dropped, %d documents to read again", len(orphans), len(lost))
        if orphans and may_be_hurried:
            self._table.forget_soon()
        self.delete_rows(orphans)
        self._catalog.mark_lost(lost)

    def _set_aside(self, convicted: Collection[int]) -> None:
        if convicted:
            log.info("%d documents ended the engine twice in a row and are set aside", len(convicted))
        self.delete_rows(convicted)
        with self._catalog.transaction():
            for document_id in convicted:
                self._catalog.mark_unreadable(document_id, ParserGaveUp(CRASHED, TRY_AGAIN))

    def settle(self, outcomes: Sequence[Outcome], work: Work) -> list[Ready]:
        """Deals with all that needs no embedding, and returns the rest."""
        known = self._catalog.paths_of(outcome.document.document_id for outcome in outcomes)
        current = [outcome for outcome in outcomes if outcome.document.document_id in known]
        self.delete_rows(outcome.document.document_id for outcome in current if isinstance(outcome, Unreadable))
        with self._catalog.transaction():
            for outcome in current:
                self._note(outcome, work.tally)
            # Reading did not end the engine; what embedding takes, it takes from all documents together.
            self._catalog.clear_begun(outcome.document.document_id for outcome in current)
        ready = [outcome for outcome in current if isinstance(outcome, Ready)]
        work.postponed += [outcome.document for outcome in current if isinstance(outcome, Postponed)]
        not_done = {one.document.document_id for one in current if isinstance(one, Ready | Postponed)}
        for outcome in outcomes:
            if outcome.document.document_id not in not_done:
                work.done(outcome.document)
        return ready

    def _note(self, outcome: Outcome, tally: Tally) -> None:
        document_id = outcome.document.document_id
        if isinstance(outcome, Same):
            self._catalog.mark_unchanged(document_id, outcome.file)
            tally.unchanged += 1
        elif isinstance(outcome, Unreadable):
            self._catalog.mark_unreadable(document_id, outcome.error, outcome.file, outcome.content_hash)
            tally.unreadable(outcome)
        elif isinstance(outcome, Vanished):
            # Offline, not removed: it may be the whole drive that has gone. The next look at the folder will tell.
            self._catalog.mark_offline([document_id], VANISHED)
            tally.out_of_reach(outcome.document, VANISHED)
        elif isinstance(outcome, OutOfReach):
            self._catalog.mark_offline([document_id], outcome.reason)
            tally.out_of_reach(outcome.document, outcome.reason)

    def vectors_known(self, batch: Sequence[Ready]) -> dict[str, Vectors]:
        """Those vectors of the batch that are stored already, by content key."""
        keys = {key for ready in batch for key in ready.keys}
        return self._table.vectors_by_content_key(keys) if keys else {}

    def write(self, complete: Sequence[Embedded], work: Work) -> None:
        """Rows first, then the catalogue. Documents that were removed meanwhile are dropped."""
        known = self._catalog.paths_of(one.ready.document.document_id for one in complete)
        wanted = [one for one in complete if one.ready.document.document_id in known]
        if wanted:
            shards = self._shards([one.ready for one in wanted])
            self._doubt(one.ready.document.document_id for one in wanted)
            self._put(wanted, shards)
            self._mark([one.ready for one in wanted], shards)
            work.tally.stored(one.ready for one in wanted)
        for one in complete:
            work.finished(one.ready)
        tidy_up_in_passing(self._table)

    def _shards(self, documents: Sequence[Ready]) -> list[int]:
        """Where each document's rows go: by arrival, and a document is never spread over two."""
        arrived, shards = self._catalog.num_chunks_arrived(), list[int]()
        for ready in documents:
            shards.append(arrived // CHUNKS_PER_SHARD)
            arrived += len(ready.keys)
        return shards

    def _doubt(self, document_ids: Iterable[int]) -> None:
        """What is stored of these is about to become another content: until that is noted, none is known of them.

        After a kill in between, a file that was put back meanwhile would pass for what its rows say.
        """
        changing = self._stored.intersection(document_ids)
        if changing:
            self._catalog.mark_pending(changing, forget_content=True)

    def _put(self, documents: Sequence[Embedded], shards: Sequence[int]) -> None:
        by_document = {
            ready.document.document_id: rows(ready.document.document_id, ready.read, ready.keys, one.vectors, shard)
            for one, shard in zip(documents, shards, strict=True)
            for ready in [one.ready]
        }
        self._table.put_documents(by_document)
        self._stored.update(by_document)

    def _mark(self, documents: Sequence[Ready], shards: Sequence[int]) -> None:
        identity = self._embedder.identity
        with self._catalog.transaction():
            for ready, shard in zip(documents, shards, strict=True):
                self._catalog.mark_indexed(
                    ready.document.document_id, ready.file, ready.content_hash, ready.read, identity, shard
                )

    def delete_rows(self, document_ids: Iterable[int]) -> None:
        """The table itself looks that none is left."""
        stored = self._stored.intersection(document_ids)
        if stored:
            self._table.delete_documents(stored)
            self._stored -= stored


def tidy_up_in_passing(table: Table) -> None:
    """In the midst of a run. Where there is no room for that, there may well be for what the run writes."""
    if table.is_optimize_due(more_comes=True):
        tidy_up_if_there_is_room(table)


def tidy_up_if_there_is_room(table: Table) -> None:
    """What was written can be found anyhow, and a full disk is told of where something was not written."""
    try:
        table.optimize()
    except DiskFull as error:
        log.info("the index is tidied up later: %s", error)
