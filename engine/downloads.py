"""Downloads: models on their way here, one at a time, on a thread that is there as long as there are any."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from engine.core import Download
from engine.errors import RagdollError
from engine.events import DownloadsChanged, Publish
from engine.models.download import Fetched
from engine.models.source import Source

log = logging.getLogger(__name__)
# So often it is told how far they are.
TELL_SECONDS = 0.25
# The rate is that of the last seconds; before that many of them it would be a guess.
WINDOW_SECONDS, JUDGE_SECONDS = 10.0, 1.0
# A connection that is silent is not waited for when the engine ends: what came of it is on the disk.
STOP_SECONDS = 1.0

Pause = Callable[[float], object]
Fetch = Callable[[Source, Pause], Generator[Fetched, None, None]]


class Speed:
    """How fast bytes come, by the last seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, num_bytes: int) -> float | None:
        """Bytes a second, by how many are there now; None where that cannot be told yet."""
        now, samples = self._clock(), self._samples
        if samples and num_bytes < samples[-1][1]:
            samples.clear()
        samples.append((now, num_bytes))
        while now - samples[0][0] > WINDOW_SECONDS and len(samples) > 2:
            samples.popleft()
        seconds = now - samples[0][0]
        return (num_bytes - samples[0][1]) / seconds if seconds >= JUDGE_SECONDS else None


@dataclass(slots=True, eq=False)
class _Job:
    source: Source
    is_cancelled: threading.Event = field(default_factory=threading.Event)


class Downloads:
    """Carries out what is asked of it from any thread; `publish` hears how all of them stand."""

    def __init__(self, fetch: Fetch, publish: Publish, clock: Callable[[], float] = time.monotonic) -> None:
        """`fetch` brings a file here and does all that makes it one of ours; its pauses end when it is cancelled."""
        self._fetch, self._publish, self._clock = fetch, publish, clock
        self._lock, self._telling = threading.Lock(), threading.Lock()
        self._waiting: deque[_Job] = deque()
        # Those that are wanted: waiting, or on their way.
        self._jobs: dict[Source, _Job] = {}
        self._told: dict[Source, Download] = {}
        self._thread: threading.Thread | None = None

    def start(self, source: Source) -> None:
        """Fetches it behind those that were asked for before; one that is under way already goes on."""
        with self._lock:
            if source in self._jobs:
                return
            self._jobs[source] = job = _Job(source)
            self._waiting.append(job)
            before = self._told.get(source, Download(str(source)))
            self._told[source] = replace(before, state="waiting", problem="", way_out="")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="downloads", daemon=True)
                self._thread.start()
        self._tell()

    def cancel(self, source: Source) -> None:
        """Stops it, and waits for nothing; what was fetched is kept. Harmless where it has ended."""
        with self._lock:
            job = self._jobs.pop(source, None)
            if job is None:
                return
            job.is_cancelled.set()
            self._told[source] = _at_rest(self._told[source])
        self._tell()

    def forget(self, source: Source) -> None:
        """Stops it likewise, and tells of it no more."""
        self.cancel(source)
        with self._lock:
            if source not in self._jobs:
                self._told.pop(source, None)
        self._tell()

    def now(self) -> dict[str, Download]:
        """How those stand that were asked for since the start, by their sources."""
        with self._lock:
            return {str(source): download for source, download in self._told.items()}

    def stop(self) -> None:
        """Stops all."""
        with self._lock:
            jobs, thread = list(self._jobs.values()), self._thread
            self._jobs.clear()
            self._waiting.clear()
        for job in jobs:
            job.is_cancelled.set()
        if thread is not None:
            thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._carry_out(job)
            except RagdollError as error:
                self._end(job, partial(_failed, error))
            except Exception as error:
                log.exception("getting %s failed", job.source)
                failure = RagdollError(f"Getting the model failed: {error}.", "Look into the log, and try again.")
                self._end(job, partial(_failed, failure))

    def _next(self) -> _Job | None:
        with self._lock:
            while self._waiting:
                job = self._waiting.popleft()
                if not job.is_cancelled.is_set():
                    return job
            self._thread = None
            return None

    def _carry_out(self, job: _Job) -> None:
        speed, told_at = Speed(self._clock), -math.inf
        with closing(self._fetch(job.source, job.is_cancelled.wait)) as steps:
            for step in steps:
                if job.is_cancelled.is_set():
                    return
                if self._clock() - told_at >= TELL_SECONDS:
                    told_at = self._clock()
                    self._note(job, _under_way(step, job.source, speed))
        self._end(job, _arrived)

    def _note(self, job: _Job, download: Download) -> None:
        with self._lock:
            if self._jobs.get(job.source) is not job:
                return
            self._told[job.source] = download
        self._tell()

    def _end(self, job: _Job, ended: Callable[[Download], Download]) -> None:
        with self._lock:
            if self._jobs.get(job.source, job) is not job:
                # It was cancelled and asked for again.
                return
            download = ended(self._told.get(job.source, Download(str(job.source))))
            if job.is_cancelled.is_set() and download.state != "there":
                # Nobody wants to hear what was wrong with it.
                return
            self._jobs.pop(job.source, None)
            self._told[job.source] = download
        self._tell()

    def _tell(self) -> None:
        # One after the other, so that the last that is told is how they stand.
        with self._telling:
            self._publish(DownloadsChanged(tuple(self.now().values())))


def _under_way(step: Fetched, source: Source, speed: Speed) -> Download:
    rate = speed.note(step.num_bytes) if step.is_new else None
    return Download(
        str(source),
        "fetching" if step.is_new else "checking",
        step.num_bytes,
        step.total_bytes,
        bytes_per_second=rate,
        seconds_left=(step.total_bytes - step.num_bytes) / rate if rate else None,
    )


def _at_rest(told: Download) -> Download:
    state = told.state if told.state == "there" else "part" if told.num_bytes else "absent"
    return replace(told, state=state, bytes_per_second=None, seconds_left=None)


def _arrived(told: Download) -> Download:
    return replace(_at_rest(told), state="there")


def _failed(error: RagdollError, told: Download) -> Download:
    return replace(_at_rest(told), problem=error.sentence, way_out=error.way_out)
