"""Two sides that write the same answers, with and without drafts; whichever has written less takes the next step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.core import SamplingParams
from engine.generation.cells import Cells
from engine.generation.context import Context, ContextSpec, Streaming
from engine.generation.drafting import MAX_DRAFT_TOKENS, PassCosts, PromptLookup
from engine.generation.model import Model
from engine.generation.request import PromptRead, Request, RequestFinished
from engine.generation.rows import AT_ONCE
from engine.generation.segment import Segment
from engine.generation.step_loop import StepLoop
from engine.generation.steps import Timing
from tests.bench.given_tokens import GivenTokens
from tests.bench.quoting import Recorded

NUM_CELLS, N_UBATCH = 8192, 128


@dataclass(frozen=True, slots=True)
class Pace:
    """Number of threads, and the clock that measures time."""

    num_threads: int
    clock: Callable[[], float] = time.perf_counter


class Side:
    """One of the two sides: with drafts or without."""

    def __init__(self, model: Model, has_drafts: bool, pace: Pace, stream: Streaming | None = None) -> None:
        """Opens a context; `stream` reads layers that are not in memory, and may be shared by both sides."""
        spec = ContextSpec(NUM_CELLS, N_UBATCH, N_UBATCH, pace.num_threads, num_sequences=8)
        self.context = Context(model, spec, stream)
        self._clock = pace.clock
        self._model = model
        # Keyed by the seed of the request.
        self._answers: dict[int | None, tuple[int, ...]] = {}
        self.costs = costs = PassCosts()
        self._loop = StepLoop(
            model,
            self.context,
            Cells(self.context.num_cells, self.context.num_sequences),
            make_sampler=lambda model, params: GivenTokens(model, params, self._answers[params.seed]),
            make_drafter=partial(PromptLookup, costs=costs) if has_drafts else None,
            note_pass=costs.note if has_drafts else None,
            timing=Timing(pace.clock),
        )
        self.seconds, self.num_timed = 0.0, 0

    def begin(self, together: Sequence[Recorded], params: SamplingParams) -> None:
        """Reads the prompts of answers that are written together, and generates their first tokens."""
        self._before, self._num_asked = self._loop.counters().generated_tokens, len(together)
        self.written: dict[str, RequestFinished] = {}
        for number, recorded in enumerate(together):
            seed = (params.seed or 0) + number
            self._answers[seed] = recorded.answer
            segments = (Segment((self._model.bos, *recorded.prompt)),)
            asked = replace(params, seed=seed)
            self._loop.submit(Request(f"answer {number}", segments, asked, quotable=recorded.quotable))
        num_read = 0
        while num_read < len(together):
            num_read += sum(isinstance(event, PromptRead) for event in self._step())
        self._first = self.num_written

    def go_on(self) -> None:
        since = self._clock()
        self._step()
        self.seconds += self._clock() - since
        if self.has_written_all:
            self.num_timed += self.num_written - self._first

    @property
    def has_written_all(self) -> bool:
        return len(self.written) == self._num_asked

    @property
    def num_written(self) -> int:
        return self._loop.counters().generated_tokens - self._before

    @property
    def tokens_per_second(self) -> float:
        return self.num_timed / self.seconds

    @property
    def drafts(self) -> tuple[int, int]:
        """Returns the number of drafted tokens, and of those that were accepted."""
        counters = self._loop.counters()
        return counters.drafted_tokens, counters.accepted_tokens

    def close(self) -> None:
        self._loop.close()
        self.context.close()

    def _step(self) -> list[object]:
        events = self._loop.step()
        self.written |= {event.request_id: event for event in events if isinstance(event, RequestFinished)}
        return list(events)


@dataclass(frozen=True, slots=True)
class Duel:
    """Results of both sides for the same answers."""

    with_drafts: float
    without: float
    num_passes_saved_share: float
    accepted_share: float
    are_same: bool
    most_by_passes: float

    @property
    def ratio(self) -> float:
        return self.with_drafts / self.without

    @property
    def figures(self) -> dict[str, float]:
        return {
            "with drafts": self.with_drafts,
            "without": self.without,
            "ratio": self.ratio,
            "passes saved": self.num_passes_saved_share,
            "accepted": self.accepted_share,
            "most by passes": self.most_by_passes,
        }


def duel(
    model: Model,
    answers: Sequence[Recorded],
    params: SamplingParams,
    pace: Pace,
    at_once: int = 1,
    when_ready: Callable[[], object] = lambda: None,
    stream: Streaming | None = None,
) -> Duel:
    """Has both sides write all answers, `at_once` of them together; `when_ready` is called before they begin.

    `stream` reads a model that does not fit into memory (see `Side`).
    """
    drafting, plain = (Side(model, has_drafts, pace, stream) for has_drafts in (True, False))
    when_ready()
    are_same = True
    for start in range(0, len(answers), at_once):
        for side in (drafting, plain):
            side.begin(answers[start : start + at_once], params)
        while open_sides := [side for side in (drafting, plain) if not side.has_written_all]:
            min(open_sides, key=lambda side: side.num_written).go_on()
        are_same &= drafting.written == plain.written
    drafted, accepted = drafting.drafts
    for side in (drafting, plain):
        side.close()
    return Duel(
        drafting.tokens_per_second,
        plain.tokens_per_second,
        accepted / plain.num_timed,
        accepted / drafted if drafted else 0.0,
        are_same,
        most_by_passes(drafting.costs),
    )


def most_by_passes(costs: PassCosts) -> float:
    """Returns the speedup that the measured pass times allow if every token were drafted and accepted."""
    alone = costs.seconds(1)
    drafted = ((size, costs.seconds(size)) for size in range(AT_ONCE, MAX_DRAFT_TOKENS + 2, AT_ONCE))
    return max([1.0, *(size * alone / seconds for size, seconds in drafted if alone and seconds)])
