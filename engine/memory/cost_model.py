"""What a placement costs, in seconds: a step that writes, reading a prompt, a search, and a question from end to end.

Pure. A pass reads weights where they lie (bytes / bandwidth) and computes them for each of its tokens; what is streamed
is read once per pass and hides behind the rest; where passes of the model were measured, the measurements count
(measured.py). The time that a step waits for the disk hides prompts that are read meanwhile (pass_times.py). So four
answers in a step cost little more than one where the disk dominates, and a prompt is read in passes of `n_ubatch`
tokens, each of which streams every layer once (gangs.py has the mean over k of them).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from engine.memory.demand import Backlog
from engine.memory.gangs import mean_latency
from engine.memory.measured import NOTHING, Corrections, Kind
from engine.memory.placement import Prediction
from engine.memory.profile import MAPPED_SHARE, Profile, overlapped
from engine.memory.work import Work

# A device is never busy with fewer: a pass over a prompt takes as long as one with this many tokens more. Smaller
# passes use other kernels, which read weights and do nothing else.
IDLE_TOKENS, IDLE_FROM_TOKENS = 128, 32
# A request that comes or ends while a prompt is read waits for the pass under way: half of one.
WAITED_SHARE = 0.5
# The share of the time that steps wait for the disk that hides prompts: passes take whole groups of four tokens, and
# wait here and there (measured with a 3B model: .17 of 1.19 s were left).
HIDING_SHARE = 0.8
# The pauses that a longer question costs: a new context with more cells, later one with fewer, and as much again for
# staying until that is due (hysteresis.py).
PAUSES_OF_LONGER = 3
# A byte of keys and values serves two query heads or more, where a byte of 4-bit weights is two products.
ATTENTION_WEIGHT = 2.0
UNCORRECTED = Corrections(NOTHING, lambda work: 0.0)


class Homes(NamedTuple):
    """How many bytes a pass finds where. `processor_bytes` are the layers that the processor computes, streamed or not.

    `mapped_bytes` of them are read from the file each time, because memory is too small for them and there is no ring.
    A head is computed for one token of each sequence only. `…_cell_bytes` are those of one token's keys and values.
    `copies_streamed`: with a device, large batches of streamed layers are computed there. A plan uses these as cache
    keys, some hundreds of them.
    """

    processor_bytes: float = 0
    processor_head_bytes: float = 0
    device_bytes: float = 0
    device_head_bytes: float = 0
    streamed_bytes: float = 0
    mapped_bytes: float = 0
    ring_slots: int = 0
    is_repacked: bool = True
    copies_streamed: bool = False
    ram_cell_bytes: float = 0
    device_cell_bytes: float = 0
    hops: int = 0
    expert_share: float = 0.0
    expert_use: float = 1.0

    @property
    def way(self) -> dict[str, bool]:
        """How layers in memory are computed, as corrections are asked for."""
        return {"is_repacked": self.is_repacked, "copies_streamed": self.copies_streamed}

    def touched(self, num_tokens: int) -> float:
        """Returns the share of the layers' bytes that `num_tokens` need: each chooses some of the experts."""
        return 1.0 - self.expert_share * (1.0 - self.expert_use) ** num_tokens if self.expert_share else 1.0

    @property
    def active(self) -> float:
        """The share of the layers' bytes that is computed for one token."""
        return 1.0 - self.expert_share * (1.0 - self.expert_use)


def decode_work(homes: Homes, num_answers: int, length: int) -> Work:
    """Returns the work of a step that writes one token of each of `num_answers`, all of about `length` tokens."""
    return _work(homes, num_answers, num_answers, length, cells_read=num_answers * length)


def prefill_work(homes: Homes, num_tokens: int, cached_tokens: int = 0) -> Work:
    """Returns the work of a pass that reads `num_tokens` of one prompt, after `cached_tokens`."""
    length = cached_tokens + num_tokens // 2
    return _work(homes, num_tokens, 1, length, cells_read=length)


def _work(homes: Homes, num_tokens: int, num_rows: int, length: int, cells_read: int) -> Work:
    touched, computed, attended = homes.touched(num_tokens), num_tokens * homes.active, num_tokens * length
    on_device = computed + (IDLE_TOKENS * homes.active if num_tokens >= IDLE_FROM_TOKENS else 0)
    return Work(
        processor_bytes=homes.processor_bytes * touched
        + homes.processor_head_bytes
        + homes.ram_cell_bytes * cells_read,
        processor_token_bytes=homes.processor_bytes * computed
        + homes.processor_head_bytes * num_rows
        + homes.ram_cell_bytes * attended * ATTENTION_WEIGHT,
        device_bytes=homes.device_bytes * touched + homes.device_head_bytes + homes.device_cell_bytes * cells_read,
        device_token_bytes=homes.device_bytes * on_device
        + homes.device_head_bytes * num_rows
        + homes.device_cell_bytes * attended * ATTENTION_WEIGHT,
        streamed_bytes=homes.streamed_bytes,
        mapped_bytes=homes.mapped_bytes * touched,
        hops=homes.hops,
        ring_slots=homes.ring_slots,
        is_repacked=homes.is_repacked,
    )


