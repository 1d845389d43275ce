"""Recording: outcomes become rows in the table and states in the catalogue, in an order that survives a kill.

A document's rows become durable in one commit; only then the catalogue marks it as indexed. Before rows are replaced,
its known content is cleared. Rows are deleted before a document is marked as skipped or failed; if the file is
unchanged, they stay even if reading it again fails. `reconcile` repairs what a kill left in between.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field

from engine.catalog import Catalog
from engine.core import Document
from engine.errors import Cancelled, DiskFull, DocumentUnreadable, ParserGaveUp
from engine.events import IndexProgressed
from engine.library.changes import is_as_noted
from engine.library.embedding import Embedded
from engine.library.pace import Pace
from engine.library.reading import Outcome, OutOfReach, Postponed, Ready, Same, Unreadable, Vanished
from engine.library.rows import CHUNKS_PER_SHARD, rows
from engine.library.scanner import look_at
from engine.library.seams import Stores, Table
from engine.library.tally import Tally
from engine.partitions.rows import Vectors

log = logging.getLogger(__name__)

CRASHED = "The engine ended unexpectedly while this file alone was being read, twice in a row."
# The longest time that a file is expected to wait between its last change and being read.
_LONGEST_WAIT_NS = 24 * 3600 * 10**9
TRY_AGAIN = "It is set aside until it changes or you add it again."
KEPT_AS_READ = "Reading it again failed, so what was read of it before is kept."
VANISHED = "It vanished while its folder was being indexed."

Steps = Generator[IndexProgressed, None, None]


@dataclass(slots=True)
class Work:
    """The counts and the progress of a running job; `left` are the documents that it has not finished."""

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
        """Notes how many chunks of a document have their vector."""
        self.current = ready.document.path
        self.pace.embedded(ready.document, num_chunks, len(ready.keys))

    def finished(self, ready: Ready) -> None:
        self.at(ready, len(ready.keys))
        self.done(ready.document)

    def done(self, document: Document) -> None:
        self.left.discard(document.document_id)
        self.pace.done(document)

    def progress(self) -> IndexProgressed:
        """Returns the job's progress. Raises Cancelled if it was cancelled."""
        if self.cancelled.is_set():
            raise Cancelled("Indexing was cancelled.")
        return self.pace.progress(self.current)


