"""IndexWorker: the one thread that changes the library, and the requests that other threads make to it.

Jobs queue up; removals go in between a job's steps (`engine.library.job_runner`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence

from engine.catalog import Catalog
from engine.catalog.catalog import shown_path
from engine.config import Settings
from engine.core import DEFAULT_COLLECTION
from engine.errors import BadRequest, NothingThere
from engine.events import Publish
from engine.giving_way import GivingWay
from engine.library.changes import upwards
from engine.library.job_reporter import JobReporter
from engine.library.job_runner import CANCELLED, NEVER_BEGUN, JobRunner
from engine.library.jobs import Forget, IndexJob, IndexRoots, Move, ReadNext, Refresh, Reindex, Resume
from engine.library.pace import Clock
from engine.library.path_states import path_states
from engine.library.queue import JobQueue
from engine.library.reserve import Reserve
from engine.library.seams import Moving, Parser, Stores
from engine.library.turns import MoveTurns
from engine.protocol import PathState

__all__ = ["CANCELLED", "IndexJob", "IndexWorker"]

# A job that met a full disk although there seemed to be room is retried after this time, doubled each time.
LEAST_PATIENCE_SECONDS, MOST_PATIENCE_SECONDS = 10.0, 640.0


class IndexWorker:
    """Accepts requests from any thread and carries them out one after another on its own."""

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
        giving_way: GivingWay | None = None,
        can_spare: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepares the thread.

        `moving` opens the stores to which the library moves when another embedding model is wanted. `reserve` is room
        that may be used on a full disk. `giving_way` tells whether jobs are slow because a user waits for an answer;
        that time does not count in their rates. `can_spare` returns whether there is power to spare for work that no
        user waits for.
        """
        self._catalog, self._reserve, self._queue, self._clock = catalog, reserve, JobQueue(), clock
        self._can_spare = can_spare
        # After a full disk: when to continue, and how long to wait the next time.
        self._goes_on_at, self._patience_s = -math.inf, 0.0
        giving_way = giving_way or GivingWay(clock=clock)
        working = giving_way.working_seconds
        self._reporter = JobReporter(publish, clock, lambda: self._queue.has_cut_in, lambda: not giving_way.is_free)
        turns = MoveTurns(catalog, moving, open_stores, working) if moving is not None else None
        self._runner = JobRunner(
            self._queue, catalog, parser, open_stores, settings, self._reporter, working, turns, reserve
        )
        self._thread = threading.Thread(target=self._runner.run, name="index", daemon=True)

    def start(self, resume: bool = True) -> None:
        """Starts the thread. `resume`: also repair what a kill left, and continue interrupted work."""
        if resume:
            self._queue.put(self._left_undone())
            self._queue.put(Move())
        self._thread.start()

    def stop(self) -> None:
        """Stops the running job at its next step; the next start resumes it. May be called twice."""
        self._queue.stop()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read or embedded, and nothing is queued."""
        return self._queue.is_idle

    @property
    def is_paused(self) -> bool:
        """Whether indexing is paused."""
        return self._queue.is_paused

    @property
    def is_awaited(self) -> bool:
        """Whether a user waits for the running job's next step: it is to end or pause, or a removal waits."""
        return self._queue.is_awaited

    def path_states(self, paths: Sequence[str]) -> tuple[PathState, ...]:
        """Returns the state of each path for questions about it."""
        with self._queue.locked:
            is_reading = not self._queue.has_only_moves
        return path_states(self._catalog, [os.path.abspath(path) for path in paths], is_reading=is_reading)

    # --- requests, from any thread ---

    def add(self, paths: Sequence[str], collection: str = DEFAULT_COLLECTION) -> IndexJob:
        """Adds folders and files to a collection durably, and queues their indexing.

        Raises:
            NothingThere: One of the paths does not exist; then nothing is added.
            BadRequest: The collection's name is blank.
        """
        absolute = [os.path.abspath(path) for path in paths]
        for path in absolute:
            if not os.path.exists(path):
                raise NothingThere(
                    f"There is nothing at {shown_path(path)}.", "Check the spelling, or connect the drive."
                )
        # Before the lock is taken, because a share may hang for minutes.
        looked_at = [(path, os.path.isdir(path), os.stat(path).st_dev) for path in absolute]
        with self._queue.locked:
            with self._catalog.transaction():
                for path, is_folder, device in looked_at:
                    self._catalog.add_root(collection, path, is_folder, device)
            job = self._queue.put(IndexRoots(tuple(absolute), retry=True))
        self._reporter.changed()
        return job

    def reindex(self, paths: Sequence[str]) -> IndexJob:
        """Queues reading documents again, whatever their state.

        Raises:
            NothingThere: One of the paths is not in the library.
        """
        absolute = tuple(os.path.abspath(path) for path in paths)
        for path in absolute:
            if not self._catalog.has_below(path):
                raise NothingThere(
                    f"No document at {shown_path(path)} is in the library.", "Add the file or folder first."
                )
        return self._queue.put(Reindex(absolute))

    def unlock(self, paths: Sequence[str], password: str, *, remember: bool) -> IndexJob:
        """Queues reading locked documents at or below the paths with a password; `remember` stores it.

        Raises:
            BadRequest: The password is empty.
            NothingThere: No document there needs a password.
        """
        if not password:
            raise BadRequest("The password is empty.")
        absolute = {os.path.abspath(path) for path in paths}
        locked = [
            document
            for document in self._catalog.documents_needing("password")
            if not absolute.isdisjoint(upwards(document.path))
        ]
        if not locked:
            raise NothingThere("No document there needs a password.")
        with self._queue.locked:
            self._catalog.give_password([document.document_id for document in locked], password, remember=remember)
            return self._queue.put(Reindex(tuple(document.path for document in locked)))

    def rescan(self, *, is_unasked: bool = False) -> IndexJob:
        """Queues a look at all roots for new, changed and missing files, unless one is queued already."""
        return self._queue.put_once(IndexRoots(None, is_unasked=is_unasked))

    def refresh(self, paths: Sequence[str]) -> IndexJob:
        """Queues a look at files and folders where something changed; it is merged with one that is queued already."""
        return self._queue.put_or_join(Refresh(tuple(paths)))

    def settle_gone(self, folder: str, *, remove: bool) -> int:
        """Removes or keeps the many missing documents of a folder, as the user decided; returns how many were removed.

        Raises:
            NothingThere: No document of the folder waits for a decision.
            LibraryError: The index could not be written.
        """
        path = os.path.abspath(folder)
        removed = self._queue.remove(lambda indexer: indexer.settle_gone(path, remove))
        self.refresh([path])
        return removed

    def remove(self, paths: Sequence[str]) -> int:
        """Removes files and folders from the library, also while a job runs; returns how many documents were removed.

        Raises:
            NothingThere: One of the paths is not in the library; then nothing is removed.
            LibraryError: The index could not be written.
        """
        absolute = [os.path.abspath(path) for path in paths]
        return self._queue.remove(lambda indexer: indexer.remove(absolute))

    def remove_collection(self, name: str) -> int:
        """Deletes a collection and the documents that are in no other; returns how many. Raises as `remove`."""
        return self._queue.remove(lambda indexer: indexer.remove_collection(name))

    def rename_collection(self, name: str, new_name: str) -> None:
        """Renames a collection. Waits for no job, because jobs refer to paths. Raises as the catalogue does."""
        self._catalog.rename_collection(name, new_name)
        self._reporter.changed()

    def pause(self) -> None:
        """Pauses the running job at its next step, and the queued ones."""
        self._queue.pause(True)

    def resume(self) -> None:
        """Continues; if nothing is running, takes up pending documents (after a full disk, for example)."""
        self._queue.pause(False)
        with self._queue.locked:
            was_idle = self._queue.is_idle
            if self._queue.has_only_moves and self._catalog.ids_to_read():
                self._queue.put(self._left_undone())
            if was_idle and self._catalog.next_table() is not None:
                self._queue.put(Move())

    def go_on_if_there_is_room(self) -> None:
        """After a full disk, continues once there is room again; to be called regularly.

        The reserve is filled again as soon as there is room, also if only a removal needed it. A job that meets a full
        disk again, because it needs more than is free, is retried after longer and longer pauses.
        """
        has_room = self._reserve is not None and self._reserve.has_room()
        is_time = self._clock() >= self._goes_on_at
        if not self._runner.is_out_of_room:
            if is_time and self._queue.is_idle:
                self._patience_s = 0.0
        elif has_room and is_time:
            self._patience_s = min(MOST_PATIENCE_SECONDS, max(LEAST_PATIENCE_SECONDS, 2 * self._patience_s))
            self._goes_on_at = self._clock() + self._patience_s
            self._runner.is_out_of_room = False
            self._queue.put(self._left_undone())
            # Changes that were made while the disk was full were not indexed.
            self.rescan(is_unasked=True)
            if self._catalog.next_table() is not None:
                self._queue.put(Move())

    def forget_when_idle(self) -> None:
        """Queues deleting removed text from the disk while nothing else is to do; to be called regularly."""
        indexer = self._runner.indexer
        with self._queue.locked:
            has_time = self._queue.is_idle and not (self._queue.is_paused or self._queue.is_stopping)
            if has_time and indexer is not None and indexer.is_forgetting_due(self._can_spare):
                self._queue.put(Forget())

    def cancel(self) -> None:
        """Cancels the running job and the queued ones, except looks that no user asked for; what is indexed stays.

        Harmless when nothing runs.
        """
        with self._queue.locked:
            waiting = self._queue.cancel()
            # The running job gives up its own survey when it ends: it may be about to enter files.
            self._catalog.give_up_surveys(keep=self._queue.roots_running)
        for job in waiting:
            self._reporter.ended(job, NEVER_BEGUN)

    def prioritise(self, paths: Sequence[str]) -> IndexJob | None:
        """Has pending documents at or below these paths read next, also while others are read.

        Returns:
            The job that reads them; None if the running job does, or if a root must be looked at first.

        Raises:
            NothingThere: One of the paths has no documents of the library; then nothing is changed.
        """
        absolute = [os.path.abspath(path) for path in paths]
        unseen = frozenset(self._unseen())
        for path in absolute:
            if unseen.isdisjoint(upwards(path)) and not self._catalog.has_below(path):
                raise NothingThere(
                    f"No document at {shown_path(path)} is in the library.", "Add the file or folder first."
                )
        with self._queue.locked:
            with self._catalog.transaction():
                wanted = frozenset[int]().union(*map(self._catalog.prioritise, absolute))
            self._queue.put_first(absolute)
            indexer = self._runner.indexer
            others = indexer.hurry(wanted) if indexer is not None and self._queue.is_running else wanted
            return self._queue.put(ReadNext(others), is_next=True) if others else None

    def consider_move(self) -> IndexJob:
        """Queues moving the library to the embedding model that the settings name, to run when nothing else waits.

        To be called when the settings name another model, or the current one again. The job ends at once if there is
        nothing to move, or no such model; the state of the embedder says why.
        """
        return self._queue.put_move()

    def _left_undone(self) -> Resume:
        return Resume(self._unseen())

    def _unseen(self) -> tuple[str, ...]:
        """The roots that have not been looked at yet."""
        return tuple(root.path for root in self._catalog.roots() if not root.is_surveyed)


def not_added(missing: Sequence[str]) -> str:
    """Returns a sentence about paths that do not exist, while others were added."""
    others = len(missing) - 1
    more = {0: "", 1: " and one other"}.get(others, f" and {others:,} others")
    return f"Not added, because nothing is there: {shown_path(missing[0])}{more}."
