"""The profile in force: read at the start, measured once in the background, refined by every observation, saved.

A graphics card that is new to it is measured before the first model is placed on it, which takes a second or two: a
model leaves no room for that. Usable from any thread. What was learnt is written at most once a minute, and at the end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from engine.memory.bandwidth import measured
from engine.memory.device_rates import NEEDED_BYTES, device_rates
from engine.memory.devices import Device
from engine.memory.measured import Measured
from engine.memory.profile import Observation, Profile, refined
from engine.memory.profile_file import load_profile, save_profile

log = logging.getLogger(__name__)
SAVED_EVERY_SECONDS = 60.0
# A start comes first, and a question that is asked at once.
MEASURED_AFTER_SECONDS = 20.0
Measure: TypeAlias = Callable[[Profile, Path, Callable[[], bool]], Profile]
MeasureCard: TypeAlias = Callable[[Callable[[], bool]], Mapping[str, Any]]
# A driver sometimes takes as much for itself.
CARD_ROOM_BYTES = 2 * NEEDED_BYTES
_OF_CARD = (
    "card",
    "unmeasurable",
    "host_to_device_bytes_per_s",
    "pageable_to_device_bytes_per_s",
    "device_bytes_per_s",
    "device_rate",
)


def measuring(sample: Callable[[], Path | None] = lambda: None) -> Measure:
    """Measures bandwidths, the disk's on `sample` if it is a large file, since models may be on another disk."""
    return lambda profile, folder, is_wanted: measured(profile, folder, sample(), is_wanted=is_wanted)


class KnownProfile:
    """Calling it returns the profile; it never waits for a measurement."""

    def __init__(
        self,
        file: Path,
        measure: Measure | None = None,
        clock: Callable[[], float] = time.monotonic,
        delay_seconds: float = MEASURED_AFTER_SECONDS,
        measure_card: MeasureCard = device_rates,
    ) -> None:
        """Reads what is known.

        Args:
            file: Where it is kept (`profile_file`).
            measure: Measures, in a folder that it may write to, as long as it is wanted.
            clock: Seconds that never go back.
            delay_seconds: How long after the start bandwidths are measured.
            measure_card: Returns the rates of the first card, {} where they cannot be measured.
        """
        self._file, self._measure, self._clock, self._delay = file, measure or measuring(), clock, delay_seconds
        self._measure_card = measure_card
        # What could not be measured; another start may succeed.
        self._has_failed, self._unmeasurable = False, set[str]()
        self._lock, self._card_lock, self._saving = threading.Lock(), threading.Lock(), threading.Lock()
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

    def start(self, card: Device | None = None) -> None:
        """Measures what has not been measured, including the first graphics card, a little later on its own thread."""
        is_new = not (self._profile.is_measured or self._has_failed)
        if self.is_measuring or not (is_new or (card is not None and self._can_measure(card, is_again=True))):
            return
        self._thread = threading.Thread(target=self._measure_now, args=(is_new, card), name="bandwidth", daemon=True)
        self._thread.start()

    def measure_card(
        self, card: Device, is_wanted: Callable[[], bool] = lambda: True, *, is_again: bool = False
    ) -> None:
        """Measures the first graphics card, unless it has been or has no room for that now; waits for it.

        Args:
            card: That card.
            is_wanted: Called all the time; once it is False, the measurement is given up.
            is_again: Includes a card that could not be measured at another start, which may take long in vain.
        """
        # Loading a model must not wait for a try that it did not ask for.
        if not self._can_measure(card, is_again=is_again):
            return
        with self._card_lock:
            if not self._can_measure(card, is_again=is_again):
                return
            rates = self._measure_card(lambda: is_wanted() and not self._closed.is_set())
            if not rates and (self._closed.is_set() or not is_wanted()):
                return
            with self._lock:
                if rates:
                    self._profile = replace(self._profile, card=_name(card), unmeasurable="", **rates)
                else:
                    self._unmeasurable.add(_name(card))
                    self._profile = replace(self._profile, unmeasurable=_name(card))
        self._save()

    def offloads_from(self, num_tokens: int) -> None:
        """Sets the number of tokens from which this process copies layers in memory to the card."""
        with self._lock:
            self._profile = replace(self._profile, offloads_from_tokens=num_tokens)

    def note(self, observation: Observation) -> None:
        """Learns from an observation."""
        with self._lock:
            self._profile = refined(self._profile, observation)
            is_time = self._clock() - self._saved_at >= SAVED_EVERY_SECONDS
        if is_time:
            self._save()

    def note_table(self, key: str, change: Callable[[Measured], Measured]) -> None:
        """Takes in a measurement of a model, and saves it at once: a process that is killed continues after it."""
        with self._lock:
            self._profile = self._profile.with_table(key, change(self._profile.table(key)))
        self._save()

    def close(self) -> None:
        """Gives up a measurement, and saves what was learnt. A second call does nothing."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._save()

    def _can_measure(self, card: Device, *, is_again: bool) -> bool:
        name, profile = _name(card), self._profile
        is_known = name == profile.card or name in self._unmeasurable
        is_known = is_known or (name == profile.unmeasurable and not is_again)
        return not is_known and card.free_bytes >= CARD_ROOM_BYTES and not self._closed.is_set()

    def _measure_now(self, is_new: bool, card: Device | None) -> None:
        if self._closed.wait(self._delay):
            return
        if is_new:
            self._measure_machine()
        if card is not None:
            self.measure_card(card, is_again=True)

    def _measure_machine(self) -> None:
        try:
            profile = self._measure(self._profile, self._file.parent, lambda: not self._closed.is_set())
        except Exception:
            # Nothing waits for it: the careful defaults stay, and steps refine them.
            log.exception("the bandwidths of this machine could not be measured")
            self._has_failed = True
            return
        with self._lock:
            of_card = {name: getattr(self._profile, name) for name in (*_OF_CARD, "offloads_from_tokens")}
            self._profile = replace(profile, tables=self._profile.tables, **of_card)
        self._save()

    def _save(self) -> None:
        # One at a time, so that the older of two is never written last.
        with self._saving:
            with self._lock:
                profile, is_new = self._profile, self._profile != self._saved
                self._saved, self._saved_at = profile, self._clock()
            if is_new:
                save_profile(self._file, profile)


def _name(card: Device) -> str:
    return card.description or card.name
