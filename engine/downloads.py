"""Downloads: models are fetched one at a time, on a thread that exists only while there are any."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from engine.core import Download
from engine.errors import DownloadCut, RagdollError
from engine.events import DownloadsChanged, Event, Publish
from engine.models.fetched import Fetched
from engine.models.source import Folder, Source

log = logging.getLogger(__name__)
# How often progress is published.
TELL_SECONDS = 0.25
# The rate is that of the last seconds; earlier it would be a guess.
WINDOW_SECONDS, JUDGE_SECONDS = 10.0, 1.0
# The engine's end does not wait for a silent connection: what was downloaded is on the disk.
STOP_SECONDS = 1.0
# A download whose connection failed is retried after these seconds; the last one is repeated.
AGAIN_SECONDS = (60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0)
# The longest pause, whatever the hub asks for: a clock may be wrong.
LONGEST_PAUSE_SECONDS = 6 * 3600.0
# How often to check whether a pause is over: on a machine that slept, the monotonic clock may have stood still.
LOOK_SECONDS = 30.0
# Smaller corrections of the clock are ignored.
_TELL_SHIFT_SECONDS = 1.0

# What is downloaded: a file, or the needed files of a repository.
Wanted = TypeVar("Wanted", Source, Folder)
Pause = Callable[[float], object]
Fetch = Callable[[Wanted, Pause], Generator[Fetched, None, None]]


class Speed:
    """The download rate over the last seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, num_bytes: int) -> float | None:
        """Returns bytes per second, given how many there are now; None while it is unknown."""
        now, samples = self._clock(), self._samples
        if samples and num_bytes < samples[-1][1]:
            samples.clear()
        samples.append((now, num_bytes))
        while now - samples[0][0] > WINDOW_SECONDS and len(samples) > 2:
            samples.popleft()
        seconds = now - samples[0][0]
        return (num_bytes - samples[0][1]) / seconds if seconds >= JUDGE_SECONDS else None


@dataclass(slots=True, eq=False)
class _Job(Generic[Wanted]):
    """`num_cuts` attempts failed since `num_bytes` were there, and the next is not before `due` or `due_at`.

    `due` is by the monotonic clock, which may stand still while the machine sleeps; `due_at` is by the wall
    clock, which continues then, but may be set.
    """

    source: Wanted
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    due: float = -math.inf
    due_at: float = -math.inf
    num_cuts: int = 0
    num_bytes: int = 0

    def wait_s(self, now: float, now_at: float) -> float:
        """Returns how long it is to wait, by the clock that says less: a clock that was set back delays nothing."""
        return min(self.due - now, self.due_at - now_at)


