"""Jobs: what the index worker can be asked to do, and the handle by which the asker waits for it."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from engine.errors import LibraryError
from engine.events import IndexFinished


@dataclass(frozen=True, slots=True)
class IndexRoots:
    """Look at these roots (None: at all), and index what is new or changed.

    `retry` reads again what failed before, as when the user asks for a folder a second time. `is_unasked`: nobody
    waits for it, so it is told of only when something came of it.
    """

    paths: tuple[str, ...] | None
    retry: bool = False
    is_unasked: bool = False


@dataclass(frozen=True, slots=True)
class Refresh:
    """Look at these files and folders below roots, because something happened there, and index what is new or changed.

    Two of them make one: what waits does not pile up. Told of only when something came of it.
    """

    paths: tuple[str, ...]

    def __or__(self, other: Refresh) -> Refresh:
        return Refresh(tuple(dict.fromkeys((*self.paths, *other.paths))))


@dataclass(frozen=True, slots=True)
class Reindex:
    """Read these documents again, or all below these folders, whatever became of them before."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with what an earlier run left undone: roots that it had not looked at yet, and pending documents."""

    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadNext:
    """Read these pending documents now: somebody waits for them."""

    document_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Move:
    """Go on moving the library to the embedding model that the settings name, when there is nothing else to do."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Have what was removed leave the disk as well, when there is nothing else to do."""


Job = IndexRoots | Refresh | Reindex | Resume | ReadNext | Forget


class TooMuch(LibraryError):
    """A job that was to cut in on another found more than a moment's work; it waits for its turn."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class IndexJob:
    """A job as its asker sees it; usable from any thread."""

    job: Job | Move
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
    def is_move(self) -> bool:
        return isinstance(self.job, Move)

    @property
    def is_unasked(self) -> bool:
        """Whether nobody asked for it, so that nothing need be said when nothing came of it."""
        return isinstance(self.job, Refresh | Resume | Move | Forget) or (
            isinstance(self.job, IndexRoots) and self.job.is_unasked
        )

    @property
    def paths(self) -> tuple[str, ...]:
        """The roots of which this job is the survey."""
        return () if isinstance(self.job, Refresh | Reindex | ReadNext | Move | Forget) else self.job.paths or ()
