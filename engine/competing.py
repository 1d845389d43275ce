"""What competes with the model for memory: the index, and everything whose bytes no plan decides.

The planner is given all of it, also before anything is loaded; without a model the index is all there is to place.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from engine.config import MIB, Settings
from engine.core import ModelShape, Span, Tier
from engine.embedder.model import BATCHES
from engine.foreseen import Foreseen
from engine.generation.model_leases import SET_ASIDE
from engine.memory.amounts import in_words
from engine.memory.demand import BOUND_TO_COME, Demand, Wishes, undecided, without_what_comes
from engine.memory.ledger import Ledger
from engine.memory.ledger_share import is_named
from engine.memory.placement import Placement
from engine.memory.recent_extreme import RecentExtreme
from engine.memory.room import LOOK_SECONDS
from engine.memory.runtime import FREED, LIBRARIES, OWNER
from engine.stores import INDEX_SHARE_OF_RAM, StoresOpener

# Smaller changes are no reason for a new plan; rounding wastes half of this for each owner. In a memory of 750 MB,
# three owners wasted 44 MB of it by 16 MiB each, which is more than a layer.
GRAIN_BYTES, GRAIN_SHARE = 16 * MIB, 1 / 256
# If many questions wait, more are answered at once than the settings provide for; a processor gains less by it.
MOST_SLOTS_OF_DEVICE, MOST_SLOTS_OF_PROCESSOR = 64, 16
# The parts of the runtime that the process gives back by itself.
_PASSING = frozenset({LIBRARIES, FREED})
NO_MODEL = ModelShape("", "", 0, (), 0, 0, (), 0, 0)


class Measured(Protocol):
    """Compares what the process holds with what the ledger knows (memory/runtime.py)."""

    def settle(self) -> bool:
        """Enters what libraries took while loading; False while that cannot be told apart from something else."""
        ...

    def unnamed_bytes(self) -> int:
        """Returns what the process holds and the ledger does not know."""
        ...


class Competitors:
    """Computes what competes with a model. Usable from any thread; waits for no thread that waits itself."""

    def __init__(
        self,
        stores: StoresOpener,
        ledger: Ledger,
        settings: Callable[[], Settings],
        foreseen: Foreseen,
        measured: Measured,
        clock: Callable[[], float] = time.monotonic,
        ram_capacity: Callable[[], int] = lambda: 2**40,
        reranker_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """Prepares.

        Args:
            stores: Knows the index and the embedder.
            ledger: Knows who holds what.
            settings: The settings in force.
            foreseen: Knows what libraries that are not loaded yet will take.
            measured: Knows what the process holds.
            clock: Seconds that never go back.
            ram_capacity: How many bytes of memory there are.
            reranker_bytes: What a reranker that is not loaded yet will take with the next question.
        """
        self._stores, self._ledger, self._settings, self._foreseen = stores, ledger, settings, foreseen
        self._measured, self._clock, self._ram_capacity = measured, clock, ram_capacity
        self._reranker_bytes = reranker_bytes
        self._passing, self._unnamed = RecentExtreme(max), RecentExtreme(min)
        self._lock = threading.Lock()

    def beside(self, demand: Demand, *, num_questions: int, has_device: bool) -> Demand:
        """Returns a model's demand with everything that competes with it.

        Args:
            demand: That of the model, from its header and the settings.
            num_questions: How many wait or run.
            has_device: Whether there is a graphics card.
        """
        most = MOST_SLOTS_OF_DEVICE if has_device else MOST_SLOTS_OF_PROCESSOR
        embedder_bytes = self._movable_bytes() if has_device else 0
        return replace(
            self._with_index(demand),
            fixed=self._fixed(without_embedder=bool(embedder_bytes)),
            embedder_bytes=embedder_bytes,
            parallel_answers=max(demand.parallel_answers, min(most, num_questions)),
            held_gpu_bytes=self._ledger.held_bytes("gpu") // GRAIN_BYTES * GRAIN_BYTES,
            held_disk_bytes=self._ledger.counted_bytes("disk") // GRAIN_BYTES * GRAIN_BYTES,
        )

    def alone(self) -> Demand:
        """Returns the demand of the index alone."""
        settings = self._settings()
        wishes = Wishes(index_bytes=settings.memory.index_budget_bytes)
        demand = Demand(NO_MODEL, 0, 1, wishes=wishes, mode=settings.retrieval.index_mode)
        return replace(self._with_index(demand), fixed=self._fixed())

    @property
    def resident_index_bytes(self) -> int:
        """What partitions take in memory now."""
        return self._ledger.held_bytes("ram", "index") - sum(
            span.num_bytes for span in undecided(self._ledger.spans("ram")) if span.owner == "index"
        )

    @property
    def set_aside_bytes(self) -> int:
        """Memory for answers that wait for cells."""
        return sum(span.num_bytes for span in self._ledger.spans("ram") if is_named(span, "kv", SET_ASIDE))

    def _movable_bytes(self) -> int:
        """Returns how much of the embedder can be on a graphics card; 0 before it is loaded."""
        stores = self._stores.opened()
        return _rounded_up(stores.embedder.movable_bytes, GRAIN_BYTES) if stores is not None else 0

    def _fixed(self, *, without_embedder: bool = False) -> tuple[Span, ...]:
        """Returns what no plan decides, and a reranker that comes with the next question, whose room is kept for it."""
        fixed, reranker_bytes = self._fixed_now(without_embedder), self._reranker_bytes()
        if not reranker_bytes:
            return fixed
        grain_bytes = grain_of(self._ram_capacity())
        return (*fixed, Span("reranker", BOUND_TO_COME, "ram", _rounded_up(reranker_bytes, grain_bytes)))

    def _fixed_now(self, without_embedder: bool) -> tuple[Span, ...]:
        """Returns what no plan decides, including what is sure to come; without the weights of an embedder if asked."""
        # What was loaded while a model was being loaded is entered once the model is there.
        are_entered = self._measured.settle()
        # Measurements may be as old as the last look, but are compared with the process as it is now.
        self._ledger.look(LOOK_SECONDS)
        spans, grain_bytes = self._ledger.spans(), grain_of(self._ram_capacity())
        held = undecided(spans)
        staying = [span for span in held if not (without_embedder and self._is_embedder(span))]
        # The embedder comes with the first text, long after the stores are open, and brings libraries of its own.
        has_embedder = any(span.owner == "embedder" and span.state != "loading" for span in spans)
        if self._stores.opened() is None or not has_embedder or not are_entered:
            return self._foreseen.with_what_comes(coarse(staying, grain_bytes))
        # Pages of a model that is being loaded look like those of libraries, and freed memory belongs to no library.
        if all(span.state != "loading" for span in spans if span.tier == "ram"):
            self._foreseen.note(coarse((span for span in held if span.what != FREED), grain_bytes))
            self._look_at_the_rest(held)
        rest_bytes = self._rest_bytes(held) + self._ledger.reserved_bytes("ram")
        rest = Span(OWNER, "of late, promised, or not accounted for", "ram", rest_bytes)
        return coarse((*staying, rest) if rest.num_bytes else staying, grain_bytes)

    def _look_at_the_rest(self, held: Iterable[Span]) -> None:
        """Records what comes and goes with questions, and what no owner has entered."""
        now, unnamed_bytes = self._clock(), max(0, self._measured.unnamed_bytes())
        with self._lock:
            self._passing.see(_passing_bytes(held), now)
            self._unnamed.see(unnamed_bytes, now)

    def _rest_bytes(self, held: Iterable[Span]) -> int:
        """Returns what recently came and went beyond what is held now, and what no owner has entered for a while."""
        with self._lock:
            return max(0, self._passing.value - _passing_bytes(held)) + self._unnamed.value

    def _is_embedder(self, span: Span) -> bool:
        stores = self._stores.opened()
        return stores is not None and span.owner == "embedder" and span.what in (stores.embedder.weights_name, BATCHES)

    def _with_index(self, demand: Demand) -> Demand:
        stores = self._stores.opened()
        partitions = stores.index.partition_bytes if stores is not None else ()
        return replace(
            demand,
            index_bytes=sum(partitions),
            partition_bytes=max(partitions, default=0),
            num_partitions=len(partitions),
        )


def _passing_bytes(held: Iterable[Span]) -> int:
    """Returns the pages of libraries, and what the allocator keeps of freed memory: both return with each question.

    With a limit of 1.07 GB the second was 0 to 90 MB, from searches and prompts. Layers that were pinned while it was
    gone were too many when it came back, and the system killed the engine.
    """
    return sum(span.num_bytes for span in held if span.owner == OWNER and span.what in _PASSING)


def place_index(demand: Demand, ram_capacity_bytes: int) -> Placement:
    """Places the index alone: within a share of memory, the budget, and what was given up."""
    if demand.mode == "on_disk":
        return nothing_but_index(0, demand)
    budget_bytes = demand.budgets.ram_bytes or 0
    if _fixed_bytes(demand) > budget_bytes:
        # Something for which there is no room must not leave the index without any.
        demand = without_what_comes(demand)
    left_bytes = max(0, budget_bytes - _fixed_bytes(demand))
    wish = demand.wishes.index_bytes
    most = int(ram_capacity_bytes * INDEX_SHARE_OF_RAM) if wish is None else wish
    return nothing_but_index(min(most, left_bytes), demand)


def nothing_but_index(index_bytes: int, demand: Demand) -> Placement:
    """Returns the placement of an index that may hold `index_bytes`, without a model."""
    fixed_bytes = _fixed_bytes(demand)
    sentence = f"The index may keep {in_words(index_bytes)} in memory; no model is loaded."
    return Placement(0, 0, 0, fixed_bytes + index_bytes, sentence, num_slots=0, index_bytes=index_bytes)


def _fixed_bytes(demand: Demand) -> int:
    return sum(span.num_bytes for span in demand.fixed if span.tier == "ram")


def grain_of(ram_capacity_bytes: int) -> int:
    """Returns by how many bytes competitors must change before that is a reason for a new plan."""
    return max(MIB, min(GRAIN_BYTES, int(ram_capacity_bytes * GRAIN_SHARE) // MIB * MIB))


def coarse(spans: Iterable[Span], grain_bytes: int = GRAIN_BYTES) -> tuple[Span, ...]:
    """Returns one span for each owner and tier, its bytes rounded up, so that small changes make no difference."""
    sums: dict[tuple[str, Tier], int] = defaultdict(int)
    for span in spans:
        sums[span.owner, span.tier] += span.num_bytes
    return tuple(
        Span(owner, "all of it", tier, _rounded_up(num_bytes, grain_bytes))
        for (owner, tier), num_bytes in sorted(sums.items())
    )


def _rounded_up(num_bytes: int, grain_bytes: int) -> int:
    """Rounds up to whole grains."""
    return -(-num_bytes // grain_bytes) * grain_bytes
