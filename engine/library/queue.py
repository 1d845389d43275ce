"""The queue of the index worker: jobs that wait, jobs that run, and removals, which wait for neither.

Any thread may add something; one thread takes it out. A short job may cut in on a long one that runs.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain

from engine.errors import LibraryError
from engine.interruptible import result_of
from engine.library.changes import upwards
from engine.library.indexer import Indexer
from engine.library.jobs import IndexJob, IndexRoots, Job, Move, Refresh


@dataclass(frozen=True, slots=True, eq=False)
class Removal:
    """A removal from the library that waits to be carried out."""

    carry_out: Callable[[Indexer], int]
    removed: Future[int] = field(default_factory=Future)


class JobQueue:
    """The queue, under one lock; callers hold `locked` for work that must happen together with adding a job."""

    def __init__(self) -> None:
        self.locked = threading.Condition()
        self._jobs: deque[IndexJob] = deque()
        self._removals: deque[Removal] = deque()
        # The last job is the one that progresses; it has cut in on the one before it, which waits.
        self._running: list[IndexJob] = []
        self._too_long: weakref.WeakSet[IndexJob] = weakref.WeakSet()
        self._is_paused = self._is_stopping = False

    # --- from any thread ---

    def put(self, wish: Job | Move, *, is_next: bool = False) -> IndexJob:
        """Queues a job. Raises LibraryError when the worker is being stopped."""
        job = IndexJob(wish)
        with self.locked:
            self._refuse_when_stopping()
            (self._jobs.appendleft if is_next else self._jobs.append)(job)
            self.locked.notify_all()
        return job

    def put_once(self, wish: Job) -> IndexJob:
        """Returns the queued job for the same request, or queues a new one."""
        with self.locked:
            return next((job for job in self._jobs if job.job == wish), None) or self.put(wish)

    def put_or_join(self, wish: Refresh) -> IndexJob:
        """Merges this look into a queued one, or queues it."""
        with self.locked:
            for place, job in enumerate(self._jobs):
                # A merged job would be a new one, which would try again to cut in although it is too long.
                if isinstance(job.job, Refresh) and job not in self._too_long:
                    self._jobs[place] = replace(job, job=job.job | wish)
                    return job
            return self.put(wish)

    def remove(self, carry_out: Callable[[Indexer], int]) -> int:
        """Has a removal carried out between two steps, and waits for it. Raises as the removal does."""
        removal = Removal(carry_out)
        with self.locked:
            self._refuse_when_stopping()
            self._removals.append(removal)
            self.locked.notify_all()
        return result_of(removal.removed)

    def put_first(self, paths: Sequence[str]) -> None:
        """Moves jobs that look at a root at or above one of the paths before the others."""
        with self.locked:
            above = frozenset(chain.from_iterable(map(upwards, paths)))
            self._jobs = deque(sorted(self._jobs, key=lambda job: above.isdisjoint(job.paths)))

    def pause(self, is_paused: bool) -> None:
        """Pauses running jobs at their next step, and queued ones, or continues them."""
        with self.locked:
            self._is_paused = is_paused
            self.locked.notify_all()

    def forget_pause(self) -> bool:
        """Ends a pause that came too late for the last job, unless more jobs wait; returns whether there was one.

        Otherwise it would pause later jobs, which the user did not mean.
        """
        with self.locked:
            is_over = self._is_paused and bool(self._running) and not self._jobs
            self._is_paused = self._is_paused and not is_over
        return is_over

    def cancel(self) -> list[IndexJob]:
        """Cancels running jobs; returns the queued ones, which are removed from the queue.

        Moves stay queued, and so do looks that no user asked for: their changes would be forgotten.
        """
        with self.locked:
            self._is_paused = False
            waiting = [job for job in self._jobs if not (job.is_move or job.is_unasked_look)]
            self._jobs = deque(job for job in self._jobs if job.is_move or job.is_unasked_look)
            self._cancel(self._running)
        return waiting

    def look_again(self, job: IndexJob) -> None:
        """Queues a look again if no user asked for it; it was cancelled before it was complete."""
        if isinstance(job.job, Refresh):
            self.put_or_join(job.job)
        elif isinstance(job.job, IndexRoots) and job.is_unasked_look:
            self.put_once(job.job)

    def put_move(self) -> IndexJob:
        """Queues a move, and cancels one that is running."""
        with self.locked:
            self._cancel([job for job in self._running if job.is_move])
            return self.put(Move())

    def stop(self) -> None:
        """Stops the queue: nothing more is accepted or handed out."""
        with self.locked:
            self._is_stopping = True
            self._cancel(self._running)

    @property
    def is_idle(self) -> bool:
        return not self._running and not self._jobs

    @property
    def has_only_moves(self) -> bool:
        """Whether only moves run or wait; an ended job does not count, even if the thread still holds it."""
        return all(job.is_move or job.ended.done() for job in (*self._running, *self._jobs))

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @property
    def is_awaited(self) -> bool:
        """Whether a user waits for the running job's next step: it is to end or pause, or a removal waits."""
        is_to_stop = self._is_paused or any(job.cancelled.is_set() for job in tuple(self._running))
        return bool(self._removals) or is_to_stop

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    @property
    def has_cut_in(self) -> bool:
        """Whether the current job has cut in on another one."""
        return len(self._running) > 1

    @property
    def roots_running(self) -> list[str]:
        """The roots that running jobs survey."""
        return [path for job in self._running for path in job.paths]

    @property
    def roots_waiting(self) -> list[str]:
        return [path for job in self._jobs for path in job.paths]

    @property
    def has_other_than_moves(self) -> bool:
        with self.locked:
            return any(not job.is_move for job in self._jobs)

    # --- from the worker's thread ---

    def next(self) -> IndexJob | Removal | None:
        """Waits for the next job or removal; None when the worker is to stop."""
        with self.locked:
            self._running.clear()
            self.locked.wait_for(lambda: self._is_stopping or self._removals or (self._jobs and not self._is_paused))
            if self._is_stopping:
                return None
            if self._removals:
                return self._removals.popleft()
            # A move waits for all other jobs.
            job = min(self._jobs, key=lambda job: job.is_move)
            return self._begun(job)

    def next_removal(self) -> Removal | None:
        with self.locked:
            return self._removals.popleft() if self._removals else None

    def is_held(self, job: IndexJob) -> bool:
        """Returns whether a running job is paused."""
        return self._is_paused and not self._is_stopping and not job.cancelled.is_set()

    def rest(self, job: IndexJob, at_rest: AbstractContextManager[None]) -> None:
        """Waits in the context `at_rest` until the job may continue or a removal is queued."""
        with self.locked, at_rest:
            self.locked.wait_for(lambda: self._removals or not self.is_held(job))

    def next_to_cut_in(self) -> IndexJob | None:
        """Takes a job that may cut in on the running one; the caller must report its end to `has_ended`."""
        with self.locked:
            if len(self._running) != 1 or self._is_paused or self._running[0].cancelled.is_set():
                return None
            job = next((job for job in self._jobs if job not in self._too_long and not job.is_move), None)
            return self._begun(job) if job is not None else None

    def has_ended(self, job: IndexJob) -> None:
        with self.locked:
            self._running.remove(job)

    def wait_again(self, job: IndexJob) -> bool:
        """Queues a job again: a move behind all others, a job that was too long to cut in before all others.

        Returns False if the worker is being stopped.
        """
        with self.locked:
            if self._is_stopping:
                return False
            if job.is_move:
                self._jobs.append(job)
            else:
                self._too_long.add(job)
                self._jobs.appendleft(job)
            return True

    def empty(self) -> tuple[list[IndexJob], list[Removal]]:
        """Empties the queue after the worker has stopped, and returns what was left."""
        with self.locked:
            left = [*self._jobs], [*self._removals]
            self._jobs.clear()
            self._removals.clear()
        return left

    def _begun(self, job: IndexJob) -> IndexJob:
        self._jobs.remove(job)
        self._running.append(job)
        return job

    def _cancel(self, jobs: Sequence[IndexJob]) -> None:
        for job in jobs:
            job.cancelled.set()
        self.locked.notify_all()

    def _refuse_when_stopping(self) -> None:
        if self._is_stopping:
            raise closing_error()


def closing_error() -> LibraryError:
    return LibraryError("The library is being closed.")