def as_computed(homes: Homes, profile: Profile, work: Work, num_tokens: int) -> Work:
    """Returns a pass with the layers in memory computed there, or copied to the device as llama.cpp does (op_offload).

    Streamed layers are copied only where that is wanted: each when its turn comes.
    """
    are_copied = homes.is_repacked or homes.copies_streamed
    if not homes.device_bytes or not are_copied or num_tokens < profile.offloads_from_tokens:
        return work
    return _copied(homes, work, num_tokens)


def _copied(homes: Homes, work: Work, num_tokens: int) -> Work:
    """Returns the same with the processor's layers copied to the device and computed there."""
    layers = homes.processor_bytes
    # Not `replace`, which takes several times as long: a plan does this some hundred times.
    return Work(
        processor_bytes=work.processor_bytes - layers * homes.touched(num_tokens),
        processor_token_bytes=work.processor_token_bytes - layers * num_tokens * homes.active,
        device_bytes=work.device_bytes + layers,
        device_token_bytes=work.device_token_bytes + layers * (num_tokens + IDLE_TOKENS) * homes.active,
        streamed_bytes=work.streamed_bytes,
        mapped_bytes=work.mapped_bytes,
        copied_bytes=layers,
        hops=work.hops,
        ring_slots=work.ring_slots,
        is_repacked=work.is_repacked,
    )


@dataclass(frozen=True, slots=True)
class Passes:
    """`count` passes of a kind: what one computes in seconds, and the share of mapped bytes that it touches."""

    count: int
    computing: float
    touched: float = 1.0


@dataclass(frozen=True, slots=True)
class Course:
    """How questions go, whatever is streamed: the same for all ways to fill main memory.

    `at_once` of `wanted` answers are written in a step, and the prompt of each is `reading`. A question takes `gangs`
    times as long as a gang, on average. `pausing_s` of each are pauses for questions that need more cells. `hides`:
    prompts are read while other answers wait for the disk.
    """

    wanted: int
    at_once: int
    new_tokens: int
    answer_tokens: int
    writing: Passes
    reading: tuple[Passes, ...]
    overhead_s: float
    gangs: float = 1.0
    pausing_s: float = 0.0
    hides: bool = False

    def is_never_slower(self, other: Course) -> bool:
        """Returns whether no pass takes longer than in another course of the same passes."""
        passes = zip((self.writing, *self.reading), (other.writing, *other.reading), strict=True)
        return all(ours.computing <= theirs.computing for ours, theirs in passes)

    def latency(self, disk: Disk, retrieval_s: float) -> float:
        """Returns the mean over the questions: searched together, answered `at_once`, each after the pass under way."""
        overhead, reading, longest = self.overhead_s, 0.0, 0.0
        for passes in self.reading:
            seconds = disk.beside(passes)
            reading += passes.count * (overhead + seconds)
            if seconds > longest:
                longest = seconds
        writing = disk.beside(self.writing)
        if self.hides and disk.streaming and self.at_once > 1:
            # For all prompts except the first, which is read while no answer is written.
            hidden = self.answer_tokens * HIDING_SHARE * (writing - self.writing.computing) / self.at_once
            reading = max(reading / self.wanted, reading - hidden)
        prompts = self.at_once * (disk.restoring + self.pausing_s + reading)
        gang = prompts + self.answer_tokens * (overhead + writing)
        return retrieval_s + self.gangs * gang + WAITED_SHARE * longest

    def prediction(self, disk: Disk, retrieval_s: float) -> Prediction:
        """Returns the same in all figures."""
        step, reading = self.step_seconds(disk), self.reading_seconds(disk)
        return Prediction(
            tokens_per_s=self.at_once / step,
            prefill_tokens_per_s=self.new_tokens / reading,
            ttft_s=retrieval_s + disk.restoring + self.pausing_s + reading + step,
            retrieval_s=retrieval_s,
            latency_s=self.latency(disk, retrieval_s),
            at_once=self.at_once,
        )

    def step_seconds(self, disk: Disk) -> float:
        """Returns t(B): the seconds of a token of each answer."""
        return self.overhead_s + disk.beside(self.writing)

    def hidden_seconds(self, disk: Disk) -> float:
        """Returns the part of that step that hides a prompt being read, because layers are being read."""
        if not (self.hides and disk.streaming):
            return 0.0
        return HIDING_SHARE * (disk.beside(self.writing) - self.writing.computing)

    def reading_seconds(self, disk: Disk) -> float:
        """Returns the seconds of one prompt, except the part that is kept."""
        return sum([passes.count * (self.overhead_s + disk.beside(passes)) for passes in self.reading])


