"""The profile: how fast this machine moves and computes the bytes of a model, measured once and refined while running.

A pass of a model is a `Work`: bytes that are read, and tokens times bytes that are computed, by place. The profile
computes its seconds: bytes / bandwidth + tokens · bytes / rate, where reading ahead from the disk hides behind
computing. For models that were measured themselves, a table corrects that (measured.py). All values are pure;
profile_file.py keeps them on the disk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from engine.memory.measured import NOTHING, Corrections, Kind, Measured, Split
from engine.memory.work import Work

# The share of a deviation from the expectation that an observation corrects: ten of them correct two thirds.
LEARNING_RATE = 0.1
# A single pass that something delayed says little about the next.
MOST_SURPRISE = 4.0
# The number of models whose tables are kept.
MOST_TABLES = 16
# A pass that waits for the disk takes at most this many times as long as its reads.
HIDDEN = 1.25
# A processor that reads pages as they are touched has few reads in flight (measured: 1.5 of 1.9 GB/s).
MAPPED_SHARE = 0.75
# Weights are never copied for fewer than two tokens; llama.cpp's own threshold is 32.
LEAST_OFFLOADED_TOKENS, USUAL_OFFLOADED_TOKENS = 2, 32
DEPTHS = (1, 2, 4)
RATES = (
    "ram_bytes_per_s",
    "processor_rate",
    "device_bytes_per_s",
    "device_rate",
    "host_to_device_bytes_per_s",
    "pageable_to_device_bytes_per_s",
    "hop_s",
)


@dataclass(frozen=True, slots=True)
class Profile:
    """Rates of one machine; the defaults are those of a slow laptop with a small GPU, so that nothing is promised.

    `ram_bytes_per_s` and `processor_rate` are for repacked weights and all threads of an answer; without repacking they
    are lower by the two gains. Rates are tokens times bytes of weights in a second. `disk_bytes_per_s` are direct reads
    at depths of 1, 2 and 4. A search takes `retrieval_s`, plus a time for each partition it reads and for each query.
    Weights are copied to a device from page-locked memory (`host_to_device_bytes_per_s`), or, where some are streamed,
    from pageable memory (`pageable_to_device_bytes_per_s`). `context_change_s` is the pause for a new context, and
    `load_bytes_per_s` is how fast a model is loaded from the page cache.
    `offloads_from_tokens`: in this process llama.cpp copies layers in memory to the card for this many tokens or more.
    `card` is the graphics card on which the device's rates were measured, "" while they are guessed, and `unmeasurable`
    is one that could not be measured. `tables` are those of the models that were measured, the newest last, each under
    its key (`measured.table_key`).
    """

    ram_bytes_per_s: float = 12e9
    processor_rate: float = 5e10
    repack_decode_gain: float = 1.25
    repack_prefill_gain: float = 1.4
    device_bytes_per_s: float = 120e9
    device_rate: float = 3e12
    host_to_device_bytes_per_s: float = 5e9
    pageable_to_device_bytes_per_s: float = 3e9
    hop_s: float = 5e-5
    disk_bytes_per_s: tuple[float, float, float] = (0.4e9, 0.5e9, 0.5e9)
    step_s: float = 0.002
    retrieval_s: float = 0.020
    retrieval_load_s: float = 0.0099
    retrieval_query_s: float = 0.00071
    context_change_s: float = 0.5
    load_bytes_per_s: float = 1e9
    is_measured: bool = False
    card: str = ""
    unmeasurable: str = ""
    offloads_from_tokens: int = USUAL_OFFLOADED_TOKENS
    tables: tuple[tuple[str, Measured], ...] = ()

    @property
    def worth_offloading_tokens(self) -> int:
        """From how many tokens on copying a layer from memory to the card is faster than computing it in memory."""
        saved = 1 / self.host_to_device_bytes_per_s - self.repack_decode_gain / self.ram_bytes_per_s
        tokens = saved * self.processor_rate / self.repack_prefill_gain
        return max(LEAST_OFFLOADED_TOKENS, min(USUAL_OFFLOADED_TOKENS, round(tokens)))

    @property
    def stream_bytes_per_s(self) -> float:
        """Direct reads at the depth that is the fastest on this disk."""
        return max(self.disk_bytes_per_s)

    def seconds(self, work: Work) -> float:
        """Returns the expected seconds of a pass."""
        computing, streaming = self.computing_seconds(work), work.streamed_bytes / self.stream_bytes_per_s
        mapped = work.mapped_bytes / (MAPPED_SHARE * self.stream_bytes_per_s) if work.mapped_bytes else 0.0
        if streaming:
            computing = overlapped(computing, streaming, work.ring_slots)
        return self.step_s + computing + mapped

    def retrieval_seconds(self, loads: float, queries: int) -> float:
        """Returns the seconds of a search of the index that reads `loads` partitions and answers `queries` queries."""
        return self.retrieval_s + self.retrieval_load_s * loads + self.retrieval_query_s * queries

    def table(self, key: str) -> Measured:
        """Returns what was measured of a model; empty where nothing was."""
        return next((measured for known, measured in self.tables if known == key), NOTHING)

    def with_table(self, key: str, measured: Measured) -> Profile:
        """Returns the profile with another table for a model."""
        others = tuple(entry for entry in self.tables if entry[0] != key)
        return replace(self, tables=(*others, (key, measured))[-MOST_TABLES:])

    def corrections(self, key: str) -> Corrections:
        """Returns how much slower passes of a model are than the rates alone predict."""
        return Corrections(self.table(key), self.expected_seconds)

    def expected_seconds(self, work: Work) -> float:
        """Returns the expected seconds of a pass by the rates alone, without the disk."""
        return self.step_s + self.computing_seconds(work)

    def computing_seconds(self, work: Work) -> float:
        """Returns the same without the disk and without the fixed time of every step."""
        return sum(self.computing_parts(work))

    def computing_parts(self, work: Work) -> tuple[float, ...]:
        """Returns the seconds of a pass by the rate that they depend on, in the order of `RATES`."""
        to_read, to_compute = (1.0, 1.0) if work.is_repacked else (self.repack_decode_gain, self.repack_prefill_gain)
        # Never faster than from page-locked memory: a plan with more of that would then be the slower one.
        pageable = min(self.pageable_to_device_bytes_per_s, self.host_to_device_bytes_per_s)
        return (
            work.processor_bytes * to_read / self.ram_bytes_per_s,
            work.processor_token_bytes * to_compute / self.processor_rate,
            work.device_bytes / self.device_bytes_per_s,
            work.device_token_bytes / self.device_rate,
            work.copied_bytes / self.host_to_device_bytes_per_s if work.is_repacked else 0.0,
            0.0 if work.is_repacked else work.copied_bytes / pageable,
            work.hops * self.hop_s,
        )


def overlapped(computing: float, streaming: float, ring_slots: int) -> float:
    """Returns seconds of a pass whose layers are read while others are computed; with one slot nothing overlaps."""
    # Called some thousand times for a plan.
    longer, shorter = (computing, streaming) if computing > streaming else (streaming, computing)
    return longer + shorter / (ring_slots * ring_slots or 1)


@dataclass(frozen=True, slots=True)
class PassObserved:
    """The seconds that a pass of the model took; streamed weights were being read for `reading_seconds` of them.

    `table` is the key of the model's table; `kind`, `size` and `split` are those of the pass, as in the table: a step
    of `size` answers, or a pass over `size` tokens.
    """

    work: Work
    seconds: float
    reading_seconds: float = 0.0
    table: str = ""
    split: Split = field(default_factory=Split)
    kind: Kind = "write"
    size: int = 0


@dataclass(frozen=True, slots=True)
class ReadsObserved:
    """How many bytes the ring read in the time in which it was reading."""

    num_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SweepsLearnt:
    """What the retriever's own model has learnt about its searches of the index."""

    fixed_seconds: float
    load_seconds: float
    query_seconds: float


