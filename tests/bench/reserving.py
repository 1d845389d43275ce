"""Batching as before vLLM: each request reserves contiguous KV cells in advance, and waits until they are free.

It has the same context, the same batches as our step loop (running answers first, then chunks of prompts) and greedy
decoding; only the allocation of cells differs. The policies are Orca's three variants of the vLLM paper (arXiv
2309.06180): `max` reserves the longest possible answer, `pow2` knows the answer's length up to the next power of two,
`oracle` knows it exactly.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.generation.context import Context, Stretch
from tests.bench.azure import Length


@dataclass(frozen=True, slots=True)
class Batched:
    """Answer tokens per second, and the mean share of cells that held a token while a request waited for cells."""

    tokens_per_second: float
    utilisation: float


Reserve = Callable[[Length], int]


def policies(longest: int) -> dict[str, Reserve]:
    """Returns the number of cells that each policy reserves for a request."""
    return {
        "max": lambda length: longest,
        "pow2": lambda length: length.prompt + power_of_two(length.answer),
        "oracle": lambda length: length.total,
    }


def power_of_two(count: int) -> int:
    """Returns the least power of two that is not smaller."""
    return 1 << (count - 1).bit_length()


class Ranges:
    """Contiguous ranges of cells, allocated by first fit."""

    def __init__(self, num_cells: int) -> None:
        self._num_cells = num_cells
        self._taken: dict[int, int] = {}

    def take(self, count: int) -> int | None:
        """Returns the start of a free range of `count` cells; None if there is none."""
        start = 0
        for taken, length in sorted(self._taken.items()):
            if taken - start >= count:
                break
            start = taken + length
        if start + count > self._num_cells:
            return None
        self._taken[start] = count
        return start

    def give_back(self, start: int) -> None:
        del self._taken[start]


@dataclass(slots=True)
class _Running:
    number: int
    slot: int
    start: int
    tokens: list[int]
    num_prompt: int
    num_wanted: int
    num_computed: int = 0

    @property
    def num_due(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def has_ended(self) -> bool:
        return len(self.tokens) - self.num_prompt >= self.num_wanted


@dataclass(slots=True)
class Reserving:
    """Answers requests in order; `step_tokens` is the maximum of one batch.

    `answers` are the generated tokens, in the order of the requests.
    """

    context: Context
    reserve: Reserve
    step_tokens: int
    answers: list[list[int]] = field(default_factory=list)
    _running: list[_Running] = field(default_factory=list)
    _shares: list[float] = field(default_factory=list)

    def answer_all(self, prompts: Sequence[Sequence[int]], lengths: Sequence[Length]) -> Batched:
        """Answers requests that were all submitted at the same time."""
        self.context.clear()
        self.answers = [[] for _ in prompts]
        ranges, slots = Ranges(self.context.num_cells), list(range(self.context.num_sequences))
        waiting = deque(enumerate(zip(prompts, lengths, strict=True)))
        begun = time.perf_counter()
        while waiting or self._running:
            while waiting and slots and (start := ranges.take(self.reserve(waiting[0][1][1]))) is not None:
                number, (prompt, length) = waiting.popleft()
                self._running.append(_Running(number, slots.pop(), start, list(prompt), len(prompt), length.answer))
            self._step()
            if waiting:
                held = sum(one.num_computed for one in self._running)
                self._shares.append(held / self.context.num_cells)
            for one in [one for one in self._running if one.has_ended]:
                self._running.remove(one)
                self.answers[one.number] = one.tokens[one.num_prompt :]
                self.context.remove(one.slot)
                ranges.give_back(one.start)
                slots.append(one.slot)
        seconds = time.perf_counter() - begun
        tokens = sum(length.answer for length in lengths)
        return Batched(tokens / seconds, sum(self._shares) / len(self._shares) if self._shares else 0.0)

    def _step(self) -> None:
        stretches, computed, room = list[Stretch](), list[_Running](), self.step_tokens
        for one in sorted(self._running, key=lambda one: one.num_due > 1):
            count = min(one.num_due, room)
            if count:
                tokens = one.tokens[one.num_computed : one.num_computed + count]
                stretches.append(Stretch(one.slot, one.num_computed, tokens, int(count == one.num_due)))
                computed.append(one)
                room -= count
        rows = self.context.decode(stretches)
        for one, stretch, row in zip(computed, stretches, rows, strict=True):
            one.num_computed += len(stretch.tokens)
            if stretch.num_logits:
                one.tokens.append(int(self.context.logits(row + len(stretch.tokens) - 1).argmax()))