class Downloads(Generic[Wanted]):
    """Downloads in the background, one at a time; usable from any thread. `publish` receives the state of all."""

    def __init__(
        self,
        fetch: Fetch[Wanted],
        publish: Publish,
        clock: Callable[[], float] = time.monotonic,
        again_s: Sequence[float] = AGAIN_SECONDS,
        told_as: Callable[[tuple[Download, ...]], Event] = DownloadsChanged,
        wall_clock: Callable[[], float] = time.time,
        look_s: float = LOOK_SECONDS,
    ) -> None:
        """Prepares.

        Args:
            fetch: Downloads a file and puts it to use; its pauses end when it is cancelled.
            publish: Receives the state of all downloads.
            clock: Seconds, for rates and pauses.
            again_s: The pauses before the first retry of a failed connection, the second, and so on.
            told_as: Makes the event from the state of all downloads.
            wall_clock: Seconds since the epoch, by a clock that may be set.
            look_s: How often to check whether a pause is over.
        """
        self._fetch: Fetch[Wanted] = fetch
        self._wall_clock, self._look_s = wall_clock, look_s
        self._publish, self._told_as, self._clock, self._again_s = publish, told_as, clock, again_s
        self._lock, self._telling = threading.Lock(), threading.Lock()
        # Notified when a download was added or cancelled, and at the end.
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[_Job[Wanted]] = deque()
        # Those that wait or are being downloaded.
        self._jobs: dict[Wanted, _Job[Wanted]] = {}
        self._told: dict[Wanted, Download] = {}
        self._thread: threading.Thread | None = None

    def start(self, source: Wanted) -> None:
        """Queues a download; one in progress continues, at once if its connection had failed."""
        with self._lock:
            before = self._told.get(source, Download(str(source)))
            if source in self._jobs:
                self._jobs[source].due = -math.inf
                self._changed.notify()
                if before.state != "cut":
                    return
            else:
                self._jobs[source] = job = _Job(source)
                self._waiting.append(job)
            # Earlier problems are forgotten.
            self._told[source] = _in_line(before)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="downloads", daemon=True)
                self._thread.start()
        self._tell()

    def cancel(self, source: Wanted) -> None:
        """Stops it soon, and returns at once; what was downloaded is kept. Harmless if it has ended."""
        with self._lock:
            job = self._jobs.pop(source, None)
            if job is None:
                return
            job.is_cancelled.set()
            self._changed.notify()
            self._told[source] = replace(_at_rest(self._told[source]), problem="", way_out="")
        self._tell()

    def forget(self, source: Wanted) -> None:
        """Stops it likewise, and removes it from the list."""
        self.cancel(source)
        with self._lock:
            if source not in self._jobs:
                self._told.pop(source, None)
        self._tell()

    def now(self) -> dict[str, Download]:
        """Returns the state of all downloads since the start, by source."""
        with self._lock:
            return {str(source): download for source, download in self._told.items()}

    def stop(self) -> None:
        """Stops all."""
        with self._lock:
            jobs, thread = list(self._jobs.values()), self._thread
            self._jobs.clear()
            self._waiting.clear()
            self._changed.notify()
        for job in jobs:
            job.is_cancelled.set()
        if thread is not None:
            thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self._tell()
            try:
                self._carry_out(job)
            except DownloadCut as cut:
                self._put_off(job, cut)
            except RagdollError as error:
                self._end(job, partial(_failed, error))
            except Exception as error:
                log.exception("getting %s failed", job.source)
                failure = RagdollError(f"The download of the model failed: {error}.", "See the log, and try again.")
                self._end(job, partial(_failed, failure))

    def _next(self) -> _Job[Wanted] | None:
        """Waits for the first one that is due, and returns it; None when none waits any more."""
        while True:
            with self._changed:
                waiting = [job for job in self._waiting if not job.is_cancelled.is_set()]
                if not waiting:
                    self._waiting.clear()
                    self._thread = None
                    return None
                now, now_at = self._clock(), self._wall_clock()
                pauses_s = [job.wait_s(now, now_at) for job in waiting]
                job = next((job for job, wait_s in zip(waiting, pauses_s, strict=True) if wait_s <= 0), None)
                if job is not None:
                    self._waiting.remove(job)
                    self._told[job.source] = _in_line(self._told[job.source])
                    return job
                was_set_back = self._follow_clock(waiting, now, now_at)
                if not was_set_back:
                    self._changed.wait(min(*pauses_s, self._look_s))
            if was_set_back:
                self._tell()

    def _follow_clock(self, waiting: Sequence[_Job[Wanted]], now: float, now_at: float) -> bool:
        """Corrects the announced times of retries after the clock was set back; returns whether any has changed."""
        were_late = [job for job in waiting if job.due_at - now_at > job.due - now + _TELL_SHIFT_SECONDS]
        for job in were_late:
            job.due_at = now_at + job.due - now
            self._told[job.source] = replace(self._told[job.source], again_at=job.due_at)
        return bool(were_late)

    def _carry_out(self, job: _Job[Wanted]) -> None:
        speed, told_at = Speed(self._clock), -math.inf
        with closing(self._fetch(job.source, job.is_cancelled.wait)) as steps:
            for step in steps:
                if job.is_cancelled.is_set():
                    return
                if self._clock() - told_at >= TELL_SECONDS:
                    told_at = self._clock()
                    self._note(job, _under_way(step, job.source, speed))
        self._end(job, _arrived)

    def _note(self, job: _Job[Wanted], download: Download) -> None:
        with self._lock:
            if self._jobs.get(job.source) is not job:
                return
            self._told[job.source] = download
        self._tell()

    def _put_off(self, job: _Job[Wanted], cut: DownloadCut) -> None:
        """Schedules a retry, later after each attempt that downloaded nothing."""
        with self._lock:
            if self._jobs.get(job.source) is not job:
                return
            told = self._told[job.source]
            job.num_cuts = 0 if told.num_bytes > job.num_bytes else job.num_cuts
            asked_s = min(cut.wait_s or 0.0, LONGEST_PAUSE_SECONDS)
            pause_s = max(self._again_s[min(job.num_cuts, len(self._again_s) - 1)], asked_s)
            job.due, job.due_at = self._clock() + pause_s, self._wall_clock() + pause_s
            job.num_bytes, job.num_cuts = told.num_bytes, job.num_cuts + 1
            self._told[job.source] = _cut(cut, told, job.due_at)
            self._waiting.append(job)
        self._tell()

    def _end(self, job: _Job[Wanted], ended: Callable[[Download], Download]) -> None:
        with self._lock:
            if self._jobs.get(job.source, job) is not job:
                # It was cancelled and queued again.
                return
            download = ended(self._told.get(job.source, Download(str(job.source))))
            if job.is_cancelled.is_set() and download.state != "there":
                # It was cancelled, so its problem is not reported.
                return
            self._jobs.pop(job.source, None)
            self._told[job.source] = download
        self._tell()

    def _tell(self) -> None:
        # Under a lock, so that the state published last is the newest.
        with self._telling:
            self._publish(self._told_as(tuple(self.now().values())))


def _under_way(step: Fetched, source: Source | Folder, speed: Speed) -> Download:
    rate = speed.note(step.num_bytes) if step.is_new else None
    return Download(
        str(source),
        "fetching" if step.is_new else "checking",
        step.num_bytes,
        step.total_bytes,
        bytes_per_second=rate,
        seconds_left=(step.total_bytes - step.num_bytes) / rate if rate else None,
    )


def _in_line(told: Download) -> Download:
    return replace(told, state="waiting", problem="", way_out="", again_at=None)


def _at_rest(told: Download) -> Download:
    state = told.state if told.state == "there" else "part" if told.num_bytes else "absent"
    return replace(told, state=state, bytes_per_second=None, seconds_left=None, again_at=None)


def _arrived(told: Download) -> Download:
    return replace(_at_rest(told), state="there")


def _cut(cut: DownloadCut, told: Download, again_at: float) -> Download:
    way_out = "The download continues by itself after that; what was downloaded is kept."
    return replace(_at_rest(told), state="cut", problem=cut.sentence, way_out=way_out, again_at=again_at)


def _failed(error: RagdollError, told: Download) -> Download:
    return replace(_at_rest(told), problem=error.sentence, way_out=error.way_out)