@dataclass(frozen=True, slots=True)
class PauseObserved:
    """How long answers paused for a new context, or for loading `num_bytes` of weights again."""

    kind: Literal["context", "reload"]
    seconds: float
    num_bytes: int = 0


Observation: TypeAlias = PassObserved | ReadsObserved | SweepsLearnt | PauseObserved


def refined(profile: Profile, observation: Observation) -> Profile:
    """Returns the profile after an observation: exponential averages, of logarithms because rates span magnitudes."""
    match observation:
        case PassObserved():
            return _after_pass(profile, observation)
        case ReadsObserved(num_bytes, seconds):
            if num_bytes <= 0 or seconds <= 0:
                return profile
            change = _change(num_bytes / seconds / profile.stream_bytes_per_s)
            return replace(profile, disk_bytes_per_s=_scaled(profile.disk_bytes_per_s, change))
        case SweepsLearnt(fixed, load, query):
            return replace(profile, retrieval_s=fixed, retrieval_load_s=load, retrieval_query_s=query)
        case PauseObserved():
            return _after_pause(profile, observation)


def computing_in(work: Work, seconds: float, reading_seconds: float) -> float | None:
    """Returns the part of a pass's seconds that was computing; None if reading from the disk hid it.

    What the system reads of a mapped file while a pass touches it is not counted.
    """
    if work.mapped_bytes:
        return None
    if not work.streamed_bytes:
        return seconds
    if not 0 < HIDDEN * reading_seconds < seconds:
        return None
    unhidden = reading_seconds / max(1, work.ring_slots) ** 2
    return seconds - unhidden


