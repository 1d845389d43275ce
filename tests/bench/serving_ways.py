"""Ways in which our engine can be kept from doing what it does: each a frozen value, and the patches that make it so.

`ours` is the engine as it is. What is taken away is one mechanism each, so that what is lost says what it is worth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

from engine import assembly
from engine.core import Evidence
from engine.events import AnswerCancelled, AnswerFailed, AnswerFinished, Event
from engine.generation import building, loaded, steps
from engine.generation.batching import Batching
from engine.generation.pass_times import PassTimes
from engine.generation.step_loop import StepLoop
from engine.inflight import QuestionInFlight
from engine.memory import cost_model
from engine.memory.demand import Backlog, Demand
from engine.memory.gangs import QueueSharing as Sharing
from engine.memory.hardware import Hardware
from engine.memory.placement import Placement
from engine.memory.profile import Profile
from engine.profiled import ProfiledPlanner
from engine.retrieval.batching import MAX_BATCH
from engine.retrieval.joining import Room
from engine.retrieval.waiting_room import WaitingRoom
from engine.retrieval.worker import HandOver, RetrievalWorker
from tests.bench.whole_layers import next_layer_only

# Of the gangs and of everybody with a fixed number: the application's own number of answers that it keeps room for, and
# llama-server's of slots.
FIXED_ANSWERS = 4
# Where the parts of a `Batching` say how batches are shared.
_TAKES_TURNS = 6
# Of llama-server's prompt cache where memory is scarce.
SCARCE_CACHE_MIB = 128


@dataclass(frozen=True, slots=True)
class Gangs:
    """Questions are searched at most so many at a time.

    `are_together`: handed over when all of them are found. `wait`: the next ones are searched when these were answered.
    """

    most: int
    are_together: bool = False
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Way:
    """What of the engine is otherwise.

    `answers`: memory is planned for so many at once, whatever the load. `has_fixed_index`: the index has its budget, no
    more and no less. `is_mapped`: the system reads the weights that do not fit, and no ring. `has_next_layer_only`:
    the ring is one of whole layers, the one that is computed and the next one. `keeps_nothing`: nothing that was read
    is found again. `has_drafts`: what the passages may be quoted with is drafted. `fills_batches`: a token of each
    answer and as much of prompts as an ubatch has room for are computed together, as llama-server does. `has_pieces`:
    prompts are read beside answers in pieces that hide behind the disk.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    answers: int | None = None
    has_fixed_index: bool = False
    is_mapped: bool = False
    has_next_layer_only: bool = False
    keeps_nothing: bool = False
    has_drafts: bool = True
    fills_batches: bool = False
    has_pieces: bool = True
    gangs: Gangs | None = None

    def wanted(self, backlog: Backlog, demand: Demand, index_share: float) -> tuple[Backlog, Demand]:
        """The load and the wishes that are planned for; `index_share` is the index's budget of all of it."""
        if self.answers is not None:
            backlog = replace(backlog, waiting=0, running=self.answers)
            demand = replace(demand, parallel_answers=self.answers)
        if self.has_fixed_index:
            wishes = replace(demand.wishes, index_bytes=int(demand.index_bytes * index_share))
            demand = replace(demand, wishes=wishes)
        if self.is_mapped:
            demand = replace(demand, is_streamable=False)
        return backlog, demand


NO_TREE: Mapping[str, Any] = {"generation.kv_ram_bytes": 0, "generation.kv_disk_bytes": 0}
WAYS: Mapping[str, Way] = {
    "ours": Way(),
    # RAGDoll's baseline: searched as a gang, answered as a gang (all prompts are read, then all answers written),
    # nothing kept of what an earlier one read.
    "serial_batched": Way(
        NO_TREE,
        answers=FIXED_ANSWERS,
        keeps_nothing=True,
        fills_batches=True,
        gangs=Gangs(FIXED_ANSWERS, are_together=True),
    ),
    # What llama-server would be with our ring: slots, continuous batching, a prompt cache, passages in the order in
    # which they come, an embedder in torch.
    "llama_server_with_ring": Way(
        {
            "generation.kv_ram_bytes": SCARCE_CACHE_MIB * 2**20,
            "generation.kv_disk_bytes": 0,
            "generation.reorder_loss": 0.0,
            "embedder.backend": "sentence-transformers",
        },
        answers=FIXED_ANSWERS,
        has_fixed_index=True,
        has_drafts=False,
        fills_batches=True,
        gangs=Gangs(1, wait=False),
    ),
    "ondisk_index": Way({"retrieval.index_mode": "on_disk"}),
    "no_pipeline": Way(gangs=Gangs(MAX_BATCH)),
    "static_batch": Way(answers=FIXED_ANSWERS),
    "no_tree": Way(NO_TREE, keeps_nothing=True),
    "no_ring": Way(is_mapped=True),
    "next_layer_only": Way(has_next_layer_only=True),
    "no_pieces": Way(has_pieces=False),
    "no_residency_control": Way(has_fixed_index=True),
    "no_speculation": Way({"generation.read_ahead": False}),
    "no_drafting": Way(has_drafts=False),
}
# What every way but those that say otherwise has: the application's own.
DEFAULTS: Mapping[str, Any] = {
    "generation.kv_ram_bytes": None,
    "generation.kv_disk_bytes": None,
    "generation.read_ahead": None,
    "generation.reorder_loss": 0.1,
    "retrieval.index_mode": "resident",
    "embedder.backend": "",
}


