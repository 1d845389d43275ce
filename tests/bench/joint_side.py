"""The whole engine within a memory limit: a library, a model, and a fixed number of questions open at a time.

Runs as a side (side_process.py). Settings: `home`, the engine's folders; `model`; `num_threads`; `passages` per
question; `answer_tokens`; and `split`, a fixed division of memory (joint_figures.py), or None for the adaptive engine.
A request with `questions` and `at_once` is answered with an `Answered`; an empty one with the bytes held, which without
a model is everything but weights.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

from engine import assembly
from engine.config import Home
from engine.core import Question
from engine.engine import Engine
from engine.events import AnswerCancelled, AnswerEnded, AnswerFailed, AnswerFinished, Event
from engine.memory.demand import Backlog, Demand
from engine.memory.gangs import QueueSharing as Sharing
from engine.memory.hardware import Hardware
from engine.memory.heap import lean_heap
from engine.memory.placement import Placement
from engine.memory.profile import Profile
from engine.profiled import ProfiledPlanner
from engine.waiting import finished
from engine.yielding import switch_often
from tests.bench.confined import Group
from tests.bench.joint_figures import INDEX_FACTOR, Answered, Split
from tests.bench.sampled import sampled
from tests.bench.side_process import Said, group_of, serve

NO_MODEL = "none"


class JointSide:
    """An open engine; `close` closes it."""

    def __init__(self, settings: Said, group: Group) -> None:
        self._group, self._answer_tokens = group, settings["answer_tokens"]
        self._ended: queue.SimpleQueue[tuple[AnswerEnded, float]] = queue.SimpleQueue()
        with ExitStack() as undo:
            if settings["split"] is not None:
                undo.enter_context(fixed(Split(**settings["split"])))
            self.engine = undo.enter_context(Engine(Home.under(Path(settings["home"]))))
            self.engine.change_settings(
                {
                    "retrieval.passages": settings["passages"],
                    # Otherwise the prompt is the whole of each small file, and reading it hides the effect of memory.
                    "retrieval.whole_document_chunks": 0,
                    # Words of a question that look like file names would restrict its search.
                    "retrieval.reads_filters": False,
                    "generation.num_threads": settings["num_threads"],
                    "generation.max_context": 2048,
                    # Cached KV would make later phases faster than the first.
                    "generation.kv_ram_bytes": 0,
                    "generation.kv_disk_bytes": 0,
                }
            )
            # Loads libraries and embedder first, so that their memory is known and no plan gives it to the model.
            for model in filter(None, (NO_MODEL, settings["model"])):
                self.engine.use_model(None if model == NO_MODEL else Path(model))
                self.engine.ask(settings["first_question"], sampling=sampled(2))
            undo.callback(self.engine.subscribe(self._note))
            self._closing = undo.pop_all()

    def answer(self, questions: Sequence[str], at_once: int) -> Answered:
        """Answers all questions with `at_once` of them open; the next is asked when one has ended."""
        hits = self._group.usage().limit_hits
        waiting, asked = deque(enumerate(questions)), dict[str, float]()
        latencies: list[float] = []
        begun = time.perf_counter()
        while waiting or asked:
            while waiting and len(asked) < at_once:
                number, text = waiting.popleft()
                asked[str(number)] = time.perf_counter()
                sampling = sampled(self._answer_tokens, number)
                self.engine.submit(Question(str(number), text, sampling=sampling, priority="batch"))
            ended, at = self._ended.get()
            latencies.append(at - asked.pop(finished(ended).question_id))
        return Answered(
            seconds=time.perf_counter() - begun,
            latencies=tuple(latencies),
            limit_hits=self._group.usage().limit_hits - hits,
            **self._homes(),
        )

    def close(self) -> None:
        self._closing.close()

    def _homes(self) -> Mapping[str, object]:
        """Returns what is in memory now."""
        spans = self.engine.ledger.spans("ram")
        layers = [span for span in spans if span.owner == "weights" and span.what.startswith("layer ")]
        return {
            "pinned_layers": sum(span.state == "resident" for span in layers),
            "index_bytes": self.engine.ledger.held_bytes("ram", "index"),
            "sentence": next(iter(self.engine.memory().decisions), ""),
        }

    def _note(self, event: Event) -> None:
        if isinstance(event, AnswerFinished | AnswerFailed | AnswerCancelled):
            self._ended.put((event, time.perf_counter()))


class FixedPlanner(ProfiledPlanner):
    """Plans for a load that never changes, within the shares of a split."""

    def __init__(self, split: Split, profile: Callable[[], Profile]) -> None:
        super().__init__(profile)
        self._split = split

    def plan(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return self._with_index(super().plan(hardware, *self._wanted(backlog, demand)), demand)

    def placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return self._with_index(super().placed(hardware, *self._wanted(backlog, demand)), demand)

    def _wanted(self, backlog: Backlog, demand: Demand) -> tuple[Backlog, Demand]:
        return as_split(backlog, self._split), demand_of(demand, self._split)

    def _with_index(self, placement: Placement, demand: Demand) -> Placement:
        index_bytes = max(placement.index_bytes, index_bytes_of(demand, self._split))
        ram_bytes = placement.ram_bytes + index_bytes - placement.index_bytes
        return replace(placement, index_bytes=index_bytes, ram_bytes=ram_bytes)

    def should_change(self, current: Placement, wanted: Placement, now: float, *, must: bool = False) -> bool:
        """Applies the split's index size even where answers become slower."""
        must = must or current.index_bytes != wanted.index_bytes
        return super().should_change(current, wanted, now, must=must)

    def sharing(self, placement: Placement, backlog: Backlog, demand: Demand) -> Sharing | None:
        """Caps concurrent answers at the split's number; cells alone would admit more where answers are short."""
        found = super().sharing(placement, backlog, demand)
        return found and replace(found, step_seconds=found.step_seconds[: self._split.at_once])