class Courses:
    """The courses of one backlog on one machine; shared parts are computed once.

    Reading prompts does not depend on how many answers are written at a time, and writing answers does not depend on
    how many tokens of a prompt are read at a time.
    """

    def __init__(self, profile: Profile, backlog: Backlog, corrections: Corrections = UNCORRECTED) -> None:
        self._profile, self._backlog, self._corrections = profile, backlog, corrections
        self._cached_tokens = backlog.cached_tokens
        self._new_tokens = max(1, backlog.prompt_tokens - self._cached_tokens)
        self._written: dict[tuple[Homes, int], Passes] = {}
        self._read: dict[tuple[Homes, int], tuple[Passes, ...]] = {}

    def of(self, homes: Homes, num_slots: int, n_ubatch: int, num_cells: int | None = None) -> Course:
        """Returns the course in gangs of at most `num_slots` and passes of `n_ubatch` tokens.

        `num_cells`: questions that need more get them in a pause; None: none does.
        """
        backlog = self._backlog
        at_once = min(num_slots, backlog.num_answers)
        writing, reading = self._written.get((homes, at_once)), self._read.get((homes, n_ubatch))
        if writing is None:
            writing = self._written[homes, at_once] = self._writing(homes, at_once)
        if reading is None:
            reading = self._read[homes, n_ubatch] = tuple(self._reading(homes, n_ubatch))
        return Course(
            wanted=backlog.num_answers,
            at_once=at_once,
            new_tokens=self._new_tokens,
            answer_tokens=backlog.answer_tokens,
            writing=writing,
            reading=reading,
            overhead_s=self._profile.step_s,
            gangs=mean_latency(backlog.num_answers / at_once, 1.0, backlog.refill),
            pausing_s=_pausing_seconds(self._profile, backlog, num_cells),
            # With a device, it depends on where attention is computed, so nothing is assumed.
            hides=not homes.device_bytes,
        )

    def _writing(self, homes: Homes, at_once: int) -> Passes:
        work = decode_work(homes, at_once, self._backlog.prompt_tokens + self._backlog.answer_tokens // 2)
        return self._passes(homes, 1, "write", at_once, work)

    def _reading(self, homes: Homes, n_ubatch: int) -> Iterator[Passes]:
        """Yields the full passes, all at their middle, and the remainder."""
        full, rest = divmod(self._new_tokens, n_ubatch)
        if full:
            behind = self._cached_tokens + (full - 1) * n_ubatch // 2
            yield self._passes(homes, full, "read", n_ubatch, prefill_work(homes, n_ubatch, behind))
        if rest:
            behind = self._cached_tokens + full * n_ubatch
            yield self._passes(homes, 1, "read", rest, prefill_work(homes, rest, behind))

    def _passes(self, homes: Homes, count: int, kind: Kind, num_tokens: int, work: Work) -> Passes:
        slower = self._corrections.factor(kind, num_tokens, **homes.way)
        computed = as_computed(homes, self._profile, work, num_tokens)
        return Passes(count, slower * self._profile.computing_seconds(computed), homes.touched(num_tokens))


class Disk(NamedTuple):
    """What each pass waits for, in seconds: streamed layers through a ring, or mapped pages; `restoring` is of kept KV.

    Made for one way to fill main memory; most values of a plan are of this type.
    """

    streaming: float = 0.0
    ring_slots: int = 0
    mapped: float = 0.0
    restoring: float = 0.0

    @classmethod
    def of(cls, profile: Profile, homes: Homes, restored_bytes: float = 0.0) -> Disk:
        rate = profile.stream_bytes_per_s
        return cls(
            streaming=homes.streamed_bytes / rate,
            ring_slots=homes.ring_slots,
            mapped=homes.mapped_bytes / (rate * MAPPED_SHARE),
            restoring=restored_bytes / rate,
        )

    def beside(self, passes: Passes) -> float:
        """Returns the seconds of one pass: its computing, and the part of the disk's time that does not hide."""
        if self.streaming:
            return overlapped(passes.computing, self.streaming, self.ring_slots)
        return passes.computing + self.mapped * passes.touched


def _pausing_seconds(profile: Profile, backlog: Backlog, num_cells: int | None) -> float:
    """Returns what questions that need more cells cost each of the others.

    They gain nothing by fewer cells, so what they lose must be outweighed by the others alone: hence the odds.
    """
    if num_cells is None:
        return 0.0
    return backlog.odds_of_longer(num_cells) * PAUSES_OF_LONGER * profile.context_change_s
