"""Reporting indexing jobs: progress at a bounded rate, and no reports of looks that changed nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from engine.errors import DiskFull, LibraryError, RagdollError, is_disk_full
from engine.events import IndexFailed, IndexFinished, IndexProgressed, LibraryChanged, ProblemFound, Publish
from engine.library.jobs import IndexJob
from engine.library.pace import Clock
from engine.library.throttle import Throttle

log = logging.getLogger(__name__)

NOTHING_TO_DO = IndexFinished(0, 0, 0, (), (), 0, 0.0)
_PROGRESS_SECONDS = 0.1
_LIBRARY_SECONDS = 1.0


class JobReporter:
    """Publishes what becomes of jobs. Used on the worker's thread, but for `changed` and `ended`: those from any."""

    def __init__(
        self, publish: Publish, clock: Clock, has_cut_in: Callable[[], bool], gives_way: Callable[[], bool]
    ) -> None:
        """`has_cut_in` says whether the job under way has cut in on another, which is the one that people watch.

        `gives_way` says whether jobs are slow because a user waits for an answer.
        """
        self._publish, self._has_cut_in, self._gives_way = publish, has_cut_in, gives_way
        self._progress = Throttle(_PROGRESS_SECONDS, clock)
        self._changes = Throttle(_LIBRARY_SECONDS, clock)
        self._is_told = False
        # Where the job that people watch was when they were told last.
        self._shown: IndexProgressed | None = None

    def begun(self, *, cuts_in: bool) -> None:
        """A job begins, of which nothing has been told."""
        self._is_told = self._is_told and cuts_in
        self._shown = self._shown if cuts_in else None

    def step(self, job: IndexJob, progress: IndexProgressed) -> None:
        """Where a job is, if it is time to tell again."""
        if (progress.documents_total or not job.is_unasked) and self._progress.is_due():
            self.progress(progress)
        if self._changes.is_due():
            self.changed()

    def progress(self, progress: IndexProgressed) -> None:
        """Where a job is, now."""
        # The counts of a job that cut in would make those of the other jump back and forth.
        if not self._has_cut_in():
            self._show(progress)

    def rest(self, progress: IndexProgressed, *, is_paused: bool) -> None:
        """A pause begins or ends at this place of a job; of one that has cut in, at that of the job people watch."""
        shown = self._shown if self._has_cut_in() else None
        self._show(replace(shown or progress, is_paused=is_paused))

    def _show(self, progress: IndexProgressed) -> None:
        self._is_told, self._shown = True, progress
        self._publish(replace(progress, gives_way=self._gives_way()))

    def changed(self) -> None:
        self._publish(LibraryChanged())

    def failed(self, error: RagdollError) -> None:
        self._publish(IndexFailed(error))

    def problem(self, sentence: str) -> None:
        """Something that no job is to blame for."""
        self._publish(ProblemFound(sentence))

    def ended(self, job: IndexJob, finished: IndexFinished) -> None:
        """A job is over; its asker hears it too."""
        self.changed()
        # Who was told that it goes on is told that it is over; nobody needs to hear that nothing had changed.
        is_told = self._is_told and not self._has_cut_in()
        if is_told or not (job.is_unasked and replace(finished, seconds=0.0, unchanged=0) == NOTHING_TO_DO):
            self._publish(finished)
        job.ended.set_result(finished)


def as_told(error: Exception) -> RagdollError:
    """An error as it is shown to users."""
    if isinstance(error, RagdollError):
        return error
    if is_disk_full(error):
        return DiskFull("The disk is full.", "Free some space and start again; what is indexed so far is kept.")
    log.exception("the index worker met a fault of ours", exc_info=error)
    return LibraryError(
        f"Indexing met an unexpected error: {error}.", "What is indexed so far is kept. Please report it."
    )
