"""Variants of our engine for the serving bench: each a frozen value, and the patches that apply it.

`ours` is the engine as it is. An ablation removes one mechanism, so that the loss shows what the mechanism is worth.
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

# For gangs and all variants with a fixed number: the application's default of concurrent answers, and llama-server's of
# slots.
FIXED_ANSWERS = 4
# The position in `Batching`'s arguments from which they decide how batches are shared.
_TAKES_TURNS = 6
# llama-server's prompt cache where memory is short.
SCARCE_CACHE_MIB = 128


@dataclass(frozen=True, slots=True)
class Gangs:
    """Questions are searched in gangs of at most `most`.

    `are_together`: handed to generation when the whole gang is found. `wait`: the next gang is searched when this one
    was answered.
    """

    most: int
    are_together: bool = False
    wait: bool = True


@dataclass(frozen=True, slots=True)
class Way:
    """How a variant differs from the engine.

    `answers`: memory is planned for this many at once, whatever the load. `has_fixed_index`: the index gets exactly its
    budget. `is_mapped`: the kernel pages in weights that do not fit, without a ring. `has_next_layer_only`: the ring
    holds two whole layers, the one being computed and the next. `keeps_nothing`: no KV is cached. `has_drafts`: quotes
    of passages are drafted. `fills_batches`: a token of each answer and as many prompt tokens as an ubatch has room for
    are computed together, like llama-server. `has_pieces`: prompts are read beside answers, in pieces that hide behind
    reads from the disk.
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
        """Returns the load and the wishes to plan for; `index_share` is the index's budget as a share of its size."""
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
    # RAGDoll's baseline: a gang is searched, then answered (all prompts are read, then all answers written), and no KV
    # is cached from one gang to the next.
    "serial_batched": Way(
        NO_TREE,
        answers=FIXED_ANSWERS,
        keeps_nothing=True,
        fills_batches=True,
        gangs=Gangs(FIXED_ANSWERS, are_together=True),
    ),
    # llama-server with our ring: slots, continuous batching, a prompt cache, passages in the order found, an embedder
    # in torch.
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
# Settings of every variant that does not override them: the application's defaults.
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
    """Applies a variant to engines that are opened in the block.

    Passages stay single chunks, as in the peers: joining neighbours would give much more to read.
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
            # The planner does not count on it either.
            undo.enter_context(mock.patch.object(cost_model, "HIDING_SHARE", 0.0))
            undo.enter_context(mock.patch.object(PassTimes, "hidden_tokens", return_value=0))
        yield


class SteeredPlanner(ProfiledPlanner):
    """Plans for a variant's load and wishes."""

    def __init__(self, way: Way, index_share: float, profile: Callable[[], Profile]) -> None:
        super().__init__(profile)
        self._way, self._index_share = way, index_share

    def sharing(self, placement: Placement, backlog: Backlog, demand: Demand) -> Sharing | None:
        """Returns None for a variant with a fixed number of answers: there is nothing to decide."""
        return super().sharing(placement, backlog, demand) if self._way.answers is None else None

    def plan(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return super().plan(hardware, *self._way.wanted(backlog, demand, self._index_share))

    def placed(self, hardware: Hardware, backlog: Backlog, demand: Demand) -> Placement:
        return super().placed(hardware, *self._way.wanted(backlog, demand, self._index_share))


class GangRetrieval(RetrievalWorker):
    """Searches gang by gang; the retrieval thread waits where a gang must be answered first."""

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
    """A queue that releases nothing until the last gang was answered; waiting here uses no core."""

    def __init__(self, most: int, wait_for_gang: Callable[[], None]) -> None:
        super().__init__(lambda: most)
        self._wait_for_gang = wait_for_gang

    def take(self) -> list[QuestionInFlight] | Any | None:
        self._wait_for_gang()
        return super().take()


class FullBatches(Batching):
    """Ignores turns and pass times: every batch is filled with whatever is ready."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts[:_TAKES_TURNS])


def _loop_without_drafts(*parts: Any, **options: Any) -> StepLoop:
    make: Callable[..., StepLoop] = StepLoop
    return make(*parts, **(options | {"make_drafter": None}))
