"""Indexer: the job that turns pending documents into searchable ones, safe to be killed at any point.

The order is what makes it safe: a document's rows become durable in one commit, and only then the catalogue
calls it indexed; rows are gone before it calls a document skipped or failed; and a removed document leaves the
catalogue first, without which its rows cannot be cited. `reconcile` mends what a kill left in between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engine.catalog import Catalog, Root
from engine.config import LibrarySettings
from engine.core import Document
from engine.errors import Cancelled, NothingThere
from engine.events import IndexFinished, IndexProgressed
from engine.library.changes import is_below
from engine.library.pace import Clock, Pace
from engine.library.read_ahead import ReadAhead
from engine.library.reading import FileReader, Outcome, Ready, Same, Unreadable, Vanished
from engine.library.rows import CHUNKS_PER_SHARD, rows, texts_by_key
from engine.library.seams import Parser, Stores
from engine.library.survey import SurveyReport, survey
from engine.library.tally import Tally
from engine.partitions.rows import Vectors

log = logging.getLogger(__name__)

# Chunks of like length waste no padding: sorting this many is 36 % faster than taking them as they come …
CHUNKS_PER_BATCH = 256
# … and between so many there is a place to stop, every second or two.
CHUNKS_PER_STEP = 64
VANISHED = "It vanished while its folder was being indexed."
# How long nothing may happen before the job offers a place to stop.
_PATIENCE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class IndexRoots:
    """Look at these roots (None: at all), and index what is new or changed.

    `retry` reads again what failed before, as when the user asks for a folder a second time.
    """

    paths: tuple[str, ...] | None
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Reindex:
    """Read these documents again, or all below these folders, whatever became of them before."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with what an earlier run left undone: roots that it had not looked at yet, and pending documents."""

    paths: tuple[str, ...] = ()


Job = IndexRoots | Reindex | Resume
Steps = Generator[IndexProgressed, None, None]


