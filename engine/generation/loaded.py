"""A model that is loaded and ready to answer: its context and cells, the keeper of its KV, and its step loop.

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

# Attention passes over all cells, whoever holds them: 18,000 unused ones made reading twice as slow, while loading KV
# from memory takes milliseconds. So only KV that is likely to be shared stays in cells.
KEPT_CELLS_SHARE = 1 / 8
# What memory has no room for would be computed again: so memory and cells together may hold up to this much. Running
# answers come first.
KEPT_HERE_SHARE, MOST_KEPT_HERE = 3 / 4, 4096
# Beyond this, KV that no user has asked for would evict KV that a user has.
ROOM_SHARE = 0.8
# How many nodes are written at a time while idle.
FLUSHED_AT_ONCE = 4


def cells_to_keep_in(num_cells: int, shape: ModelShape, ram_bytes: int) -> int:
    """Returns how many cells may hold KV that no answer uses, given this much memory for such KV."""
    in_ram = ram_bytes // max(1, shape.kv_bytes(1))
    return max(int(num_cells * KEPT_CELLS_SHARE), min(int(num_cells * KEPT_HERE_SHARE), MOST_KEPT_HERE) - in_ram)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model; `plan` is how it is placed now.

    `context_leases` are the context's in the ledger. `ahead_from_seconds`: prompts are read ahead while a search goes
    on for at least this long, if the model can reuse that. `keeps_in_cells`: KV may stay in cells that no answer needs.
    `stream` holds some layers in memory and reads the others; None if the system manages them. `copied` are weights in
    the processor's order, if they can leave memory.
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
        """Returns whether a prompt is read while the search for its passages takes `left_seconds` more."""
        return self.keeps_beginnings and left_seconds >= self.ahead_from_seconds

    @property
    def peek(self) -> Peek | None:
        """Returns how much of a prompt's beginning is kept; None if only whole sequences are."""
        return self.keeper.peek if self.keeps_beginnings else None

    @property
    def trail(self) -> KeptTrail | None:
        """The same, segment by segment."""
        return self.keeper.trail()

    @property
    def keeps_beginnings(self) -> bool:
        """Whether a prompt can reuse the beginning of another and continue after it."""
        return not self.keeper.keeps_whole

    @property
    def has_disk_room(self) -> bool:
        """Whether more can be kept on disk without evicting anything."""
        return self.files.held_bytes < self.files.budget_bytes * ROOM_SHARE

    def apply(self, ram_bytes: int) -> None:
        """Bounds the KV that is kept in cells and memory."""
        kept_cells = cells_to_keep_in(self.context.num_cells, self.shape, ram_bytes) if self.keeps_in_cells else 0
        self.keeper.set_budgets(kept_cells, ram_bytes)

    def documents(self) -> frozenset[int]:
        """Returns the documents of which something is kept."""
        return self.keeper.tree.documents()

    def forget(self, documents: Collection[int]) -> None:
        """Drops all kept KV with text of these documents."""
        self.keeper.forget(documents)

    def flush(self) -> bool:
        """Writes some of the kept KV to disk; returns False once all of it is there."""
        return self.keeper.flush(FLUSHED_AT_ONCE) > 0 or self.keeper.is_behind

    def counters(self) -> dict[str, float]:
        """Returns rates and gauges for the Memory page, by name."""
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
        # Cells that several questions share count for each.
        figures |= {f"kv_cells_of:{request}": float(cells) for request, cells in loop.cells_by_request}
        if loop.drafted_tokens:
            figures["drafts_accepted_ratio"] = loop.accepted_tokens / loop.drafted_tokens
        return figures | self._kept()

    def close(self, keeping_seconds: float) -> None:
        """Frees everything; kept KV is written to disk first, as far as time permits."""
        close_all(self.loop.close, partial(self.keeper.close, keeping_seconds), self.context.close, self.close_weights)

    def abandon(self) -> None:
        """Frees everything like `close`, but writes nothing: what failed may have damaged the cells."""
        self.keeper.write_nothing()
        close_all(self.loop.close, self.keeper.abandon, self.context.close, self.close_weights)

    def close_weights(self) -> None:
        """Frees the weights; no context may use them any more. A second call does nothing."""
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
