"""IndexWorker: the one thread that changes the library. Jobs queue up; removals go in between a job's steps.

Every job ends in exactly one of finished (perhaps cancelled) and failed, told by an event and by its handle.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from engine.catalog import Catalog
from engine.config import Settings
from engine.core import DEFAULT_COLLECTION
from engine.errors import (
    BadRequest,
    Cancelled,
    DiskFull,
    EmbedderUnavailable,
    LibraryError,
    NothingThere,
    RagdollError,
    is_disk_full,
)
from engine.events import IndexFailed, IndexFinished, IndexProgressed, LibraryChanged, Publish
from engine.library.changes import is_below
from engine.library.indexer import Indexer
from engine.library.jobs import IndexJob, IndexRoots, Move, ReadNext, Refresh, Reindex, Resume, TooMuch
from engine.library.moving import AtHand, Mover
from engine.library.pace import Clock
from engine.library.queue import JobQueue, Removal, closing_error
from engine.library.reserve import Reserve
from engine.library.seams import Moving, Parser, Stores
from engine.library.throttle import Throttle

__all__ = ["IndexJob", "IndexWorker"]

log = logging.getLogger(__name__)

CANCELLED = "Indexing was cancelled before this file was read. Add it again to index it."
_PROGRESS_SECONDS = 0.1
_LIBRARY_SECONDS = 1.0
# A job that is over so soon is not worth cutting in on.
_SECONDS_BEFORE_CUTTING_IN = 1.0
_NOTHING_TO_DO = IndexFinished(0, 0, 0, (), (), 0, 0.0)
_NEVER_BEGUN = replace(_NOTHING_TO_DO, was_cancelled=True)


class IndexWorker:
    """Takes wishes from any thread and fulfils them one after another on its own.

    Loading the heavy stores and making catalogue and table agree happens before the first job.
    """

    def __init__(
        self,
        catalog: Catalog,
        parser: Parser,
        open_stores: Callable[[], Stores],
        settings: Callable[[], Settings],
        publish: Publish,
        clock: Clock = time.monotonic,
        moving: Moving | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        """Takes what it works on and with.

        `moving` opens what the library is moved to when another embedding model is wanted; `reserve` is what may be
        used of a disk that is full.
        """
        self._reserve, self._is_out_of_room = reserve, False
        self._moving, self._at_hand = moving, AtHand()
        # Why the move stopped last; told once, however often it is tried again.
        self._move_fault = ""
        self._catalog, self._parser, self._open_stores, self._settings = catalog, parser, open_stores, settings
        self._publish, self._clock = publish, clock
        self._progress = Throttle(_PROGRESS_SECONDS, clock)
        self._changes = Throttle(_LIBRARY_SECONDS, clock)
        self._queue = JobQueue()
        self._is_told = False
        self._indexer: Indexer | None = None
        self._thread = threading.Thread(target=self._run, name="index", daemon=True)

    def start(self, resume: bool = True) -> None:
        """Starts the thread. `resume`: mend what a kill left, and go on with what was interrupted, by itself."""
        if resume:
            self._queue.put(self._left_undone())
            self._queue.put(Move())
        self._thread.start()

    def stop(self) -> None:
        """Leaves the running job at its next step; the next start resumes it. May be called twice."""
        self._queue.stop()
        if self._thread.is_alive():
            self._thread.join()

    # --- wishes, from any thread ---

    def add(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Puts folders and files into a collection and queues their indexing; from now on they are not forgotten.

        Raises:
            NothingThere: One of the paths does not exist; then nothing is added.
            BadRequest: The collection's name is blank.
        """
        absolute = [os.path.abspath(path) for path in paths]
        for path in absolute:
            if not os.path.exists(path):
                raise NothingThere(f"There is nothing at {_shown(path)}.", "Check the spelling, or connect the drive.")
        with self._queue.locked:
            with self._catalog.transaction():
                for path in absolute:
                    self._catalog.add_root(collection, path, os.path.isdir(path), os.stat(path).st_dev)
            job = self._queue.put(IndexRoots(tuple(absolute), retry=True))
        self._publish(LibraryChanged())
        return job

    def reindex(self, paths: Sequence[str]) -> IndexJob:
        """Queues reading documents again, whatever became of them.

        Raises:
            NothingThere: One of the paths is not in the library.
        """
        absolute = tuple(os.path.abspath(path) for path in paths)
        for path in absolute:
            if not self._catalog.documents_under(path):
                raise NothingThere(f"No document at {_shown(path)} is in the library.", "Add the file or folder first.")
        return self._queue.put(Reindex(absolute))

    def unlock(self, paths: Sequence[str], password: str, *, remember: bool) -> IndexJob:
        """Queues reading with a password what needs one at or below the paths; `remember` keeps it for later starts.

        Raises:
            BadRequest: The password is empty.
            NothingThere: No document there needs a password.
        """
        if not password:
            raise BadRequest("The password is empty.")
        absolute = [os.path.abspath(path) for path in paths]
        locked = [
            document
            for document in self._catalog.documents_needing("password")
            if any(is_below(document.path, path) for path in absolute)
        ]
        if not locked:
            raise NothingThere("No document there needs a password.")
        with self._queue.locked:
            self._catalog.give_password([document.document_id for document in locked], password, remember=remember)
            return self._queue.put(Reindex(tuple(document.path for document in locked)))

    def rescan(self, *, is_unasked: bool = False) -> IndexJob:
        """Queues a look at all roots for what is new, changed or gone; one that waits already is enough."""
        return self._queue.put_once(IndexRoots(None, is_unasked=is_unasked))

    def refresh(self, paths: Sequence[str]) -> IndexJob:
        """Queues a look at files and folders where something happened; with one that waits already it becomes one."""
        return self._queue.put_or_join(Refresh(tuple(paths)))

    def settle_gone(self, folder: str, *, remove: bool) -> int:
        """Removes the documents of a folder that went missing at once, or keeps them; returns how many were removed.

        Raises:
            NothingThere: No document of the folder waits for a decision.
            LibraryError: The index could not be written.
        """
        path = os.path.abspath(folder)
        removed = self._queue.remove(lambda indexer: indexer.settle_gone(path, remove))
        self.refresh([path])
        return removed

    def remove(self, paths: Sequence[str]) -> int:
        """Takes files and folders out of the library, also while a job runs; returns how many documents went.

        Raises:
            NothingThere: One of the paths is not in the library; then nothing is removed.
            LibraryError: The index could not be written.
        """
        absolute = [os.path.abspath(path) for path in paths]
        return self._queue.remove(lambda indexer: indexer.remove(absolute))

    def remove_collection(self, name: str) -> int:
        """Deletes a collection and the documents that are in no other; returns how many. Raises as `remove`."""
        return self._queue.remove(lambda indexer: indexer.remove_collection(name))

    def pause(self) -> None:
        """Holds the running job at its next step, and those behind it."""
        self._queue.pause(True)

    def resume(self) -> None:
        """Goes on; with nothing running, takes up what is pending (after a full disk, say)."""
        self._queue.pause(False)
        with self._queue.locked:
            if self._queue.is_idle:
                if self._catalog.ids_to_read():
                    self._queue.put(self._left_undone())
                if self._catalog.next_table() is not None:
                    self._queue.put(Move())

    def go_on_if_there_is_room(self) -> None:
        """After a full disk, takes up what stopped for it once there is room again; to be called now and then.

        The reserve is filled again as soon as there is room for it, also where only a removal needed it.
        """
        if self._reserve is not None and self._reserve.has_room() and self._is_out_of_room:
            self._is_out_of_room = False
            self._queue.put(self._left_undone())
            # What changed meanwhile, and was not taken in.
            self.rescan(is_unasked=True)
            if self._catalog.next_table() is not None:
                self._queue.put(Move())

    def cancel(self) -> None:
        """Ends the running job and those behind it; what is indexed stays. Harmless when nothing runs."""
        with self._queue.locked:
            waiting = self._queue.cancel()
            # What the running job looks at is given up at its end: it may be about to enter files just now.
            self._catalog.give_up_surveys(keep=self._queue.roots_running)
        for job in waiting:
            self._end(job, _NEVER_BEGUN)

    def prioritise(self, paths: Sequence[str]) -> IndexJob | None:
        """Has what waits at or below these paths read next, also while something else is read.

        Returns:
            The job that reads it; None when it is in the hands of the running one, or a root still to be looked at.

        Raises:
            NothingThere: Nothing of the library lies at one of the paths; then nothing is changed.
        """
        absolute = [os.path.abspath(path) for path in paths]
        for path in absolute:
            if not self._catalog.documents_under(path) and not self._is_to_be_surveyed(path):
                raise NothingThere(f"No document at {_shown(path)} is in the library.", "Add the file or folder first.")
        with self._queue.locked:
            wanted = frozenset[int]().union(*map(self._catalog.prioritise, absolute))
            self._queue.put_first(absolute)
            indexer = self._indexer
            others = indexer.hurry(wanted) if indexer is not None and self._queue.is_running else wanted
            return self._queue.put(ReadNext(others), is_next=True) if others else None

    def consider_move(self) -> None:
        """The settings name another embedding model, or the present one again: see to it when nothing else waits."""
        self._queue.put_move()

    def _is_to_be_surveyed(self, path: str) -> bool:
        return any(not root.is_surveyed and is_below(path, root.path) for root in self._catalog.roots())

    def _left_undone(self) -> Resume:
        return Resume(tuple(root.path for root in self._catalog.roots() if not root.is_surveyed))

    # --- their fulfilment, on the thread ---

    def _run(self) -> None:
        while (task := self._queue.next()) is not None:
            if isinstance(task, Removal):
                self._carry_out_removal(task)
            elif task.is_move:
                self._move(task)
            else:
                self._carry_out(task)
        self._refuse_the_rest()

    def _carry_out(self, job: IndexJob, *, cuts_in: bool = False) -> None:
        self._is_told = self._is_told and cuts_in
        assert not isinstance(job.job, Move)
        try:
            finished = self._drive(job, self._opened().run(job.job, job.cancelled, cuts_in=cuts_in))
            self._clean_up(finished)
        except TooMuch:
            # It turned out to be long, so its turn comes after the running one's.
            if not self._queue.wait_again(job):
                job.ended.set_result(_NEVER_BEGUN)
        except Exception as error:  # noqa: BLE001 - the thread's edge: told as IndexFailed, and by the handle
            told = self._told(error)
            self._publish(LibraryChanged())
            self._publish(IndexFailed(told))
            job.ended.set_exception(told)
        else:
            self._end(job, finished)

    def _move(self, job: IndexJob) -> None:
        """Moves the library until it has moved, or something else waits: then the move waits for its turn again."""
        try:
            is_over = self._moved(job)
        except Cancelled:
            # It is taken up at the next start.
            is_over = True
        except EmbedderUnavailable:
            # Without a model that is not there the library stays where it is, and the state of the embedder says why.
            is_over = True
        except Exception as error:  # noqa: BLE001 - the thread's edge: told as IndexFailed; what has moved stays so
            self._publish(IndexFailed(self._told(error)))
            is_over = True
        if not is_over and self._queue.wait_again(job):
            return
        self._publish(LibraryChanged())
        job.ended.set_result(_NOTHING_TO_DO)

    def _moved(self, job: IndexJob) -> bool:
        if self._moving is None:
            return True
        self._opened()
        following = self._moving.next()
        if following is None:
            return True
        stores = self._open_stores()
        mover = Mover(self._catalog, stores.table, following.embedder, following.table, self._clock, self._at_hand)
        try:
            if not self._take_turn(job, mover):
                return False
        except EmbedderUnavailable as error:
            # It is there, but does not load: the state of the embedder says why.
            self._moving.failed(error)
            if str(error) != self._move_fault:
                self._publish(IndexFailed(error))
            self._move_fault = str(error)
            return True
        self._move_fault = ""
        if self._catalog.complete_move():
            # It knows the tables of before, and from now on no search looks there, even if the others do not open.
            self._indexer = None
            self._moving.switch()
        return True

    def _take_turn(self, job: IndexJob, mover: Mover) -> bool:
        """Whether the move is over; not when something else waits."""
        with closing(mover.run(job.cancelled)) as steps:
            for progress in steps:
                self._show(job, progress)
                self._rest(job, progress)
                if self._queue.has_other_than_moves:
                    return False
        return True

    def _show(self, job: IndexJob, progress: IndexProgressed) -> None:
        if (progress.documents_total or not job.is_unasked) and self._progress.is_due():
            self._tell(progress)
        if self._changes.is_due():
            self._publish(LibraryChanged())

    def _opened(self) -> Indexer:
        if self._indexer is None:
            stores = self._open_stores()
            indexer = Indexer(
                self._catalog, stores, self._parser, lambda: self._settings().library, reserve=self._reserve
            )
            indexer.reconcile()
            self._indexer = indexer
        return self._indexer

    def _drive(self, job: IndexJob, steps: Generator[IndexProgressed, None, IndexFinished]) -> IndexFinished:
        """Takes the job's steps; between them, tells how it goes, waits if paused, and serves removals."""
        last: IndexProgressed | None = None
        begun = self._clock()
        while True:
            try:
                last = next(steps)
            except StopIteration as end:
                finished: IndexFinished = end.value
                break
            self._show(job, last)
            self._rest(job, last)
            # Not while it looks around: what another look enters meanwhile, it would not know of.
            if last.documents_total and self._clock() - begun >= _SECONDS_BEFORE_CUTTING_IN:
                self._let_cut_in()
        if last is not None and last.documents_total:
            self._tell(last)
        return finished

    def _rest(self, job: IndexJob, progress: IndexProgressed) -> None:
        """Between two steps: removals at once, and a pause for as long as it lasts."""
        is_told = False
        while True:
            if (removal := self._queue.next_removal()) is not None:
                self._carry_out_removal(removal)
            elif not self._queue.is_held(job):
                return
            elif not is_told:
                self._tell(replace(progress, is_paused=True))
                is_told = True
            else:
                self._queue.rest(job, self._at_rest())

    def _let_cut_in(self) -> None:
        """What waits and is a moment's work need not wait for the end of a long job."""
        job = self._queue.next_to_cut_in()
        if job is not None:
            try:
                self._carry_out(job, cuts_in=True)
            finally:
                self._queue.has_ended(job)

    def _tell(self, progress: IndexProgressed) -> None:
        if self._queue.has_cut_in:
            # The counts of a job that cut in would make those of the other jump back and forth.
            return
        self._is_told = True
        self._publish(progress)

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """The embedder rests too, for as long as the block lasts."""
        indexer = self._opened()
        indexer.hold(True)
        try:
            yield
        finally:
            indexer.hold(False)

    def _carry_out_removal(self, removal: Removal) -> None:
        try:
            removed = removal.carry_out(self._opened())
            if self._moving is not None:
                self._moving.drop_removed()
        except Exception as error:  # noqa: BLE001 - the thread's edge: raised again where removal was asked for
            removal.removed.set_exception(self._told(error))
        else:
            removal.removed.set_result(removed)
            self._publish(LibraryChanged())

    def _clean_up(self, finished: IndexFinished) -> None:
        """After a cancellation nothing waits any more; when we are only stopping, it waits for the next start."""
        with self._queue.locked:
            if not finished.was_cancelled or self._queue.is_stopping:
                return
            self._catalog.set_pending_aside(CANCELLED)
            self._catalog.end_run()
            self._catalog.give_up_surveys(self._queue.roots_waiting)

    def _end(self, job: IndexJob, finished: IndexFinished) -> None:
        self._publish(LibraryChanged())
        # Who was told that it goes on is told that it is over; nobody needs to hear that nothing had changed.
        is_told = self._is_told and not self._queue.has_cut_in
        if is_told or not (job.is_unasked and replace(finished, seconds=0.0, unchanged=0) == _NOTHING_TO_DO):
            self._publish(finished)
        job.ended.set_result(finished)

    def _told(self, error: Exception) -> RagdollError:
        told = _told(error)
        self._is_out_of_room = self._is_out_of_room or isinstance(told, DiskFull)
        return told

    def _refuse_the_rest(self) -> None:
        jobs, removals = self._queue.empty()
        for job in jobs:
            job.ended.set_result(_NEVER_BEGUN)
        for removal in removals:
            removal.removed.set_exception(closing_error())


def _told(error: Exception) -> RagdollError:
    if isinstance(error, RagdollError):
        return error
    if is_disk_full(error):
        return DiskFull("The disk is full.", "Free some space and start again; what is indexed so far is kept.")
    log.exception("the index worker met a fault of ours", exc_info=error)
    return LibraryError(
        f"Indexing met an unexpected error: {error}.", "What is indexed so far is kept. Please report it."
    )


def _shown(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")
