"""JobRunner: the index thread's work. Jobs run step by step; removals, pauses and short jobs run in between.

Every job ends in exactly one of finished (perhaps cancelled) and failed, reported by an event and by its handle: also
after a panic of Rust code, which is no Exception. Only the main thread gets KeyboardInterrupt, so none is lost here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.catalog import Catalog
from engine.config import Settings
from engine.errors import Cancelled, DiskFull, EmbedderUnavailable, RagdollError
from engine.events import IndexFinished, IndexProgressed
from engine.library.indexer import Indexer
from engine.library.job_reporter import NOTHING_TO_DO, JobReporter, as_told
from engine.library.jobs import IndexJob, Move, Resume, TooMuch
from engine.library.pace import Clock
from engine.library.queue import JobQueue, Removal, closing_error
from engine.library.reserve import Reserve
from engine.library.seams import Parser, Stores
from engine.library.turns import MoveTurns

log = logging.getLogger(__name__)
CANCELLED = "Indexing was cancelled before this file was read. Add it again to index it."
INDEX_LOST = (
    "The index could not be read any more and is rebuilt. What can be read of it is taken over, and all other"
    " documents are read again, one after another."
)
ROWS_LOST = "The index was damaged and has lost what was written last, so that some documents are read again."
NO_ROOM = (
    "There is too little room on the disk to tidy up the index. Everything is found, but searching becomes slower, and"
    " what was removed stays on the disk for now. Free some space; it is tried again."
)
NEVER_BEGUN = replace(NOTHING_TO_DO, was_cancelled=True)
# Before this time other jobs do not cut in: a short job is not worth interrupting.
_SECONDS_BEFORE_CUTTING_IN = 1.0


class JobRunner:
    """Takes jobs from the queue and carries them out, until the queue is stopped.

    Before the first job it opens the stores and makes catalogue and table consistent.
    """

    def __init__(
        self,
        queue: JobQueue,
        catalog: Catalog,
        parser: Parser,
        open_stores: Callable[[], Stores],
        settings: Callable[[], Settings],
        reporter: JobReporter,
        clock: Clock,
        turns: MoveTurns | None,
        reserve: Reserve | None,
    ) -> None:
        self._queue, self._catalog, self._parser, self._open_stores = queue, catalog, parser, open_stores
        self._settings, self._reporter, self._clock = settings, reporter, clock
        self._turns, self._reserve = turns, reserve
        # Read by the worker: to hurry documents, and to know whether a job stopped because the disk was full.
        self.indexer: Indexer | None = None
        self.is_out_of_room = False
        self._is_told_of_room = False

    def run(self) -> None:
        """Runs until the queue is stopped; jobs still queued then end as never begun."""
        while (task := self._queue.next()) is not None:
            if isinstance(task, Removal):
                self._carry_out_removal(task)
            elif task.is_move:
                self._move(task)
            else:
                self._carry_out(task)
            if self._queue.forget_pause():
                self._reporter.changed()
        jobs, removals = self._queue.empty()
        for job in jobs:
            job.ended.set_result(NEVER_BEGUN)
        for removal in removals:
            removal.removed.set_exception(closing_error())

    # --- jobs ---

    def _carry_out(self, job: IndexJob, *, cuts_in: bool = False) -> None:
        self._reporter.begun(cuts_in=cuts_in)
        assert not isinstance(job.job, Move)
        try:
            finished = self._drive(job, self._opened().run(job.job, job.cancelled, cuts_in=cuts_in))
            self._clean_up(job, finished)
            self._tell_of_room()
        except BaseException as error:  # noqa: BLE001 - the thread's edge: reported as IndexFailed, and by the handle
            # A failed job may have removed documents.
            self._pass_removals_on(may_have_removed=True)
            self._end_unfinished(job, error)
        else:
            self._pass_removals_on(may_have_removed=bool(finished.removed or finished.skipped or finished.failed))
            self._reporter.ended(job, finished)

    def _end_unfinished(self, job: IndexJob, error: BaseException) -> None:
        if isinstance(error, TooMuch):
            # It is too long to cut in, so it waits until the running job ends.
            if not self._queue.wait_again(job):
                job.ended.set_result(NEVER_BEGUN)
            return
        told = self._told(error)
        self._reporter.changed()
        self._reporter.failed(told)
        job.ended.set_exception(told)

    def _opened(self) -> Indexer:
        if self.indexer is None:
            stores = self._open_stores()
            indexer = Indexer(
                self._catalog,
                stores,
                self._parser,
                lambda: self._settings().library,
                pace_clock=self._clock,
                reserve=self._reserve,
            )
            self._tell_of_losses(stores)
            indexer.reconcile()
            self.indexer = indexer
        return self.indexer

    def _tell_of_losses(self, stores: Stores) -> None:
        """Reports a lost table, unless it was empty."""
        if self._catalog.ids_with_rows():
            if stores.table.set_aside:
                self._reporter.problem(INDEX_LOST)
            elif stores.table.went_back_to_ns is not None:
                self._reporter.problem(ROWS_LOST)

    def _tell_of_room(self) -> None:
        """Reports a full disk once, and again only after there was room in between."""
        lacks_room = self._opened().lacks_room
        if lacks_room and not self._is_told_of_room:
            self._reporter.problem(NO_ROOM)
        self._is_told_of_room = lacks_room

    def _drive(self, job: IndexJob, steps: Generator[IndexProgressed, None, IndexFinished]) -> IndexFinished:
        """Runs the job's steps; between them, reports progress, waits while paused, and carries out removals."""
        last: IndexProgressed | None = None
        begun = self._clock()
        while True:
            try:
                last = next(steps)
            except StopIteration as end:
                finished: IndexFinished = end.value
                break
            self._reporter.step(job, last)
            self._rest(job, last)
            # Not during a survey: it would not know what another survey enters into the catalogue meanwhile.
            if last.documents_total and self._clock() - begun >= _SECONDS_BEFORE_CUTTING_IN:
                self._let_cut_in()
        if last is not None and last.documents_total:
            self._reporter.progress(last)
        return finished

    def _clean_up(self, job: IndexJob, finished: IndexFinished) -> None:
        """After a cancellation leaves no document pending, unless the engine is stopping: the next start continues."""
        with self._queue.locked:
            if not finished.was_cancelled or self._queue.is_stopping:
                return
            if self._opened().has_left_look:
                self._queue.look_again(job)
            self._catalog.set_pending_aside(CANCELLED)
            self._catalog.end_run()
            self._catalog.give_up_surveys(self._queue.roots_waiting)

    def _pass_removals_on(self, *, may_have_removed: bool) -> None:
        """Also deletes removed documents from the table to which the library moves, now or after a later job.

        Nothing is cited from that table, so a failure does not fail the job.
        """
        if self._turns is not None:
            if may_have_removed:
                self._turns.note_removed()
            try:
                self._turns.drop_removed()
            except BaseException as error:  # noqa: BLE001 - the thread's edge: the job itself is done
                log.warning("removed documents are left in the table that is being filled: %s", self._told(error))

    # --- between two steps ---

    def _rest(self, job: IndexJob, progress: IndexProgressed) -> None:
        """Carries out removals at once, and waits while paused."""
        is_told = False
        while True:
            if (removal := self._queue.next_removal()) is not None:
                self._carry_out_removal(removal)
            elif not self._queue.is_held(job):
                if is_told:
                    self._reporter.rest(progress, is_paused=False)
                return
            elif not is_told:
                self._reporter.rest(progress, is_paused=True)
                is_told = True
            else:
                self._queue.rest(job, self._at_rest())

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Keeps the embedder idle too, as long as the block lasts."""
        indexer = self._opened()
        indexer.hold(True)
        try:
            yield
        finally:
            indexer.hold(False)

    def _let_cut_in(self) -> None:
        """Runs a short queued job, so that it need not wait for the end of a long one."""
        job = self._queue.next_to_cut_in()
        if job is not None:
            try:
                self._carry_out(job, cuts_in=True)
            finally:
                self._queue.has_ended(job)

    def _carry_out_removal(self, removal: Removal) -> None:
        try:
            if self._turns is not None:
                # Before it begins, because a removal that fails may have removed something.
                self._turns.note_removed()
            removed = removal.carry_out(self._opened())
            if self._turns is not None:
                self._turns.drop_removed()
        except BaseException as error:  # noqa: BLE001 - the thread's edge: raised again where removal was asked for
            removal.removed.set_exception(self._told(error))
            self._reporter.changed()
        else:
            removal.removed.set_result(removed)
            self._reporter.changed()

    # --- moves ---

    def _move(self, job: IndexJob) -> None:
        """Continues the move until it is complete or another job waits; then the move is queued again."""
        try:
            is_over = self._turns is None or self._moved(job, self._turns)
        except Cancelled:
            # The next start continues it.
            is_over = True
        except EmbedderUnavailable:
            # Without the new model the library keeps its own; the state of the embedder says why.
            is_over = True
        except BaseException as error:  # noqa: BLE001 - the thread's edge: reported as IndexFailed; what moved stays so
            self._reporter.failed(self._told(error))
            is_over = True
        if not is_over and self._queue.wait_again(job):
            return
        self._reporter.changed()
        job.ended.set_result(NOTHING_TO_DO)

    def _moved(self, job: IndexJob, turns: MoveTurns) -> bool:
        """Continues the move; returns whether it is over, False if another job waits."""

        def may_go_on(progress: IndexProgressed) -> bool:
            self._reporter.step(job, progress)
            self._rest(job, progress)
            return not self._queue.has_other_than_moves

        self._opened()
        turn = turns.take(job.cancelled, may_go_on, self._reporter.failed)
        if turn == "moved":
            # It has the old tables open, which are not used from now on, even if the new ones do not open.
            self.indexer = None
            turns.switch()
            with self._queue.locked:
                if self._catalog.ids_to_read() and not self._queue.is_stopping:
                    # Documents may be pending because the old model was missing.
                    self._queue.put(Resume())
        return turn != "interrupted"

    def _told(self, error: BaseException) -> RagdollError:
        told = as_told(error)
        self.is_out_of_room = self.is_out_of_room or isinstance(told, DiskFull)
        return told
