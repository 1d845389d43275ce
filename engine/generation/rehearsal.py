"""Rehearsal: times passes of the loaded model over synthetic text while the engine is idle.

The offline profiler measures its points with it (rehearsing.py). It computes in the same context as answers, so
placement, ring and kernels are the same; its sequences take free cells and return them. Any command for the generation
thread ends it after the pass under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from engine.errors import DecodeFailed, NoCells, WeightsNotRead
from engine.generation.batch_padding import MOST_PAIRS
from engine.generation.cells import CellSequence
from engine.generation.context import Stretch
from engine.generation.gathering import room_to_move
from engine.generation.loaded import LoadedModel
from engine.memory.measured import Kind
from engine.memory.placement import Placement

# For one point, passes are repeated for at least this long, and at most this many times.
LEAST_SECONDS, MOST_PASSES = 0.5, 24
# The first pass is slower, because it touches memory for the first time; for passes of this length that is negligible.
LONG_SECONDS = 1.0
# If the processor computes attention token by token, steps are timed after a prompt as long as those with passages:
# attending to its cells may take longer than the matrices, and batching does not reduce that. A .6B model with heads of
# 64 takes 42 ms for a step of one answer, and the same for four, with nothing before them; after 512 tokens each, 62
# and 123. By the figures without a prompt, nine were written at once.
BEFORE_TOKENS = 512
# A large step through the vocabulary, so that tokens vary as in a text and a mixture of experts uses many experts.
_STRIDE = 7919


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The result for one point, measured with `placement`.

    `seconds` are of one pass, None if it could not be computed. The passes had `length` tokens before them on average,
    and streamed weights were being read during `reading_seconds` of a pass.
    """

    placement: Placement
    seconds: float | None
    reading_seconds: float = 0.0
    length: int = 0
    num_passes: int = 0


@dataclass(frozen=True, slots=True)
class _TimedPass:
    """The time of one pass, and how many tokens were before it."""

    seconds: float
    length: int