class Recorder:
    """Writes the outcomes of documents, and knows which documents have rows."""

    def __init__(self, catalog: Catalog, stores: Stores) -> None:
        self._catalog, self._embedder, self._table = catalog, stores.embedder, stores.table
        self._stored = self._table.document_ids()

    def has_rows(self, document_ids: Iterable[int]) -> bool:
        """Returns whether any of these documents have rows."""
        return not self._stored.isdisjoint(document_ids)

    def reconcile(self) -> None:
        """Makes catalogue and table consistent after a kill: no orphaned row, no document without its rows.

        Rows of a pending document stay: they are a whole document (its last version, or one that was about to be
        marked as indexed), and their vectors are reused when it is read again.
        """
        self._take_over_what_was_set_aside()
        self._set_aside(self._catalog.judge_crashes())
        if self._table.went_back_to_ns is not None:
            # Their rows may be of a previous version, and nothing in them tells.
            since_ns = self._table.went_back_to_ns - _LONGEST_WAIT_NS
            doubted = self._catalog.ids_with_rows_since(since_ns)
            # For files that cannot be read now, or ever again, old rows are better than none.
            kept = self._absent(doubted) & self._stored
            self._catalog.mark_pending(kept, forget_content=True)
            self._catalog.mark_lost(doubted - kept)
            self._table.forget_loss()
        self._catalog.meet_strangers(self._unknown())
        self.agree(may_be_hurried=True)

    def agree(self, *, may_be_hurried: bool = False) -> None:
        """Deletes orphaned rows and marks documents without rows as lost, as after a full disk.

        `may_be_hurried`: a user may have removed documents that still have rows, so their text must be deleted soon.
        """
        orphans, lost = self._unknown(), self._catalog.ids_with_rows() - self._stored
        # The vectors of a lost catalogue's rows are reused until its folders have been read again.
        orphans -= self._catalog.strangers_among(orphans)
        if orphans or lost:
            log.info("reconciled: rows of %d documents dropped, %d documents to read again", len(orphans), len(lost))
        if orphans and may_be_hurried:
            self._table.forget_soon()
        self.delete_rows(orphans)
        self._catalog.mark_lost(lost)

    def _take_over_what_was_set_aside(self) -> None:
        """Takes over the readable documents of a damaged table, so that their files need not be read again.

        Some could not be read again: their files are out of reach, or gone while the user keeps the document.
        """
        lost = self._catalog.ids_with_rows() - self._stored
        if not lost:
            return
        num_rows = {one.document_id: one.num_chunks for one in self._catalog.documents_by_id(lost).values()}
        for documents in self._table.rows_set_aside(num_rows):
            self._table.put_documents(documents)
            self._stored.update(documents)
        if taken := lost & self._stored:
            log.info("%d documents were taken over from a table that was set aside", len(taken))

    def _absent(self, document_ids: Collection[int]) -> set[int]:
        documents = self._catalog.documents_by_id(document_ids)
        return {one.document_id for one in documents.values() if one.state == "offline"}

    def let_strangers_go(self) -> None:
        """Drops the rows of a lost catalogue, once folders have been added and all their files have been read."""
        if self._catalog.is_beginning and self._is_all_read():
            self._catalog.end_beginning()
            self.agree()

    def _is_all_read(self) -> bool:
        roots = self._catalog.roots()
        are_seen = bool(roots) and all(root.is_surveyed and not root.absence for root in roots)
        return are_seen and not self._catalog.ids_to_read()

    def _unknown(self) -> set[int]:
        """Returns the ids that have rows but belong to no document."""
        return self._stored - self._catalog.ids_with_rows() - self._catalog.ids_to_read()

    def _set_aside(self, convicted: Collection[int]) -> None:
        if convicted:
            log.info("%d documents ended the engine twice in a row and are set aside", len(convicted))
        documents = self._catalog.documents_by_id(convicted)
        kept = {
            document_id
            for document_id, document in documents.items()
            if self._has_all_of(document) and _may_be_as_it_was(document)
        }
        self.delete_rows(documents.keys() - kept)
        with self._catalog.transaction():
            for document_id in documents:
                if document_id in kept:
                    self._catalog.mark_kept(document_id, f"{KEPT_AS_READ} {CRASHED}")
                else:
                    self._catalog.mark_unreadable(document_id, ParserGaveUp(CRASHED, TRY_AGAIN))

    def _has_all_of(self, document: Document) -> bool:
        """Returns whether a document has rows, according to both catalogue and table."""
        return bool(document.embedder) and document.document_id in self._stored

    def settle(self, outcomes: Sequence[Outcome], work: Work) -> list[Ready]:
        """Records all outcomes that need no embedding, and returns the rest."""
        known = self._catalog.paths_of(outcome.document.document_id for outcome in outcomes)
        current = [outcome for outcome in outcomes if outcome.document.document_id in known]
        unreadable = [outcome for outcome in current if isinstance(outcome, Unreadable)]
        kept = self._failures_to_keep_through(unreadable)
        self.delete_rows({outcome.document.document_id for outcome in unreadable} - kept)
        with self._catalog.transaction():
            for outcome in current:
                if isinstance(outcome, Unreadable) and outcome.document.document_id in kept:
                    self._keep(outcome, work.tally)
                else:
                    self._note(outcome, work.tally)
            # Reading them did not crash the engine; a crash while embedding is not the fault of single documents.
            self._catalog.clear_begun(outcome.document.document_id for outcome in current)
        ready = [outcome for outcome in current if isinstance(outcome, Ready)]
        work.postponed += [outcome.document for outcome in current if isinstance(outcome, Postponed)]
        not_done = {one.document.document_id for one in current if isinstance(one, Ready | Postponed)}
        for outcome in outcomes:
            if outcome.document.document_id not in not_done:
                work.done(outcome.document)
        return ready

    def _failures_to_keep_through(self, outcomes: Sequence[Unreadable]) -> set[int]:
        """Returns the ids of failed documents whose files are unchanged since they were read: their rows are correct.

        They were read again on request, for example for their scans, and the parser gave up or lacked the password.
        """
        documents = self._catalog.documents_by_id(outcome.document.document_id for outcome in outcomes)
        return {
            document.document_id
            for outcome in outcomes
            for document in [documents.get(outcome.document.document_id)]
            if document is not None and self._has_all_of(document) and _says_nothing_new(document, outcome)
        }

    def _keep(self, outcome: Unreadable, tally: Tally) -> None:
        told = DocumentUnreadable(f"{KEPT_AS_READ} {outcome.error.sentence}", outcome.error.way_out)
        self._catalog.mark_kept(
            outcome.document.document_id, str(told), outcome.error.need, content_hash=outcome.content_hash
        )
        tally.failed.append((outcome.document.path, str(told)))

    def _note(self, outcome: Outcome, tally: Tally) -> None:
        document_id = outcome.document.document_id
        if isinstance(outcome, Same):
            self._catalog.mark_unchanged(document_id, outcome.file)
            tally.unchanged += 1
        elif isinstance(outcome, Unreadable):
            self._catalog.mark_unreadable(document_id, outcome.error, outcome.file, outcome.content_hash)
            tally.unreadable(outcome)
        elif isinstance(outcome, Vanished):
            # Offline and not removed, because the whole drive may be gone. The next look at the folder decides.
            self._catalog.mark_offline([document_id], VANISHED)
            tally.out_of_reach(outcome.document, VANISHED)
        elif isinstance(outcome, OutOfReach):
            self._catalog.mark_offline([document_id], outcome.reason)
            tally.out_of_reach(outcome.document, outcome.reason)

    def vectors_known(self, batch: Sequence[Ready]) -> dict[str, Vectors]:
        """Returns the stored vectors for chunks of the batch, by content key."""
        keys = {key for ready in batch for key in ready.keys}
        return self._table.vectors_by_content_key(keys) if keys else {}

    def write(self, complete: Sequence[Embedded], work: Work) -> None:
        """Writes rows first, then the catalogue. Documents that were removed meanwhile are dropped."""
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
        """Returns the shard of each document, by order of arrival; a document is never spread over two."""
        arrived, shards = self._catalog.num_chunks_arrived(), list[int]()
        for ready in documents:
            shards.append(arrived // CHUNKS_PER_SHARD)
            arrived += len(ready.keys)
        return shards

    def _doubt(self, document_ids: Iterable[int]) -> None:
        """Clears the known content of documents whose rows are about to be replaced.

        Otherwise, after a kill in between, a file that was put back meanwhile would seem to match the new rows.
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
        """Deletes the rows of documents; the table itself checks that none is left."""
        stored = self._stored.intersection(document_ids)
        if stored:
            self._table.delete_documents(stored)
            self._stored -= stored


def _says_nothing_new(document: Document, outcome: Unreadable) -> bool:
    """Returns whether reading failed for the same content that was read before."""
    is_failure = outcome.error.state == "failed" or outcome.error.need == "password"
    if outcome.file is None or not is_failure:
        return False
    hashes = {document.content_hash, outcome.content_hash} - {""}
    return is_as_noted(document, outcome.file) and len(hashes) < 2


def _may_be_as_it_was(document: Document) -> bool:
    """Returns whether the file may be unchanged since it was read; a file out of reach may be."""
    try:
        return is_as_noted(document, look_at(document.path))
    except OSError as error:
        # An error without a number is our own: something else than a file is at the path.
        return bool(error.errno)


def tidy_up_in_passing(table: Table) -> None:
    """Compacts the table during a run. If there is no room for that, the run may still have room to write."""
    if table.is_optimize_due(more_comes=True):
        tidy_up_if_there_is_room(table)


def tidy_up_if_there_is_room(table: Table) -> None:
    """Compacts the table, or leaves it: everything is found anyway, and a write that fails reports a full disk."""
    try:
        table.optimize()
    except DiskFull as error:
        log.info("the index is tidied up later: %s", error)