class Indexer:
    """Carries out one job at a time, on the thread that owns the catalogue's documents."""

    def __init__(
        self,
        catalog: Catalog,
        stores: Stores,
        parser: Parser,
        settings: Callable[[], LibrarySettings],
        clock: Clock = time.monotonic,
    ) -> None:
        self._catalog, self._parser, self._settings, self._clock = catalog, parser, settings, clock
        self._embedder, self._table = stores.embedder, stores.table
        self._stored = self._table.document_ids()

    def reconcile(self) -> None:
        """Makes catalogue and table agree after a kill: no orphaned row, no document without its rows.

        Rows of a pending document stay: they are a whole document (its last version, or the one that was about to
        be called indexed), and lend their vectors when it is read again.
        """
        claimed, pending = self._catalog.ids_with_rows(), self._catalog.ids_to_read()
        orphans, lost = self._stored - claimed - pending, claimed - self._stored
        if orphans or lost:
            log.info("reconciled: rows of %d documents dropped, %d documents to read again", len(orphans), len(lost))
        self._delete_rows(orphans)
        self._catalog.mark_lost(lost)

    def run(self, job: Job, cancelled: threading.Event) -> Generator[IndexProgressed, None, IndexFinished]:
        """Carries out a job. Each yield reports, and is a place at which it may wait, be left, or be cancelled.

        Returns:
            What was done, also when `cancelled` was set on the way.

        Raises:
            DiskFull: What is indexed so far stays; the rest is pending.
            RagdollError: Something else that concerns all files; likewise.
        """
        started, tally = self._clock(), Tally()
        try:
            documents = yield from self._documents(job, tally, cancelled)
            yield from self._index(documents, tally, cancelled)
        except Cancelled:
            return tally.finished(self._clock() - started, was_cancelled=True)
        if tally.indexed or tally.removed:
            self._table.optimize()
        return tally.finished(self._clock() - started)

    def remove(self, paths: Sequence[str]) -> int:
        """Takes files and folders out of the library; returns how many documents went.

        Raises:
            NothingThere: One of the paths is not in the library; then nothing is removed.
            LibraryError: Rows could not be deleted. They cannot be cited any more all the same, and are deleted later.
        """
        outermost = [path for path in paths if not any(path != other and is_below(path, other) for other in paths)]
        with self._catalog.transaction():
            removed = frozenset[int]().union(*(self._catalog.forget(path) for path in dict.fromkeys(outermost)))
        self._delete_rows(removed)
        return len(removed)

    def remove_collection(self, name: str) -> int:
        """Deletes a collection and the documents that are in no other; returns how many. Raises as `remove`."""
        removed = self._catalog.delete_collection(name)
        self._delete_rows(removed)
        return len(removed)

    # --- what is to be read ---

    def _documents(
        self, job: Job, tally: Tally, cancelled: threading.Event
    ) -> Generator[IndexProgressed, None, tuple[Document, ...]]:
        """The pending documents of a job."""
        if isinstance(job, Reindex):
            return self._again(job.paths, tally)
        roots = [root for root in self._catalog.roots() if job.paths is None or root.path in job.paths]
        retry = isinstance(job, IndexRoots) and job.retry
        report = yield from self._survey(roots, retry, tally, cancelled)
        if isinstance(job, Resume):
            return self._catalog.documents_in_state("pending")
        return tuple(document for document in report.documents if document.state == "pending")

    def _survey(
        self, roots: Sequence[Root], retry: bool, tally: Tally, cancelled: threading.Event
    ) -> Generator[IndexProgressed, None, SurveyReport]:
        report = yield from _reported(survey(self._catalog, roots, retry=retry), cancelled)
        self._delete_rows(report.removed)
        tally.surveyed(report)
        return report

    def _again(self, paths: Sequence[str], tally: Tally) -> tuple[Document, ...]:
        """Raises NothingThere for a path without documents."""
        documents = {document.document_id: document for path in paths for document in self._known_under(path)}
        self._catalog.mark_pending(documents, forget_content=True)
        tally.skipped += [
            (document.path, document.reason) for document in documents.values() if document.state == "offline"
        ]
        now = self._catalog.documents_by_id(documents).values()
        return tuple(document for document in now if document.state == "pending")

    def _known_under(self, path: str) -> tuple[Document, ...]:
        documents = self._catalog.documents_under(path)
        if not documents:
            raise NothingThere("No document of the library lies there any more.", "Add the file or folder again.")
        return documents

    # --- from file to rows ---

    def _index(self, documents: Sequence[Document], tally: Tally, cancelled: threading.Event) -> Steps:
        if not documents:
            return
        settings, enough = self._settings(), threading.Event()
        work = _Work(tally, Pace.of(documents, self._clock), cancelled)
        reader = FileReader(self._parser, settings, self._embedder, enough)
        with ReadAhead(documents, reader, enough, settings.parser_processes) as ahead:
            yield from work.pace.timed(self._process(ahead, work))

    def _process(self, ahead: ReadAhead, work: _Work) -> Steps:
        while (outcomes := ahead.take(CHUNKS_PER_BATCH, _PATIENCE_SECONDS)) is not None:
            work.go_on_with(outcomes)
            yield work.progress()
            yield from self._embed(self._settle(outcomes, work), work)
            yield work.progress()

    def _settle(self, outcomes: Sequence[Outcome], work: _Work) -> list[Ready]:
        """Deals with all that needs no embedding, and returns the rest."""
        known = self._catalog.paths_of(outcome.document.document_id for outcome in outcomes)
        current = [outcome for outcome in outcomes if outcome.document.document_id in known]
        self._delete_rows(outcome.document.document_id for outcome in current if isinstance(outcome, Unreadable))
        with self._catalog.transaction():
            for outcome in current:
                self._note(outcome, work.tally)
        for outcome in outcomes:
            if not isinstance(outcome, Ready):
                work.pace.done(outcome.document)
        return [outcome for outcome in current if isinstance(outcome, Ready)]

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
            tally.vanished(outcome.document, VANISHED)

    def _embed(self, batch: Sequence[Ready], work: _Work) -> Steps:
        """Gives every chunk its vector, and writes each document as soon as it has all of them."""
        texts = {key: text for ready in batch for key, text in texts_by_key(ready.read, ready.keys).items()}
        vectors = self._table.vectors_by_content_key(list(texts)) if texts else {}
        waiting = deque(batch)
        self._write_complete(waiting, vectors, work)
        for keys in _steps({key: text for key, text in texts.items() if key not in vectors}):
            vectors.update(zip(keys, self._embedder.embed_documents([texts[key] for key in keys]), strict=True))
            self._write_complete(waiting, vectors, work)
            yield work.progress()

    def _write_complete(self, waiting: deque[Ready], vectors: dict[str, Vectors], work: _Work) -> None:
        complete: list[Ready] = []
        while waiting and all(key in vectors for key in waiting[0].keys):
            complete.append(waiting.popleft())
        self._write(complete, vectors, work)
        for ready in reversed(waiting):
            work.at(ready, sum(key in vectors for key in ready.keys))

    def _write(self, complete: Sequence[Ready], vectors: dict[str, Vectors], work: _Work) -> None:
        """Rows first, then the catalogue. Documents that were removed meanwhile are dropped."""
        known = self._catalog.paths_of(ready.document.document_id for ready in complete)
        wanted = [ready for ready in complete if ready.document.document_id in known]
        if wanted:
            shards = self._shards(wanted)
            self._put(wanted, shards, vectors)
            self._mark(wanted, shards)
            work.tally.stored(wanted)
        for ready in complete:
            work.finished(ready)
        if self._table.is_optimize_due():
            self._table.optimize()

    def _shards(self, documents: Sequence[Ready]) -> list[int]:
        """Where each document's rows go: by arrival, and a document is never spread over two."""
        arrived, shards = self._catalog.num_chunks_arrived(), list[int]()
        for ready in documents:
            shards.append(arrived // CHUNKS_PER_SHARD)
            arrived += len(ready.keys)
        return shards

    def _put(self, documents: Sequence[Ready], shards: Sequence[int], vectors: dict[str, Vectors]) -> None:
        by_document = {
            ready.document.document_id: rows(ready.document.document_id, ready.read, ready.keys, vectors, shard)
            for ready, shard in zip(documents, shards, strict=True)
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

    def _delete_rows(self, document_ids: Iterable[int]) -> None:
        """The table itself looks that none is left."""
        stored = self._stored.intersection(document_ids)
        if stored:
            self._table.delete_documents(stored)
            self._stored -= stored


@dataclass(slots=True)
class _Work:
    """What a running job counts, and where it is."""

    tally: Tally
    pace: Pace
    cancelled: threading.Event
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
        self.pace.done(ready.document)

    def progress(self) -> IndexProgressed:
        """Where the job is. Raises Cancelled when nobody wants it any more."""
        if self.cancelled.is_set():
            raise Cancelled("Indexing was cancelled.")
        return self.pace.progress(self.current)


def _reported(
    looking: Generator[str, None, SurveyReport], cancelled: threading.Event
) -> Generator[IndexProgressed, None, SurveyReport]:
    """A survey as steps of a job. Raises Cancelled."""
    while True:
        try:
            current = next(looking)
        except StopIteration as end:
            report: SurveyReport = end.value
            return report
        if cancelled.is_set():
            looking.close()
            raise Cancelled("Indexing was cancelled.")
        yield IndexProgressed(0, 0, 0, current, None, None)


def _steps(texts: Mapping[str, str]) -> Iterator[Sequence[str]]:
    """The keys of the texts in portions to embed: each batch in the order of length, longest first."""
    for batch in _slices(list(texts), CHUNKS_PER_BATCH):
        yield from _slices(sorted(batch, key=lambda key: len(texts[key]), reverse=True), CHUNKS_PER_STEP)


def _slices(keys: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))