def _after_pass(profile: Profile, seen: PassObserved) -> Profile:
    """Refines the table if it has such a pass; else each rate takes its share of the deviation."""
    taken = computing_in(seen.work, seen.seconds, seen.reading_seconds)
    if taken is None or taken <= 0:
        return profile
    measured = profile.table(seen.table)
    point = measured.point(seen.split, seen.kind, seen.size)
    if point is not None and point.seconds is not None:
        # Relative to the point's own seconds: with the bounds of the corrections it would drift without end.
        expected = point.seconds * profile.expected_seconds(seen.work) / profile.expected_seconds(point.work)
        return profile.with_table(seen.table, measured.scaled(point, 1 / _change(expected / taken)))
    return _with_blame(profile, seen, taken)


def _with_blame(profile: Profile, seen: PassObserved, taken: float) -> Profile:
    """Corrects each rate in proportion to its part of the expected time."""
    parts = profile.computing_parts(seen.work)
    expected, blamed = profile.seconds(seen.work), (*parts, profile.step_s)
    if seen.work.streamed_bytes:
        expected, taken, blamed = sum(parts), taken - profile.step_s, (*parts, 0.0)
    if taken <= 0 or expected <= 0:
        return profile
    changes: dict[str, float] = {}
    for name, part in zip((*RATES, "step_s"), blamed, strict=True):
        change = _change((expected / taken) ** (part / expected))
        # Two of them are seconds, which fall where rates rise.
        changes[name] = getattr(profile, name) * (1 / change if name in ("hop_s", "step_s") else change)
    return replace(profile, **changes)  # type: ignore[arg-type]


def _after_pause(profile: Profile, seen: PauseObserved) -> Profile:
    if seen.seconds <= 0:
        return profile
    if seen.kind == "context":
        by = _change(seen.seconds / profile.context_change_s)
        return replace(profile, context_change_s=profile.context_change_s * by)
    if seen.num_bytes <= 0:
        return profile
    by = _change(seen.num_bytes / seen.seconds / profile.load_bytes_per_s)
    return replace(profile, load_bytes_per_s=profile.load_bytes_per_s * by)


def _change(ratio: float) -> float:
    """Returns the factor for a rate that was observed to be `ratio` times what was expected."""
    return math.exp(LEARNING_RATE * math.log(min(MOST_SURPRISE, max(1 / MOST_SURPRISE, ratio))))


def _scaled(rates: tuple[float, float, float], by: float) -> tuple[float, float, float]:
    return rates[0] * by, rates[1] * by, rates[2] * by
