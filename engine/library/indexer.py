"""Indexer: the job that turns pending documents into searchable ones, safe to be killed at any point.

Looking (survey), reading (in child processes, ahead of the rest) and recording (embedding, rows, states) have
modules of their own; here they become one job that can be stopped after every step.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from itertools import chain, islice
from typing import TypeVar

from engine.catalog import Catalog, Root
from engine.config import LibrarySettings
from engine.core import Document
from engine.errors import Cancelled, LibraryError, NothingThere
from engine.events import IndexFinished, IndexProgressed
from engine.library.changes import outermost, upwards
from engine.library.identities import identity_at
from engine.library.jobs import Forget, IndexRoots, Job, ReadNext, Refresh, Reindex, Resume, TooMuch
from engine.library.lately import LatelyGone
from engine.library.pace import Clock
from engine.library.recording import Recorder, tidy_up_if_there_is_room
from engine.library.reserve import Reserve
from engine.library.root_looks import seen_in_time
from engine.library.runs import Runs
from engine.library.seams import Parser, Stores
from engine.library.survey import SurveyReport, survey, survey_places
from engine.library.tally import Tally

# A job that cuts in may do this much work, some seconds; more would delay the other job too long.
_MAX_DOCUMENTS_CUTTING_IN = 32
_MAX_BYTES_CUTTING_IN = 4 * 2**20

T = TypeVar("T")
log = logging.getLogger(__name__)


class Indexer:
    """Carries out one job at a time, on the thread that owns the catalogue's documents."""

    def __init__(
        self,
        catalog: Catalog,
        stores: Stores,
        parser: Parser,
        settings: Callable[[], LibrarySettings],
        clock: Clock = time.monotonic,
        pace_clock: Clock | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        """Takes the neighbours.

        `reserve` is the room that removals and compaction may use on a full disk. `clock` measures how long a job
        took; `pace_clock`, if it is another one, its speed and remaining time.
        """
        self._reserve = reserve
        self._catalog, self._parser, self._settings, self._clock = catalog, parser, settings, clock
        self._embedder, self._table = stores.embedder, stores.table
        self._recorder = Recorder(catalog, stores)
        self._runs = Runs(catalog, self._recorder, stores.embedder, parser, settings, pace_clock or clock)
        self._lately = LatelyGone(clock)
        # Whether the last cancelled job was still in its survey, so that none of its findings is in the catalogue.
        self.has_left_look = False
        # Documents that were read again since OCR became available, with the languages used: others may be added.
        self._reconsidered: set[tuple[int, tuple[str, ...]]] = set()

    def reconcile(self) -> None:
        """Makes catalogue and table consistent after a kill; called once, before the first job."""
        self._recorder.reconcile()

    def run(
        self, job: Job, cancelled: threading.Event, *, cuts_in: bool = False
    ) -> Generator[IndexProgressed, None, IndexFinished]:
        """Carries out a job. Each yield reports progress; the job can be paused, stopped or cancelled there.

        Another job may run completely between two steps of this one. Such a job has `cuts_in` set, and leaves its
        documents for later if they are more than a moment's work.

        Returns:
            What was done, also if the job was cancelled.

        Raises:
            TooMuch: It cuts in and has found too much work, or documents of the other job; these stay pending.
            DiskFull: What is indexed so far stays; the rest is pending.
            RagdollError: Another failure that concerns all files; likewise.
        """
        started, tally, has_looked = self._clock(), Tally(), False
        if isinstance(job, Forget):
            self._forget_removed()
            return tally.finished(self._clock() - started)
        if isinstance(job, Resume):
            self._lent(self._recorder.agree)
        try:
            found = yield from self._documents(job, tally, cancelled)
            has_looked = True
            documents = self._admit(job, found, cuts_in=cuts_in)
            if documents:
                yield from self._runs.index(documents, tally, cancelled, goes_on=isinstance(job, Resume))
            if _must_leave_rest(job, cuts_in=cuts_in) and len(documents) < len(found):
                # The other job may be reading an old version of a changed document: the look is repeated later.
                raise TooMuch("Another job has some of this in hand.")
        except Cancelled:
            self.has_left_look = not has_looked
            self._agree_after_cancelling()
            return tally.finished(self._clock() - started, was_cancelled=True)
        if not cuts_in:
            self._tidy_up(job, tally)
        self._drop_what_was_lent()
        # Pending documents may still use vectors from there.
        if not self._catalog.ids_to_read():
            self._table.drop_set_aside()
        return tally.finished(self._clock() - started)

    def _admit(self, job: Job, found: Sequence[Document], *, cuts_in: bool) -> tuple[Document, ...]:
        """Returns the documents that this job may read now: none that another job is at. Raises TooMuch."""
        in_hand = self._runs.in_hand
        documents = tuple(document for document in found if document.document_id not in in_hand)
        # A caller waits for all documents of its job, also those that another job is at; nobody waits for a refresh.
        is_incomplete = len(documents) < len(found) and not isinstance(job, Refresh)
        if _must_leave_rest(job, cuts_in=cuts_in) and (_is_much(documents) or is_incomplete):
            raise TooMuch("This is more than a moment's work.")
        return documents

    def _agree_after_cancelling(self) -> None:
        """Deletes the rows of documents that a survey removed before the job was cancelled."""
        try:
            self._lent(self._recorder.agree)
        except Exception:
            # The next start does it as well.
            log.exception("rows of documents that are gone could not be deleted yet")

    def _tidy_up(self, job: Job, tally: Tally) -> None:
        """Compacts the table if that is due; after changes that no user asked for, only once there are enough."""
        is_asked = not (isinstance(job, Refresh) or (isinstance(job, IndexRoots) and job.is_unasked))
        is_of_all = is_asked and isinstance(job, IndexRoots) and job.paths is None
        if is_of_all and self._table.is_forgetting_due():
            self._forget_removed()
        elif (tally.indexed or tally.removed) and (is_asked or self._table.is_optimize_due()):
            tidy_up_if_there_is_room(self._table)

    def _drop_what_was_lent(self) -> None:
        try:
            self._lent(self._recorder.let_strangers_go)
        except LibraryError as error:
            # The next start does it as well.
            log.warning("rows of a catalogue that is lost could not be deleted yet: %s", error)

    @property
    def lacks_room(self) -> bool:
        """Whether the disk lacks the room to compact the table."""
        return self._table.lacks_room

    def is_forgetting_due(self, can_spare: Callable[[], bool]) -> bool:
        """Returns whether files still hold text of removed documents and should be rewritten.

        Text that no user removed waits until `can_spare` returns true.
        """
        return self._table.is_forgetting_due(can_spare)

    def _forget_removed(self) -> None:
        try:
            if self._lent(self._table.forget_removed):
                # A file that was being read when it was removed may have left recognised text after that.
                self._parser.forget_recognised()
        except LibraryError as error:
            # Nobody waits for it, and nothing is lost: it is tried again.
            log.warning("what was removed is still on the disk: %s", error)

    def hold(self, is_held: bool) -> None:
        """Pauses a job's stages while its steps are not taken, or continues them."""
        self._runs.hold(is_held)

    def hurry(self, document_ids: frozenset[int]) -> frozenset[int]:
        """Moves these documents to the front, as far as they are in progress; returns the others. From any thread."""
        in_hand = self._runs.in_hand
        self._runs.hurry(document_ids & in_hand)
        return document_ids - in_hand

    def remove(self, paths: Sequence[str]) -> int:
        """Removes files and folders from the library; returns how many documents were removed.

        Raises:
            NothingThere: One of the paths is not in the library; then nothing is removed.
            LibraryError: Rows could not be deleted. They can no longer be cited anyway, and are deleted later.
        """
        paths = outermost(paths)
        identities = self._identities(paths)
        removed = self._lent(lambda: self._catalog.forget(*paths, identities=identities))
        self._delete_rows(removed)
        return len(removed)

    def _identities(self, paths: Sequence[str]) -> dict[str, str]:
        """Returns the identities of paths below roots, so that they stay removed under another name."""
        folders = {root.path for root in self._catalog.roots() if root.is_folder}
        below = [path for path in paths if not folders.isdisjoint(islice(upwards(path), 1, None))]
        return {path: str(text) for path, text in seen_in_time(below, identity_at).items() if text is not None}

    def settle_gone(self, folder: str, remove: bool) -> int:
        """Carries out the user's decision about many missing documents; returns how many were removed.

        Documents whose files have come back are neither removed nor marked: the next look at the folder finds them.

        Raises:
            NothingThere: No document of the folder waits for a decision.
            LibraryError: As `remove`.
        """
        paths = self._catalog.paths_gone(folder)
        if not paths:
            is_linked = any(root.path == folder for root in self._catalog.roots())
            raise NothingThere(
                "No missing document of this folder waits for a decision."
                if is_linked
                else f"The folder {folder} is not linked."
            )
        self._lately.forget_below(folder)
        gone = frozenset(document_id for document_id, path in paths.items() if not os.path.lexists(path))
        if not remove:
            self._catalog.keep_gone(gone)
            return 0
        self._lent(lambda: self._catalog.remove_documents(gone))
        self._delete_rows(gone)
        return len(gone)

    def remove_collection(self, name: str) -> int:
        """Deletes a collection and the documents that are in no other; returns how many. Raises as `remove`."""
        removed = self._lent(lambda: self._catalog.delete_collection(name))
        self._delete_rows(removed)
        return len(removed)

    def _delete_rows(self, removed: Collection[int]) -> None:
        """Deletes the rows of documents that a user removed, and all cached OCR text, which may be theirs."""
        if removed:
            self._parser.forget_recognised()
        if self._recorder.has_rows(removed):
            self._table.forget_soon()
        self._lent(lambda: self._recorder.delete_rows(removed))

    def _lent(self, work: Callable[[], T]) -> T:
        return work() if self._reserve is None else self._reserve.lent(work)

    # --- which documents to read ---

    def _documents(
        self, job: IndexRoots | Refresh | Reindex | Resume | ReadNext, tally: Tally, cancelled: threading.Event
    ) -> Generator[IndexProgressed, None, tuple[Document, ...]]:
        """Returns the pending documents of a job, after a look where it needs one."""
        if isinstance(job, Reindex):
            return self._again(job.paths, tally)
        if isinstance(job, ReadNext):
            found = self._catalog.documents_by_id(job.document_ids).values()
            return tuple(document for document in found if document.state == "pending")
        if isinstance(job, Refresh):
            looking = survey_places(self._catalog, job.paths, self._lately)
            report = yield from self._survey(looking, tally, cancelled, is_asked=False)
            return _pending(report)
        linked, wanted = self._catalog.roots(), frozenset(job.paths or ())
        roots = [root for root in linked if job.paths is None or root.path in wanted]
        self._reconsider_pictures(linked if isinstance(job, Resume) else roots)
        retry = isinstance(job, IndexRoots) and job.retry
        is_asked = isinstance(job, Resume) or not job.is_unasked
        looking = survey(self._catalog, roots, self._lately, retry=retry)
        report = yield from self._survey(looking, tally, cancelled, is_asked=is_asked)
        if isinstance(job, Resume):
            return self._catalog.documents_in_state("pending")
        return _pending(report)

    def _reconsider_pictures(self, roots: Sequence[Root]) -> None:
        """Marks documents of these roots that need OCR as pending once OCR is available."""
        languages = tuple(self._settings().ocr_languages)
        needing = self._catalog.documents_needing("ocr")
        below = (one.document_id for one in needing if any(root.covers(one.path) for root in roots))
        waiting = [one for one in below if (one, languages) not in self._reconsidered]
        if waiting and self._parser.can_ocr(languages):
            self._reconsidered.update((one, languages) for one in waiting)
            self._catalog.mark_pending(waiting, forget_content=True)

    def _survey(
        self,
        looking: Generator[str, None, SurveyReport],
        tally: Tally,
        cancelled: threading.Event,
        *,
        is_asked: bool,
    ) -> Generator[IndexProgressed, None, SurveyReport]:
        report = yield from _reported(looking, cancelled)
        self._lent(lambda: self._recorder.delete_rows(report.removed))
        tally.surveyed(report, is_asked=is_asked)
        return report

    def _again(self, paths: Sequence[str], tally: Tally) -> tuple[Document, ...]:
        """Marks documents as pending again and returns them. Raises NothingThere if the paths have none any more."""
        below = chain.from_iterable(self._catalog.documents_below(paths).values())
        documents = {document.document_id: document for document in below}
        if not documents:
            raise NothingThere("No document of the library is there any more.", "Add the file or folder again.")
        self._catalog.mark_pending(documents, forget_content=True)
        tally.skipped += [
            (document.path, document.reason) for document in documents.values() if document.state == "offline"
        ]
        now = self._catalog.documents_by_id(documents).values()
        return tuple(document for document in now if document.state == "pending")


def _must_leave_rest(job: Job, *, cuts_in: bool) -> bool:
    """Returns whether the job must leave larger work for later; a document a user waits for is read in any case."""
    return cuts_in and not isinstance(job, ReadNext)


def _is_much(documents: Sequence[Document]) -> bool:
    num_bytes = sum(document.size_bytes for document in documents)
    return len(documents) > _MAX_DOCUMENTS_CUTTING_IN or num_bytes > _MAX_BYTES_CUTTING_IN


def _pending(report: SurveyReport) -> tuple[Document, ...]:
    return tuple(document for document in report.documents if document.state == "pending")


def _reported(
    looking: Generator[str, None, SurveyReport], cancelled: threading.Event
) -> Generator[IndexProgressed, None, SurveyReport]:
    """Turns a survey into steps of a job. Raises Cancelled."""
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
