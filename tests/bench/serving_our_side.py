"""Our engine under a load: questions are submitted when they arrive, whatever else is being answered.

Runs as a side (side_process.py). Settings: `home`, the engine's folders; `model`; `num_threads`; `way`, a name in
serving_ways.py; `index_share`, the index's budget as a share of its size; `first_question`. A request with `asked` and
`is_alone` returns the start and end of each question's stages by the engine's own clocks, and a snapshot per second. A
request with `measures` measures the model, as an idle engine does; one with `plans` returns what steps would stream
(planned_steps.py).
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from engine.config import Home
from engine.core import Priority, Question
from engine.engine import Engine
from engine.events import (
    AnswerCancelled,
    AnswerEnded,
    AnswerFailed,
    AnswerFinished,
    AnswerStateChanged,
    Event,
    PassagesFound,
)
from engine.memory.heap import lean_heap
from engine.waiting import finished
from engine.yielding import switch_often
from tests.bench import process_marks
from tests.bench.confined import Group
from tests.bench.planned_steps import planned_steps
from tests.bench.sampled import sampled
from tests.bench.serving_evidence import SEARCH_SETTINGS
from tests.bench.serving_figures import Moment, Run, Served
from tests.bench.serving_load import Asked
from tests.bench.serving_turns import Clock
from tests.bench.serving_ways import DEFAULTS, WAYS, SteeredPlanner, in_force
from tests.bench.side_process import Said, group_of, serve
from tests.bench.simulated_runs import Planned

MOMENT_SECONDS = 1.0
# Counters of the loaded model, by the names of our totals.
_OF_STREAM = {"streamed_bytes": "streamed_bytes_total", "waited_s": "streaming_waited_seconds_total"}
_HITS = ("kv_found_in_cells_ratio", "kv_found_in_memory_ratio", "kv_found_on_disk_ratio")

Mark = Literal["found", "writing"]


@dataclass(slots=True)
class Open:
    """A question that has not ended: its arrival, its submission, and the stages it has reached."""

    arrival_s: float
    submitted_s: float
    marks: dict[Mark, float] = field(default_factory=dict)

    def ended(self, end: AnswerFinished, at_s: float) -> Served:
        """Returns the question's times, derived from the engine's own timings."""
        timings = end.timings
        first_token_s = self.submitted_s + timings.ttft_s
        found_s = self.marks.get("found", first_token_s)
        return Served(
            arrival_s=self.arrival_s,
            retrieval_began_s=found_s - timings.retrieval_s,
            retrieval_ended_s=found_s,
            prefill_began_s=first_token_s - timings.prefill_s,
            first_token_s=first_token_s,
            ended_s=at_s,
            prompt_tokens=timings.prompt_tokens,
            cached_tokens=timings.cached_tokens,
            answer_tokens=timings.generated_tokens,
        )


class Grown:
    """Total growth of a counter that starts again when its owner is replaced."""

    def __init__(self) -> None:
        self._last: float | None = None
        self.total = 0.0

    def see(self, count: float) -> None:
        if self._last is not None:
            self.total += count - self._last if count >= self._last else count
        self._last = count


class OurServingSide:
    """An open engine; `close` closes it."""

    def __init__(self, settings: Said, group: Group) -> None:
        self._group, way = group, WAYS[settings["way"]]
        self._way, self._index_share = way, settings["index_share"]
        self._heard: queue.SimpleQueue[tuple[str, Mark | AnswerEnded, float]] = queue.SimpleQueue()
        with ExitStack() as undo:
            undo.enter_context(in_force(way, settings["index_share"]))
            self.engine = undo.enter_context(Engine(Home.under(Path(settings["home"]))))
            self.engine.change_settings(
                {
                    "generation.num_threads": settings["num_threads"],
                    **SEARCH_SETTINGS,
                    **DEFAULTS,
                    **way.settings,
                }
            )
            # Loads libraries and embedder first, so that their memory is known and no plan gives it to the model.
            for model in (None, Path(settings["model"])):
                self.engine.use_model(model)
                self.engine.ask(settings["first_question"], top_k=1, sampling=sampled(2))
            undo.callback(self.engine.subscribe(self._note))
            self._closing = undo.pop_all()

    def answer(self, asked: Sequence[Asked], *, is_alone: bool) -> Run:
        """Submits each question at its arrival; if `is_alone`, when the previous one has been answered."""
        before, computed_before = process_marks.take(self._group), time.process_time()
        grown = {total: Grown() for total in _OF_STREAM}
        self._clock, self._open = Clock(), dict[str, Open]()
        waiting, served, moments = deque(enumerate(asked)), dict[int, Served](), list[Moment]()
        while waiting or self._open:
            while waiting and self._is_due(waiting[0][1], is_alone=is_alone):
                self._submit(*waiting.popleft(), is_alone=is_alone)
            if not moments or self._clock.now() >= moments[-1].at_s + MOMENT_SECONDS:
                moments.append(self._moment())
                self._see(grown)
            until = moments[-1].at_s + MOMENT_SECONDS
            if waiting and not is_alone:
                until = min(until, waiting[0][1].arrival_s)
            served |= self._hear(until)
        self._see(grown)
        after = process_marks.take(self._group).since(before)
        totals = {
            "cpu_s": time.process_time() - computed_before,
            **{total: count.total for total, count in grown.items()},
            "read_bytes": float(after.read_bytes),
            "limit_hits": float(after.limit_hits),
            **{name: self._counted(name) for name in _HITS},
        }
        return Run(tuple(served[number] for number in range(len(asked))), tuple(moments), totals)

    def plans(self) -> Planned:
        """Returns what steps would stream by what is known now, planned as this way plans."""
        parts = self.engine._parts
        senses, planner = parts.adapting._senses, SteeredPlanner(self._way, self._index_share, parts.profile)
        in_force = senses.in_force()
        demand = replace(in_force.demand, budgets=parts.adapting.budgets())
        known = parts.profile(), senses.hardware(), senses.backlog()
        return planned_steps(planner.placed, *known, demand, in_force.here.placement)

    def close(self) -> None:
        self._closing.close()

    def _is_due(self, asked: Asked, *, is_alone: bool) -> bool:
        return not self._open if is_alone else asked.arrival_s <= self._clock.now()

    def _submit(self, number: int, asked: Asked, *, is_alone: bool) -> None:
        now = self._clock.now()
        self._open[str(number)] = Open(now if is_alone else asked.arrival_s, now)
        sampling = sampled(asked.answer_tokens, seed=number)
        # No user waits for a single answer of a load: the mean latency counts.
        priority: Priority = "interactive" if is_alone else "batch"
        question = Question(str(number), asked.text, top_k=asked.passages, sampling=sampling, priority=priority)
        self.engine.submit(question)

    def _hear(self, until: float) -> dict[int, Served]:
        """Handles the next event, waiting no longer than until `until`; returns the question that ended, if one did."""
        try:
            question_id, news, at = self._heard.get(timeout=max(0.0, until - self._clock.now()))
        except queue.Empty:
            return {}
        at_s = self._clock.of(at)
        if not isinstance(news, AnswerFinished | AnswerFailed | AnswerCancelled):
            self._open[question_id].marks.setdefault(news, at_s)
            return {}
        return {int(question_id): self._open.pop(question_id).ended(finished(news), at_s)}

    def _moment(self) -> Moment:
        ledger = self.engine.ledger
        layers = [span for span in ledger.spans("ram") if span.owner == "weights" and span.what.startswith("layer ")]
        placement = self.engine._parts.models.principal.loader.placement
        return Moment(
            at_s=self._clock.now(),
            backlog=len(self._open),
            answers_at_once=sum("writing" in one.marks for one in self._open.values()),
            slots=placement.num_slots if placement is not None else 0,
            index_bytes=ledger.held_bytes("ram", "index"),
            pinned_layers=sum(span.state == "resident" for span in layers),
            kv_ram_bytes=ledger.held_bytes("ram", "kv"),
            kv_disk_bytes=ledger.held_bytes("disk", "kv"),
        )

    def _see(self, grown: Mapping[str, Grown]) -> None:
        for total, count in grown.items():
            count.see(self._counted(_OF_STREAM[total]))

    def _counted(self, name: str) -> float:
        return float(self.engine._parts.generation.counters.get(name, 0.0))

    def _note(self, event: Event) -> None:
        now = time.perf_counter()
        match event:
            case AnswerStateChanged(question_id=question_id, state="writing"):
                self._heard.put((question_id, "writing", now))
            case PassagesFound(question_id=question_id):
                self._heard.put((question_id, "found", now))
            case AnswerFinished() | AnswerFailed() | AnswerCancelled():
                self._heard.put((event.question_id, event, now))


def prepare(settings: Said) -> Callable[[Said], Said]:
    lean_heap()  # as the application does, as below
    switch_often()
    side = OurServingSide(settings, group_of(settings))

    def answer(asked: Said) -> Said:
        if not asked:
            return {}
        if asked.get("measures"):
            return {"num_points": sum(1 for _ in side.engine.measure_model())}
        if asked.get("plans"):
            return asdict(side.plans())
        questions = [Asked.heard(one) for one in asked["asked"]]
        return side.answer(questions, is_alone=asked["is_alone"]).told()

    return answer


if __name__ == "__main__":
    serve(prepare)