@contextmanager
def fixed(split: Split) -> Iterator[None]:
    """Makes engines that are opened in the block divide memory like this, whatever the load."""
    with mock.patch.object(assembly, "ProfiledPlanner", partial(FixedPlanner, split)):
        yield


def as_split(backlog: Backlog, split: Split) -> Backlog:
    """Returns a backlog that always wants that number of answers."""
    return replace(backlog, waiting=0, running=split.at_once)


def demand_of(demand: Demand, split: Split) -> Demand:
    """Returns the demand of the model alone, within what the split leaves beside index and partition buffer."""
    kept_bytes = max(0, index_bytes_of(demand, split) - demand.partition_bytes)
    budget = demand.budgets.ram_bytes
    if budget is not None:
        fixed_bytes = sum(span.num_bytes for span in demand.fixed if span.tier == "ram")
        budget = fixed_bytes + int(max(0, budget - fixed_bytes - kept_bytes) * split.model_share)
    budgets, wishes = replace(demand.budgets, ram_bytes=budget), replace(demand.wishes, index_bytes=0)
    return replace(demand, parallel_answers=split.at_once, wishes=wishes, budgets=budgets)


def index_bytes_of(demand: Demand, split: Split) -> int:
    """Returns how much of the index a split keeps in memory."""
    return int(demand.index_bytes / INDEX_FACTOR * split.index_share)


def prepare(settings: Said) -> Callable[[Said], Said]:
    lean_heap()  # as the application does, as below
    switch_often()
    group = group_of(settings)
    side = JointSide(settings, group)

    def answer(asked: Said) -> Said:
        if not asked:
            index_bytes = side.engine.ledger.held_bytes("ram", "index")
            return {"held_bytes": group.usage().held_bytes, "index_bytes": index_bytes}
        return side.answer(asked["questions"], asked["at_once"]).told()

    return answer


if __name__ == "__main__":
    serve(prepare)
