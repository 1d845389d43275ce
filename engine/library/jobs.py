"""Jobs: what the index worker can be asked to do, and the handle by which the asker waits for it."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from engine.events import IndexFinished


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


@dataclass(frozen=True, slots=True, eq=False)
class IndexJob:
    """A job as its asker sees it; usable from any thread."""

    job: Job
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: Future[IndexFinished] = field(default_factory=Future)

    def wait(self, timeout_seconds: float | None = None) -> IndexFinished:
        """Waits for the end.

        Raises:
            RagdollError: Why the job failed.
            TimeoutError: It has not ended yet.
        """
        return self.ended.result(timeout_seconds)

    @property
    def paths(self) -> tuple[str, ...]:
        """The roots of which this job is the survey."""
        return () if isinstance(self.job, Reindex) else self.job.paths or ()