class Rehearsal:
    """Times passes on the generation thread, with a model that has nothing to compute."""

    def __init__(
        self,
        loaded: LoadedModel,
        is_wanted: Callable[[], bool],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Measures for as long as `is_wanted` returns True, which is called between passes."""
        self._loaded, self._is_wanted, self._clock = loaded, is_wanted, clock
        self._context, self._cells = loaded.context, loaded.loop.cells

    def measured(self, kind: Kind, size: int) -> Rehearsed | None:
        """Measures a point; returns None if there was no room for it alongside kept KV, or no time.

        Raises:
            WeightsNotRead: A layer could not be read.
        """
        self._context.use_threads(None)
        if kind == "read" and size > min(self._context.n_batch, self._context.n_ubatch):
            return None
        if kind == "read":
            return self._repeated(1, size, self._is_enough)
        is_shared = self._loaded.model.can_share_prefixes and not self._context.is_streamed
        is_by_rows = is_shared and self._context.attends_on_processor
        return self._repeated(size, 1, self._is_enough, before_tokens=BEFORE_TOKENS if is_by_rows else 0)

    def kept_up(self, num_answers: int, num_threads: int, until: Callable[[], bool]) -> Rehearsed | None:
        """Measures steps of `num_answers` with `num_threads` while other work runs, until `until`; see `measured`."""
        self._context.use_threads(num_threads)
        try:
            # Alongside other work the times of steps vary, so the mean counts.
            return self._repeated(num_answers, 1, lambda taken: until(), fmean, settles=False)
        finally:
            self._context.use_threads(None)

    def _repeated(
        self,
        num_sequences: int,
        num_tokens: int,
        is_enough: Callable[[list[float]], bool],
        typical: Callable[[list[float]], float] = median,
        before_tokens: int = 0,
        *,
        settles: bool = True,
    ) -> Rehearsed | None:
        loaded = self._loaded
        loaded.keeper.spare_cells()
        num_free = self._cells.num_free
        if num_sequences > loaded.loop.most_running or num_free < 2 * num_sequences * num_tokens:
            return None
        # With fewer cells, answers would be shorter too.
        before_tokens = min(before_tokens, num_free // num_sequences - 2 * num_tokens)
        try:
            with self._sequences(num_sequences) as sequences:
                self._begin_behind(sequences, before_tokens)
                if settles:
                    self._settle(sequences, num_tokens, before_tokens)
                reading_before = self._reading_seconds
                passes = list(self._timed_passes(sequences, num_tokens, before_tokens, is_enough))
        except NoCells:
            return None
        except WeightsNotRead:
            raise
        except DecodeFailed:
            return Rehearsed(loaded.plan.placement, None)
        return self._summary(passes, self._reading_seconds - reading_before, is_enough, typical)

    def _timed_passes(
        self,
        sequences: list[CellSequence],
        num_tokens: int,
        before_tokens: int,
        is_enough: Callable[[list[float]], bool],
    ) -> Iterator[_TimedPass]:
        """Yields passes until there are enough by their times, or until they are no longer wanted."""
        taken: list[float] = []
        with self._context.as_known():
            while not is_enough(taken) and self._is_wanted():
                self._make_room(sequences, num_tokens, before_tokens)
                length = sequences[0].end
                taken.append(self._pass(sequences, num_tokens))
                yield _TimedPass(taken[-1], length)

    def _summary(
        self,
        passes: Sequence[_TimedPass],
        reading_seconds: float,
        is_enough: Callable[[list[float]], bool],
        typical: Callable[[list[float]], float],
    ) -> Rehearsed | None:
        """Returns the result of the passes; None if there were none, or they were interrupted too early."""
        taken = [one.seconds for one in passes]
        if not taken:
            return None
        if not is_enough(taken) and (len(taken) < 2 or typical is fmean):
            # The first pass is slower, and no other work ran alongside the last ones.
            return None
        used = taken[1:] if len(taken) > 1 and taken[0] < LONG_SECONDS else taken
        length = sum(one.length for one in passes) // len(passes)
        placement = self._loaded.plan.placement
        return Rehearsed(placement, typical(used), reading_seconds / len(taken), length, len(taken))

    def _begin_behind(self, sequences: list[CellSequence], num_tokens: int) -> None:
        """Makes all sequences continue after the same tokens, which are read once and copied.

        They are not shared: shared cells would be in the processor's cache when the second sequence attends to them,
        and most of the time would not be measured.
        """
        first, *others = sequences
        most = min(self._context.n_batch, self._context.n_ubatch)
        while first.end < num_tokens and self._is_wanted():
            self._pass([first], min(most, num_tokens - first.end))
        if not (others and first.cells):
            return
        num_bytes = self._context.state_bytes(first.slot)
        state = np.empty(num_bytes if num_bytes <= room_to_move() else 0, np.uint8)
        is_copied = self._context.save(first.slot, state) > 0
        for other in others:
            if is_copied and self._context.load(state, other.slot):
                self._cells.grow(other, first.end)
            else:
                self._context.copy(first.slot, other.slot, 0, first.end)
                self._cells.share(first, other, 0, first.end)

    def _settle(self, sequences: list[CellSequence], num_tokens: int, before_tokens: int) -> None:
        """Computes passes of this size in both ways of padding before any is timed, unless each takes long."""
        for _ in range(2 * MOST_PAIRS + 1):
            if not (self._context.is_trying(len(sequences) * num_tokens) and self._is_wanted()):
                return
            self._make_room(sequences, num_tokens, before_tokens)
            if self._pass(sequences, num_tokens) >= LONG_SECONDS:
                return

    def _make_room(self, sequences: list[CellSequence], num_tokens: int, before_tokens: int) -> None:
        if num_tokens > 1 or self._cells.num_free < len(sequences):
            # A prompt is read from its beginning each time.
            self._rewind(sequences, before_tokens)

    def _is_enough(self, taken: list[float]) -> bool:
        if len(taken) >= MOST_PASSES or (taken and taken[0] >= LONG_SECONDS):
            return True
        return len(taken) > 2 and sum(taken[1:]) >= LEAST_SECONDS

    def _pass(self, sequences: list[CellSequence], num_tokens: int) -> float:
        """Computes one pass of all sequences, and returns its seconds."""
        stretches = [
            Stretch(sequence.slot, sequence.end, self._tokens(number, sequence.end, num_tokens), 1)
            for number, sequence in enumerate(sequences)
        ]
        since = self._clock()
        self._context.decode(stretches)
        seconds = self._clock() - since
        for sequence in sequences:
            self._cells.grow(sequence, num_tokens)
        return seconds

    def _tokens(self, number: int, position: int, count: int) -> tuple[int, ...]:
        size = self._loaded.model.num_tokens
        return tuple((number * _STRIDE + (position + place + 1) * _STRIDE) % size for place in range(count))

    def _rewind(self, sequences: list[CellSequence], num_tokens: int = 0) -> None:
        for sequence in sequences:
            self._context.remove(sequence.slot, num_tokens)
            self._cells.trim(sequence, num_tokens)

    @contextmanager
    def _sequences(self, count: int) -> Iterator[list[CellSequence]]:
        sequences: list[CellSequence] = []
        try:
            for _ in range(count):
                sequences.append(self._cells.open())
            yield sequences
        finally:
            self._rewind(sequences)
            for sequence in sequences:
                self._cells.close(sequence)

    @property
    def _reading_seconds(self) -> float:
        stream = self._loaded.stream
        return stream.counters().reading_seconds if stream is not None else 0.0
