"""The profile in force: read at the start, measured once in the background, refined by every observation, kept.

Safe from any thread. What was learnt is written at most once a minute, and at the end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from engine.memory.bandwidth import measured
from engine.memory.measured import Measured
from engine.memory.profile import Observation, Profile, refined
from engine.memory.profile_file import load_profile, save_profile

log = logging.getLogger(__name__)
SAVED_EVERY_SECONDS = 60.0
# A start comes first, and a question that is asked at once.
MEASURED_AFTER_SECONDS = 20.0
Measure: TypeAlias = Callable[[Profile, Path, Callable[[], bool]], Profile]


def measuring(sample: Callable[[], Path | None] = lambda: None) -> Measure:
    """Measures bandwidths, that of the disk on `sample` where it is a large file: models may be on another disk."""
    return lambda profile, folder, is_wanted: measured(profile, folder, sample(), is_wanted=is_wanted)


class KnownProfile:
    """Calling it gives the profile; it never waits for a measurement."""

    def __init__(
        self,
        file: Path,
        measure: Measure | None = None,
        clock: Callable[[], float] = time.monotonic,
        delay_seconds: float = MEASURED_AFTER_SECONDS,
    ) -> None:
        """Reads what is known.

        Args:
            file: Where it is kept (`profile_file`).
            measure: Measures, in a folder that it may write to, as long as it is wanted.
            clock: Seconds that never go back.
            delay_seconds: So long after the start bandwidths are measured.
        """
        self._file, self._measure, self._clock, self._delay = file, measure or measuring(), clock, delay_seconds
        self._lock = threading.Lock()
        known = load_profile(file)
        self._profile = Profile() if known is None else known
        self._saved, self._saved_at = self._profile, clock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def __call__(self) -> Profile:
        return self._profile

    @property
    def is_measuring(self) -> bool:
        """Whether bandwidths are being measured."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Has the bandwidths measured a little later, unless they have been, on a thread of its own."""
        if not self._profile.is_measured and self._thread is None:
            self._thread = threading.Thread(target=self._measure_now, name="bandwidth", daemon=True)
            self._thread.start()

    def note(self, observation: Observation) -> None:
        """Learns from what was seen."""
        with self._lock:
            self._profile = refined(self._profile, observation)
            is_time = self._clock() - self._saved_at >= SAVED_EVERY_SECONDS
        if is_time:
            self._save()

    def note_table(self, key: str, change: Callable[[Measured], Measured]) -> None:
        """Takes in a measurement of a model, and keeps it at once: whoever is killed goes on behind it."""
        with self._lock:
            self._profile = self._profile.with_table(key, change(self._profile.table(key)))
        self._save()

    def close(self) -> None:
        """Gives up a measurement, and keeps what was learnt. A second call does nothing."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._save()

    def _measure_now(self) -> None:
        if self._closed.wait(self._delay):
            return
        try:
            profile = self._measure(self._profile, self._file.parent, lambda: not self._closed.is_set())
        except Exception:
            # Nobody waits for it: the careful defaults stay, and steps refine them.
            log.exception("the bandwidths of this machine could not be measured")
            return
        with self._lock:
            self._profile = replace(profile, tables=self._profile.tables)
        self._save()

    def _save(self) -> None:
        with self._lock:
            profile, is_new = self._profile, self._profile != self._saved
            self._saved, self._saved_at = profile, self._clock()
        if is_new:
            save_profile(self._file, profile)