@contextmanager
def in_force(way: Way, index_share: float) -> Iterator[None]:
    """Has engines that are opened in the block be as this says.

    Passages stay single chunks, as applications like the peers have them: neighbours that join are much more to read.
    """
    with ExitStack() as undo:
        undo.enter_context(mock.patch.object(Room, "of", return_value=Room(0, 0)))
        planner = partial(SteeredPlanner, way, index_share)
        undo.enter_context(mock.patch.object(assembly, "ProfiledPlanner", planner))
        if way.has_next_layer_only:
            undo.enter_context(next_layer_only())
        if way.gangs is not None:
            worker = partial(GangRetrieval, way.gangs)
            undo.enter_context(mock.patch.object(assembly, "RetrievalWorker", worker))
        if way.keeps_nothing:
            for module in (building, loaded):
                undo.enter_context(mock.patch.object(module, "cells_to_keep_in", return_value=0))
        if not way.has_drafts:
            undo.enter_context(mock.patch.object(building, "StepLoop", _loop_without_drafts))
        if way.fills_batches:
            undo.enter_context(mock.patch.object(steps, "Batching", FullBatches))
        if way.fills_batches or not way.has_pieces:
            # Nor is it planned for.
            undo.enter_context(mock.patch.object(cost_model, "HIDING_SHARE", 0.0))
            undo.enter_context(mock.patch.object(PassTimes, "hidden_tokens", return_value=0))
        yield


class SteeredPlanner(ProfiledPlanner):
    """Plans for the load and the wishes of a way."""

    def __init__(self, way: Way, index_share: float, profile: Callable[[], Profile]) -> None:
        super().__init__(profile)
        self._way, self._index_share = way, index_share

    def sharing(self, placement: Placement, backlog: Backlog, demand: Demand) -> Sharing | None:
        """A way that answers a fixed number at once decides nothing."""
        return super().sharing(placement, backlog, demand) if self._way.answers is None else None

    def plan(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return super().plan(hardware, *self._way.wanted(backlog, demand, self._index_share))

    def placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return super().placed(hardware, *self._way.wanted(backlog, demand, self._index_share))


class GangRetrieval(RetrievalWorker):
    """Searches for a gang at a time; the thread of retrieval waits where a gang is to be answered first."""

    def __init__(
        self, gangs: Gangs, open_searcher: Callable[..., Any], hand_over: HandOver, *rest: Any, **options: Any
    ) -> None:
        super().__init__(open_searcher, self._gather, *rest, **options)
        self._gangs, self._hand_over_found = gangs, hand_over
        self._waiting = GangRoom(gangs.most, self._wait_for_gang)
        self._found: list[tuple[QuestionInFlight, Evidence]] = []
        self._open: set[str] = set()
        self._changed, self._is_stopped = threading.Condition(), False

    def note(self, event: Event) -> None:
        super().note(event)
        if isinstance(event, AnswerFinished | AnswerCancelled | AnswerFailed):
            with self._changed:
                self._open.discard(event.question_id)
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        super().stop()

    def _answer(self, batch: Sequence[QuestionInFlight]) -> None:
        with self._changed:
            self._open |= {in_flight.question.question_id for in_flight in batch}
        super()._answer(batch)
        found, self._found = self._found, []
        for in_flight, evidence in found:
            self._hand_over_found(in_flight, evidence)

    def _wait_for_gang(self) -> None:
        if self._gangs.wait:
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopped or not self._open)

    def _gather(self, in_flight: QuestionInFlight, evidence: Evidence) -> None:
        if self._gangs.are_together:
            self._found.append((in_flight, evidence))
        else:
            self._hand_over_found(in_flight, evidence)


class GangRoom(WaitingRoom[Any]):
    """Nothing leaves before the last gang was answered; whoever waits here searches nothing, and takes no core."""

    def __init__(self, most: int, wait_for_gang: Callable[[], None]) -> None:
        super().__init__(lambda: most)
        self._wait_for_gang = wait_for_gang

    def take(self) -> list[QuestionInFlight] | Any | None:
        self._wait_for_gang()
        return super().take()


class FullBatches(Batching):
    """Knows no turns, and no times that speak for any: every batch is filled with whoever there is."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts[:_TAKES_TURNS])


def _loop_without_drafts(*parts: Any, **options: Any) -> StepLoop:
    make: Callable[..., StepLoop] = StepLoop
    return make(*parts, **(options | {"make_drafter": None}))
