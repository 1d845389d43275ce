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
    """Publishes the progress and end of jobs. For the index thread, except `changed` and `ended`: for any thread."""

    def __init__(
        self, publish: Publish, clock: Clock, has_cut_in: Callable[[], bool], gives_way: Callable[[], bool]
    ) -> None:
        """Takes where to publish, and what to ask.

        `has_cut_in` returns whether the running job has cut in on another one, which is the job that users watch.
        `gives_way` returns whether jobs are slow because a user waits for an answer.
        """
        self._publish, self._has_cut_in, self._gives_way = publish, has_cut_in, gives_way
        self._progress = Throttle(_PROGRESS_SECONDS, clock)
        self._changes = Throttle(_LIBRARY_SECONDS, clock)
        self._is_told = False
        # The progress that was last published of the job that users watch.
        self._shown: IndexProgressed | None = None

    def begun(self, *, cuts_in: bool) -> None:
        """Notes that a job begins, about which nothing has been published."""
        self._is_told = self._is_told and cuts_in
        self._shown = self._shown if cuts_in else None

    def step(self, job: IndexJob, progress: IndexProgressed) -> None:
        """Publishes the progress of a job, if it is time to."""
        if (progress.documents_total or not job.is_unasked) and self._progress.is_due():
            self.progress(progress)
        if self._changes.is_due():
            self.changed()

    def progress(self, progress: IndexProgressed) -> None:
        """Publishes the progress of a job now."""
        # Counts of a job that cut in would make the shown counts jump back and forth.
        if not self._has_cut_in():
            self._show(progress)

    def rest(self, progress: IndexProgressed, *, is_paused: bool) -> None:
        """Publishes that a pause begins or ends, with the progress of the job that users watch."""
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
        """Publishes a problem that belongs to no job."""
        self._publish(ProblemFound(sentence))

    def ended(self, job: IndexJob, finished: IndexFinished) -> None:
        """Publishes the end of a job, and completes its handle."""
        self.changed()
        # An end is published if progress was; otherwise, a look that changed nothing is not mentioned.
        is_told = self._is_told and not self._has_cut_in()
        if is_told or not (job.is_unasked and replace(finished, seconds=0.0, unchanged=0) == NOTHING_TO_DO):
            self._publish(finished)
        job.ended.set_result(finished)


def as_told(error: BaseException) -> RagdollError:
    """Returns an error as it is shown to users."""
    if isinstance(error, RagdollError):
        return error
    if is_disk_full(error):
        return DiskFull("The disk is full.", "Free some space and start again; what is indexed so far is kept.")
    log.exception("the index worker met a fault of ours", exc_info=error)
    return LibraryError(
        f"Indexing met an unexpected error: {error}.", "What is indexed so far is kept. Please report it."
    )
