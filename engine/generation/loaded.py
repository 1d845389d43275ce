"""A model that is loaded and ready to answer: its context and cells, what keeps them, and the loop that uses them.

Made, used and closed on the generation thread.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from engine.closing import close_all
from engine.core import ModelShape
from engine.generation.cache_files import CacheFiles
from engine.generation.context import Context
from engine.generation.hot_passages import Peek
from engine.generation.knowledge import KnowledgeKeeper
from engine.generation.load_plan import LoadPlan
from engine.generation.model import Model
from engine.generation.model_leases import LeaseGroup
from engine.generation.speaker import Speaker
from engine.generation.step_loop import StepLoop
from engine.generation.trail import KeptTrail
from engine.generation.weights.copied import CopiedWeights
from engine.generation.weights.stream import LayerStream

# Attention passes over all cells, whoever holds them: 18,000 that were not used made reading twice as slow, and loading
# from memory takes milliseconds. So only KV that is likely to be shared lies in cells.
KEPT_CELLS_SHARE = 1 / 8
# What memory has no room for would be read again: this much may lie there or in cells. Running answers come first.
KEPT_HERE_SHARE, MOST_KEPT_HERE = 3 / 4, 4096
# Beyond this, what no user has asked for would push out what a user has.
ROOM_SHARE = 0.8
# Nodes that are written at a time while idle.
FLUSHED_AT_ONCE = 4


def cells_to_keep_in(num_cells: int, shape: ModelShape, ram_bytes: int) -> int:
    """How many cells may hold KV that no answer uses, given this much memory for such KV."""
    in_ram = ram_bytes // max(1, shape.kv_bytes(1))
    return max(int(num_cells * KEPT_CELLS_SHARE), min(int(num_cells * KEPT_HERE_SHARE), MOST_KEPT_HERE) - in_ram)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model; `plan` is how it is placed now.

    `context_leases` are the context's in the ledger. `ahead_from_seconds`: prompts are read ahead while a search goes
    on for at least this long, where that is of any use. `keeps_in_cells`: KV may lie in cells that no answer needs.
    `stream` holds the layers in memory and reads the others; None where the system does. `copied` are weights in the
    processor's order, where they can leave memory.
    """

    plan: LoadPlan
    model: Model
    context: Context
    context_leases: LeaseGroup
    speaker: Speaker
    loop: StepLoop
    keeper: KnowledgeKeeper
    files: CacheFiles
    ahead_from_seconds: float = math.inf
    keeps_in_cells: bool = True
    stream: LayerStream | None = None
    copied: CopiedWeights | None = None

    @property
    def shape(self) -> ModelShape:
        """The shape with the bytes of a cell in its present format."""
        return self.plan.shape

    def reads_ahead(self, left_seconds: float) -> bool:
        """Whether a prompt is read while the search for its passages takes `left_seconds` more."""
        return self.keeps_beginnings and left_seconds >= self.ahead_from_seconds

    @property
    def peek(self) -> Peek | None:
        """How much of a prompt's beginning is kept; None where only whole sequences are."""
        return self.keeper.peek if self.keeps_beginnings else None

    @property
    def trail(self) -> KeptTrail | None:
        """The same, one segment after the other."""
        return self.keeper.trail()

    @property
    def keeps_beginnings(self) -> bool:
        """Whether one prompt can reuse the beginning of another, and read on after it."""
        return not self.keeper.keeps_whole

    @property
    def has_disk_room(self) -> bool:
        """Whether more can be kept without something else having to leave."""
        return self.files.held_bytes < self.files.budget_bytes * ROOM_SHARE

    def apply(self, ram_bytes: int) -> None:
        """Bounds what is kept in cells and memory."""
        kept_cells = cells_to_keep_in(self.context.num_cells, self.shape, ram_bytes) if self.keeps_in_cells else 0
        self.keeper.set_budgets(kept_cells, ram_bytes)

    def documents(self) -> frozenset[int]:
        """The documents of which something is kept."""
        return self.keeper.tree.documents()

    def forget(self, documents: Collection[int]) -> None:
        """Drops everything kept that holds text of these documents."""
        self.keeper.forget(documents)

    def flush(self) -> bool:
        """Writes some of what is kept to disk; False when all of it is there."""
        return self.keeper.flush(FLUSHED_AT_ONCE) > 0 or self.keeper.is_behind

    def counters(self) -> dict[str, float]:
        """Rates and gauges for the Memory page, by name."""
        loop = self.loop.counters()
        figures: dict[str, float] = {
            "tokens_per_s": loop.tokens_per_second,
            "kv_cells_used": loop.cells_used,
            "kv_cells_free": loop.cells_free,
            "preemptions": loop.preempted_by_swap + loop.preempted_by_recompute,
            "steps_total": loop.steps,
            "generated_tokens_total": loop.generated_tokens,
            "prompt_passes_total": loop.prompt_passes.count,
            "prompt_pass_tokens_total": loop.prompt_passes.tokens,
            "prompt_pass_cached_tokens_total": loop.prompt_passes.cached_tokens,
            "prompt_pass_seconds_total": loop.prompt_passes.seconds,
        }
        if self.stream is not None:
            streamed = self.stream.counters()
            figures["streamed_bytes_total"] = streamed.read_bytes
            figures["streaming_seconds_total"] = streamed.reading_seconds
            figures["streaming_waited_seconds_total"] = streamed.waited_seconds
        # By question; cells that several share count for each.
        figures |= {f"kv_cells_of:{request}": float(cells) for request, cells in loop.cells_by_request}
        if loop.drafted_tokens:
            figures["drafts_accepted_ratio"] = loop.accepted_tokens / loop.drafted_tokens
        return figures | self._kept()

    def close(self, keeping_seconds: float) -> None:
        """Gives everything back; what is kept is written to disk first, as much as there is time for."""
        close_all(self.loop.close, partial(self.keeper.close, keeping_seconds), self.context.close, self.close_weights)

    def abandon(self) -> None:
        """Like `close`, but writes nothing: something went wrong, possibly with what is in the cells."""
        self.keeper.write_nothing()
        close_all(self.loop.close, self.keeper.abandon, self.context.close, self.close_weights)

    def close_weights(self) -> None:
        """Frees the weights, which no context may use any more. A second call does nothing."""
        parts = [part.close for part in (self.stream, self.copied) if part is not None]
        close_all(*parts, self.model.close)

    def _kept(self) -> dict[str, float]:
        figures = self.keeper.figures()
        return {
            "kv_found_in_cells_ratio": figures.cells.hit_ratio,
            "kv_found_in_memory_ratio": figures.ram.hit_ratio,
            "kv_found_on_disk_ratio": figures.disk.hit_ratio,
            "kv_kept_in_cells_bytes": figures.cells.num_bytes,
            "kv_kept_in_memory_bytes": figures.ram.num_bytes,
            "kv_gaps_in_memory_bytes": figures.waste_bytes,
            "kv_kept_on_disk_bytes": figures.disk.num_bytes,
        }
