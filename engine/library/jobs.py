"""Jobs: the requests to the index worker, and the handle by which a caller waits for one."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from engine.errors import LibraryError
from engine.events import IndexFinished
from engine.interruptible import result_of


@dataclass(frozen=True, slots=True)
class IndexRoots:
    """Look at these roots (None: at all), and index what is new or changed.

    `retry`: also read what failed before, because the user added the folder a second time. `is_unasked`: no caller
    waits for it, so it is reported only if it changed something.
    """

    paths: tuple[str, ...] | None
    retry: bool = False
    is_unasked: bool = False


@dataclass(frozen=True, slots=True)
class Refresh:
    """Look at these files and folders below roots, because something happened there, and index what is new or changed.

    Two of them are merged, so that they do not pile up. Reported only if it changed something.
    """

    paths: tuple[str, ...]

    def __or__(self, other: Refresh) -> Refresh:
        return Refresh(tuple(dict.fromkeys((*self.paths, *other.paths))))


@dataclass(frozen=True, slots=True)
class Reindex:
    """Read these documents again, or all below these folders, whatever their state."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue an interrupted run: roots that have not been looked at yet, and pending documents."""

    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadNext:
    """Read these pending documents now: a user waits for them."""

    document_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Move:
    """When nothing else is to do, continue moving the library to the embedding model that the settings name."""


@dataclass(frozen=True, slots=True)
class Forget:
    """When nothing else is to do, delete removed text from the disk as well."""


Job = IndexRoots | Refresh | Reindex | Resume | ReadNext | Forget


class TooMuch(LibraryError):
    """A job that cut in on another one found more than a moment's work; it is queued again."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class IndexJob:
    """The caller's handle to a job; usable from any thread."""

    job: Job | Move
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: Future[IndexFinished] = field(default_factory=Future)

    def wait(self, timeout_seconds: float | None = None) -> IndexFinished:
        """Waits until the job ends.

        Raises:
            RagdollError: Why the job failed.
            TimeoutError: It has not ended yet.
        """
        return result_of(self.ended) if timeout_seconds is None else self.ended.result(timeout_seconds)

    @property
    def is_move(self) -> bool:
        return isinstance(self.job, Move)

    @property
    def is_unasked(self) -> bool:
        """Whether no user asked for it; then it is not reported if it changed nothing."""
        return isinstance(self.job, Refresh | Resume | Move | Forget) or (
            isinstance(self.job, IndexRoots) and self.job.is_unasked
        )

    @property
    def is_unasked_look(self) -> bool:
        """Whether it is a look that no user asked for; such a look survives a cancel, or changes would be lost."""
        return isinstance(self.job, Refresh) or (isinstance(self.job, IndexRoots) and self.job.is_unasked)

    @property
    def paths(self) -> tuple[str, ...]:
        """The roots that this job surveys."""
        return () if isinstance(self.job, Refresh | Reindex | ReadNext | Move | Forget) else self.job.paths or ()
