"""Plans how a model is placed, before any of it is loaded: from its header, the settings and what is free.

The plan is a value. If it turns out that there is no room for it, the next rung of the ladder (memory/ladder.py) is
planned instead. A loaded model that is placed differently has the same plan with another placement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from engine.config import Settings
from engine.core import ModelShape, Tier
from engine.generation.changing import change_of
from engine.generation.context import ContextSpec
from engine.generation.kv_room import KVRoom, shape_with
from engine.memory.demand import Backlog, Demand
from engine.memory.hardware import Hardware
from engine.memory.ladder import LadderState, Rung, constrained, next_rung
from engine.memory.placement import Placement
from engine.memory.planner import plan
from engine.memory.profile import Profile
from engine.memory.wording import COPIED
from engine.memory.workspace import MAX_SEQUENCES, num_sequences, num_states
from engine.models.fit import by_settings, demand_of
from engine.own_cores import physical_cores

# A processor takes about a second to read this many tokens of a prompt.
UBATCH_OF_PROCESSOR = 128
# A search that still takes this long waits for the disk, and leaves the processor to the model. A shorter one needs the
# processor for itself, and for the quotes that the user sees first.
AHEAD_ON_PROCESSOR_SECONDS = 0.5
# Decides a placement from the machine and the demand.
Planning = Callable[[Hardware, Demand], Placement]


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence for users about how a model was loaded, shown while it is true.

    That is while all of these `rungs` are given up and, if `is_of_file_order`, while weights are in the order of the
    model's file.
    """

    sentence: str
    rungs: tuple[Rung, ...] = ()
    is_of_file_order: bool = False

    def is_true_of(self, placement: Placement, given_up: tuple[Rung, ...]) -> bool:
        lies_so = not (self.is_of_file_order and placement.is_repacked)
        return lies_so and all(rung in given_up for rung in self.rungs)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A placement and what it was derived from; `given_up` are the rungs of the ladder that it gives up.

    `n_gpu_layers` is the user's choice for this model, which overrides the settings; `remarks` are from all its loads.
    `demand.shape` has the bytes of a 16-bit cell, `shape` those of a cell in the format that is used.
    `unpacked`: layers could not be streamed in the processor's order as planned, temporarily or permanently.
    """

    path: Path
    settings: Settings
    demand: Demand
    placement: Placement
    n_gpu_layers: int | None = None
    given_up: tuple[Rung, ...] = ()
    remarks: tuple[Remark, ...] = ()
    unpacked: Literal["for_now", "for_good"] | None = None

    @property
    def shape(self) -> ModelShape:
        return shape_with(self.demand.shape, self.placement.kv_type)

    @property
    def room(self) -> KVRoom:
        """The room that the placement gives to keys and values."""
        placement = self.placement
        # There may be less room than was wanted.
        tokens = min(self.demand.context_tokens, placement.context_tokens or placement.num_cells)
        return KVRoom(tokens, placement.num_cells, placement.kv_ram_bytes, placement.kv_disk_bytes)

    @property
    def spec(self) -> ContextSpec:
        """The parameters of a context for this placement."""
        chosen, placement = self.settings.generation, self.placement
        return ContextSpec(
            num_cells=placement.num_cells,
            n_batch=max(chosen.n_batch, placement.n_ubatch),
            n_ubatch=placement.n_ubatch,
            num_threads=chosen.num_threads or physical_cores(),
            num_sequences=num_states(self.shape, placement.num_slots) or self._num_sequences,
            kv_type=placement.kv_type,
            kv_on_gpu=placement.kv_on_gpu,
            # A device that the plan does not use must not be used for large batches either.
            op_offload=placement.computes_large_batches_on_device,
        )

    @property
    def _num_sequences(self) -> int:
        """As many sequences for kept KV as for answers being written."""
        placement = self.placement
        affordable = num_sequences(self.demand.shape.vocabulary_size, placement.num_cells)
        return min(MAX_SEQUENCES, max(affordable, 2 * placement.num_slots))

    @property
    def sentence(self) -> str:
        """The decision, for users."""
        true = (remark.sentence for remark in self.remarks if remark.is_true_of(self.placement, self.given_up))
        sentences = [self.placement.sentence, *dict.fromkeys(true)]
        if self.demand.wishes.kv_type == "f16" != self.settings.generation.kv_type:
            sentences.append("Keys and values stay at 16 bits: the heads of this model allow no other.")
        return " ".join(sentences)

    def ahead_from_seconds(self, settings: Settings) -> float:
        """Returns how long a search must still take for its passages to be read meanwhile, by the settings in force."""
        chosen = settings.generation.read_ahead
        if chosen is None and self.placement.n_gpu_layers == 0:
            return AHEAD_ON_PROCESSOR_SECONDS
        return math.inf if chosen is False else 0.0

    def demand_by(self, settings: Settings) -> Demand:
        """Returns what the model wants under other settings."""
        return by_settings(self.demand, settings, self.n_gpu_layers)

    def in_file_order(self, *remarks: Remark, may_pass: bool = False) -> LoadPlan:
        """Returns the plan for a model whose layers turned out not to be streamable in the processor's order.

        This holds while the model is loaded, even if another load might succeed.
        """
        placement, demand = replace(self.placement, is_repacked=False), replace(self.demand, is_packable=False)
        unpacked: Literal["for_now", "for_good"] = "for_now" if may_pass else "for_good"
        remarks = (*self.remarks, *remarks)
        return replace(self, demand=demand, placement=placement, remarks=remarks, unpacked=unpacked)

    def with_stages(self, stage_bytes: int, num_slots: int) -> LoadPlan:
        """Returns the plan for a model with other stages than its header promised; no part is pinned in memory."""
        demand = replace(self.demand, shape=replace(self.demand.shape, stage_bytes=stage_bytes))
        placement = replace(self.placement, ring_slots=num_slots, pinned_part=None)
        return replace(self, demand=demand, placement=placement)

    def uncopied(self) -> LoadPlan:
        """Returns the plan for a model whose streamed layers turned out not to be copyable by a device."""
        demand = replace(self.demand, can_copy_streamed=False)
        reasons = tuple(reason for reason in self.placement.reasons if reason != COPIED)
        return replace(self, demand=demand, placement=replace(self.placement, copies_streamed=False, reasons=reasons))

    def unstreamed(self, remark: str) -> LoadPlan:
        """Returns the plan for a model whose layers turned out not to be readable one by one."""
        placement = replace(
            self.placement,
            streamed_layers=(),
            pinned_part=None,
            ring_slots=0,
            copies_streamed=False,
            can_leave=False,
        )
        demand = replace(self.demand, is_streamable=False, wishes=replace(self.demand.wishes, can_leave=False))
        return replace(self, demand=demand, placement=placement, remarks=(*self.remarks, Remark(remark)))

    def placed(self, placement: Placement) -> LoadPlan:
        """Returns the plan with another placement."""
        return replace(self, placement=placement)

    def rungs(self, hardware: Callable[[], Hardware], planning: Planning) -> Iterator[LoadPlan]:
        """Yields plans that load less and less, one rung of the ladder at a time; the machine is probed for each."""
        plan = self.one_lower(hardware(), planning)
        while plan is not None:
            yield plan
            plan = plan.one_lower(hardware(), planning)

    def one_lower(self, hardware: Hardware, planning: Planning, short_of: Tier = "gpu") -> LoadPlan | None:
        """Returns the plan that gives up one more rung and therefore loads less; None if no such rung is left.

        The tier that it is `short_of` is relieved first, if the model uses it.
        """
        tiers: tuple[Tier, ...] = ("gpu", "ram") if self.placement.n_gpu_layers else ("ram",)
        for tier in sorted(tiers, key=lambda tier: tier != short_of):
            offered = self.given_up
            while (rung := next_rung(tier, LadderState(self.demand, self.placement, offered))) is not None:
                # Giving up kept KV or resident partitions frees nothing during a load: on to the next rung.
                offered = (*offered, rung)
                plan = self._without(rung, hardware, planning)
                if change_of(self.placement, plan.placement, self.shape).moves_answers:
                    return plan
        return None

    def _without(self, rung: Rung, hardware: Hardware, planning: Planning) -> LoadPlan:
        given_up = (*self.given_up, rung)
        placement = planning(hardware, constrained(self.demand, given_up))
        return replace(self, placement=placement, given_up=given_up)


def plan_load(
    path: Path,
    settings: Settings,
    hardware: Hardware,
    n_gpu_layers: int | None,
    planning: Planning | None = None,
    beside: Callable[[Demand], Demand] = lambda demand: demand,
) -> LoadPlan:
    """Reads the model's header and plans its load.

    Args:
        path: The model's file, or the first of several.
        settings: The settings in force.
        hardware: What the machine has, and how much of it is free.
        n_gpu_layers: The user's choice for this model; None leaves it to the settings, which may leave it to the plan.
        planning: Decides the placement; None decides without measurements.
        beside: Adds what competes with the model to the demand.

    Raises:
        ModelNotFound: There is no such file.
        ModelFileInvalid: It is not a model that can write answers, or it is damaged.
        ModelUnreadable: The system refuses to read it.
    """
    demand = beside(demand_of(path, settings, n_gpu_layers))
    return LoadPlan(path, settings, demand, (planning or unmeasured)(hardware, demand), n_gpu_layers)


def unmeasured(hardware: Hardware, demand: Demand) -> Placement:
    """Plans as for a machine without measurements, with as many answers as are wanted."""
    return plan(hardware, Profile(), Backlog(), demand)
