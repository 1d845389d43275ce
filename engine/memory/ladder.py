"""The ladder: what to give up next where memory runs short, one rung at a time, and in which order to take it back.

There is one ladder for each tier: first what costs nothing but time, last what costs quality, and that only where the
user allowed it. A rung is a value: what it bounds, and a sentence for the user. Nothing is done here. The caller
passes `constrained(demand, given_up)` to the planner, and does itself what no plan can express: `ACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from engine.config import MIB
from engine.core import Tier
from engine.memory.amounts import in_words
from engine.memory.demand import Demand, Wishes
from engine.memory.placement import Placement, layers_of

RungKind = Literal[
    "embedder_to_ram",
    "idle_model",
    "tree_to_ram",
    "kv_to_ram",
    "fewer_cells",
    "layers_off_gpu",
    "tree_to_disk",
    "cold_partitions",
    "sequences_to_disk",
    "more_streamed",
    "fewer_files",
    "kv_8bit",
    "smaller_context",
]
# Below this, giving up more frees nothing noticeable.
LEAST_BYTES = 32 * MIB
# One part in this many of what is kept stays at each step.
KEPT_SHARE = 4
LEAST_CONTEXT_TOKENS = 1024
# A plan comes this close to a bound, as far as whole layers allow.
FOLLOWED = 1.05
# One part in this many of the layers may leave at a time.
LAYERS_SHARE = 8
# What a plan cannot express: done by the part that holds it.
ACTS: frozenset[RungKind] = frozenset({"idle_model", "tree_to_ram", "sequences_to_disk"})
LOSSY: frozenset[RungKind] = frozenset({"kv_8bit", "smaller_context"})


@dataclass(frozen=True, slots=True)
class Rung:
    """Something that can be given up in a tier.

    `bound` is the most that is left of it, in its own unit: bytes, answers at once, layers or tokens. `num_bytes` is
    about what giving it up frees. `sentence` is shown when it is given up, `way_back` when it is taken back.
    """

    tier: Tier
    kind: RungKind
    sentence: str
    way_back: str
    bound: int = 0
    num_bytes: int = 0

    @property
    def is_lossy(self) -> bool:
        return self.kind in LOSSY


@dataclass(frozen=True, slots=True)
class LadderState:
    """The present state: the placement in force, what was wanted, and what has been given up, the oldest first.

    `is_idle`: no answer is waited for, and `is_loaded`: there is a model. `tree_bytes` and `index_bytes` are in use now
    in memory (None: as the placement says), `kept_cells_bytes` of the cache of keys and values for KV that is not in
    use, `set_aside_bytes` in memory for answers that wait for cells.
    """

    demand: Demand
    placement: Placement
    given_up: tuple[Rung, ...] = ()
    is_idle: bool = False
    is_loaded: bool = True
    tree_bytes: int | None = None
    index_bytes: int | None = None
    kept_cells_bytes: int = 0
    set_aside_bytes: int = 0

    def has_given_up(self, kind: RungKind) -> bool:
        return any(rung.kind == kind for rung in self.given_up)

    def bounded(self, kind: RungKind, value: int) -> int:
        """Returns the value, or what earlier rungs of this kind have left of it."""
        return min((rung.bound for rung in self.given_up if rung.kind == kind), default=value)


def next_rung(tier: Tier, state: LadderState) -> Rung | None:
    """Returns what to give up next in a tier; None where nothing is left that can be spared."""
    for offered in _LADDERS[tier]:
        rung = offered(tier, state)
        if rung is not None:
            return rung
    return None


def next_loss(tier: Tier, state: LadderState) -> Rung | None:
    """Returns the next lossy rung, whatever else could be given up first; None where none is left."""
    return next((rung for offered in _LOSSES if (rung := offered(tier, state)) is not None), None)


def awaits_loss(given_up: Iterable[Rung], placement: Placement) -> bool:
    """Returns whether something that costs quality was given up, and the placement in force still has it."""
    return any(rung.is_lossy and not _is_without(placement, rung) for rung in given_up)


def _is_without(placement: Placement, rung: Rung) -> bool:
    if rung.kind == "kv_8bit":
        return placement.kv_type == "q8_0"
    return (placement.context_tokens or placement.num_cells) <= rung.bound


def rung_to_climb(tier: Tier, state: LadderState) -> Rung | None:
    """Returns what to take back first: the rung of this tier that was given up last."""
    return next((rung for rung in reversed(state.given_up) if rung.tier == tier), None)


def constrained(demand: Demand, given_up: Iterable[Rung]) -> Demand:
    """Returns the demand without what was given up."""
    for rung in given_up:
        demand = _constrained(demand, rung)
    return demand


# --- the rungs of a graphics card ---


def _embedder_to_ram(tier: Tier, state: LadderState) -> Rung | None:
    if not state.placement.embedder_on_gpu or state.has_given_up("embedder_to_ram"):
        return None
    return Rung(
        tier,
        "embedder_to_ram",
        "The embedding model moves from the graphics card to main memory.",
        "The embedding model may return to the graphics card.",
        num_bytes=state.demand.embedder_bytes,
    )


def _kv_to_ram(tier: Tier, state: LadderState) -> Rung | None:
    placement = state.placement
    if not (placement.kv_on_gpu and placement.n_gpu_layers) or state.has_given_up("kv_to_ram"):
        return None
    return Rung(
        tier,
        "kv_to_ram",
        "Keys and values of the answers move from the graphics card to main memory.",
        "Keys and values of the answers may return to the graphics card.",
        num_bytes=_kv_bytes(state, "gpu"),
    )


def _layers_off_gpu(tier: Tier, state: LadderState) -> Rung | None:
    layers = min(state.placement.n_gpu_layers, state.bounded("layers_off_gpu", state.placement.n_gpu_layers))
    if not layers:
        return None
    left = layers - max(1, state.placement.num_layers // LAYERS_SHARE)
    # The output head is the first to come and the last to go: alone on the device it would be useless.
    left = left if left > 1 else 0
    shape = state.demand.shape
    then, now = (layers_of(count, state.placement.num_layers) for count in (layers, left))
    return Rung(
        tier,
        "layers_off_gpu",
        f"{now} layers of the model stay on the graphics card instead of {then}."
        if now
        else "The model leaves the graphics card; the processor computes all of it.",
        f"Up to {then} layers of the model may lie on the graphics card again.",
        bound=left,
        num_bytes=sum(shape.layer_bytes[::-1][now:then]) + (0 if left else shape.head_bytes),
    )


# --- the rungs of main memory ---


def _tree_to_disk(tier: Tier, state: LadderState) -> Rung | None:
    held = _least(state.placement.kv_ram_bytes, state.tree_bytes, state.bounded("tree_to_disk", 2**63))
    if held <= 0:
        return None
    left = _lessened(held)
    return Rung(
        tier,
        "tree_to_disk",
        f"What was read is kept in {in_words(left)} of memory instead of {in_words(held)}; the rest is on the disk."
        if left
        else "What was read is kept on the disk only.",
        "What was read may be kept in more memory again.",
        bound=left,
        num_bytes=held - left,
    )


def _cold_partitions(tier: Tier, state: LadderState) -> Rung | None:
    held = _least(state.placement.index_bytes, state.index_bytes, state.bounded("cold_partitions", 2**63))
    least = max(state.demand.partition_bytes, LEAST_BYTES)
    if state.demand.mode == "on_disk" or held <= least:
        return None
    left = max(least, held // 2)
    return Rung(
        tier,
        "cold_partitions",
        f"The index keeps {in_words(left)} in memory instead of {in_words(held)}; the rest is read in searches.",
        "More of the index may stay in memory again.",
        bound=left,
        num_bytes=held - left,
    )


def _idle_model(tier: Tier, state: LadderState) -> Rung | None:
    if not (state.is_idle and state.is_loaded) or state.has_given_up("idle_model"):
        return None
    bytes_there = state.placement.gpu_bytes if tier == "gpu" else state.placement.ram_bytes
    if not bytes_there:
        return None
    return Rung(
        tier,
        "idle_model",
        "The model, which nobody is using, leaves memory; the next question loads it again.",
        "The model may stay in memory while nobody uses it.",
        num_bytes=bytes_there,
    )


def _sequences_to_disk(tier: Tier, state: LadderState) -> Rung | None:
    if not state.set_aside_bytes or state.has_given_up("sequences_to_disk"):
        return None
    return Rung(
        tier,
        "sequences_to_disk",
        f"Answers that wait for their turn are kept on the disk, and give {in_words(state.set_aside_bytes)} back.",
        "Answers that wait for their turn may stay in memory.",
        num_bytes=state.set_aside_bytes,
    )


def _more_streamed(tier: Tier, state: LadderState) -> Rung | None:
    placement = state.placement
    in_ram = [
        layer
        for layer in range(placement.num_layers)
        if placement.tier_of_layer(layer) == "ram" and layer not in placement.streamed_layers
    ]
    # The first layer stays in place: a pass of several parts returns to it again and again. If no plan could follow the
    # last rung of this kind, none follows the next; nor if none fits as it is.
    is_followed = placement.ram_bytes <= state.bounded("more_streamed", placement.ram_bytes) * FOLLOWED
    can_stream = state.demand.is_streamable and placement.fits
    if not can_stream or len(in_ram) < 2 or not is_followed:
        return None
    leaving = in_ram[1:][-max(1, placement.num_layers // LAYERS_SHARE) :]
    num_bytes = sum(state.demand.shape.layer_bytes[layer] for layer in leaving)
    # Bytes, not layers: which ones to stream is the planner's choice.
    bound = min(placement.ram_bytes, state.bounded("more_streamed", placement.ram_bytes)) - num_bytes
    num_streamed = len(placement.streamed_layers) + len(leaving)
    return Rung(
        tier,
        "more_streamed",
        f"{num_streamed} of {placement.num_layers} layers of the model are read from the disk at each step.",
        "More layers of the model may stay in memory.",
        bound=max(0, bound),
        num_bytes=num_bytes,
    )


# --- the rungs that more than one tier has ---


def _tree_to_ram(tier: Tier, state: LadderState) -> Rung | None:
    if not state.kept_cells_bytes or not state.placement.kv_on_gpu or state.has_given_up("tree_to_ram"):
        return None
    return Rung(
        tier,
        "tree_to_ram",
        "What was read leaves the cells of the graphics card, and is kept in main memory.",
        "What was read may be kept in cells of the graphics card again.",
        num_bytes=state.kept_cells_bytes,
    )


def _fewer_cells(tier: Tier, state: LadderState) -> Rung | None:
    # Cells hold keys and values whether or not a plan counts on so many answers.
    placement = state.placement
    slots = max(placement.num_slots, placement.num_cells // max(1, state.demand.context_tokens))
    slots = state.bounded("fewer_cells", slots)
    # With a device there are never fewer cells than a whole context: then it would free nothing.
    can_shrink = not placement.n_gpu_layers or placement.num_cells > state.demand.context_tokens
    if slots < 2 or not can_shrink or not _kv_bytes(state, tier):
        return None
    left = slots // 2
    return Rung(
        tier,
        "fewer_cells",
        f"There is room for {left} answers at once instead of {slots}; the others wait."
        if left > 1
        else f"There is room for one answer at a time instead of {slots}; the others wait.",
        f"There may be room for {slots} answers at once again.",
        bound=left,
        num_bytes=_kv_bytes(state, tier) * (slots - left) // slots,
    )


def _kv_8bit(tier: Tier, state: LadderState) -> Rung | None:
    if not (state.demand.wishes.may_lose and state.demand.can_quantise_kv):
        return None
    # What a plan conceded for lack of room is given up first, so that nothing after it brings it back.
    if "q8_0" in (state.demand.wishes.kv_type, state.placement.kv_type if not state.placement.num_concessions else ""):
        return None
    if state.has_given_up("kv_8bit"):
        return None
    if not (num_bytes := _kv_bytes(state, tier)):
        return None
    return Rung(
        tier,
        "kv_8bit",
        "Keys and values are kept as 8-bit numbers from now on, which answers may show a little.",
        "Keys and values may be kept as 16-bit numbers again.",
        num_bytes=num_bytes * 15 // 32,
    )


def _smaller_context(tier: Tier, state: LadderState) -> Rung | None:
    # There may be fewer cells already, as many as were needed recently. Only fewer than these free anything.
    tokens = state.bounded("smaller_context", state.demand.context_tokens)
    there = min(tokens, state.placement.num_cells)
    left = max(LEAST_CONTEXT_TOKENS, there // 2)
    if not state.demand.wishes.may_lose or left >= there or not _kv_bytes(state, tier):
        return None
    return Rung(
        tier,
        "smaller_context",
        f"Prompt and answer together have room for {left:,} tokens instead of {tokens:,}: fewer passages fit.",
        f"Prompt and answer together may have room for {tokens:,} tokens again.",
        bound=left,
        num_bytes=_kv_bytes(state, tier) * (there - left) // there,
    )


# --- the rungs of the disk ---


def _fewer_files(tier: Tier, state: LadderState) -> Rung | None:
    held = min(state.placement.kv_disk_bytes, state.bounded("fewer_files", 2**63))
    if held <= 0:
        return None
    left = _lessened(held)
    return Rung(
        tier,
        "fewer_files",
        f"What was read is kept in {in_words(left)} of files instead of {in_words(held)}; the rest is read anew."
        if left
        else "What was read is not kept on the disk any more.",
        "What was read may be kept in more files again.",
        bound=left,
        num_bytes=held - left,
    )


_Offer = Callable[[Tier, LadderState], Rung | None]
_LOSSES: tuple[_Offer, ...] = (_kv_8bit, _smaller_context)
_LADDERS: Mapping[Tier, tuple[_Offer, ...]] = {
    "gpu": (
        _embedder_to_ram,
        _idle_model,
        _tree_to_ram,
        _kv_to_ram,
        _fewer_cells,
        _layers_off_gpu,
        *_LOSSES,
    ),
    "ram": (
        _tree_to_disk,
        _cold_partitions,
        _idle_model,
        _sequences_to_disk,
        _fewer_cells,
        _more_streamed,
        *_LOSSES,
    ),
    "disk": (_fewer_files,),
}


def _capped(value: int | None, bound: int) -> int:
    return bound if value is None else min(value, bound)


_Constrain = Callable[[Wishes, int], Wishes]
_WISHES: Mapping[RungKind, _Constrain] = {
    "embedder_to_ram": lambda wishes, bound: replace(wishes, embedder_on_gpu=False),
    "kv_to_ram": lambda wishes, bound: replace(wishes, kv_on_gpu=False),
    "kv_8bit": lambda wishes, bound: replace(wishes, kv_type="q8_0"),
    "layers_off_gpu": lambda wishes, bound: replace(wishes, n_gpu_layers=_capped(wishes.n_gpu_layers, bound)),
    "tree_to_disk": lambda wishes, bound: replace(wishes, kv_ram_bytes=_capped(wishes.kv_ram_bytes, bound)),
    "cold_partitions": lambda wishes, bound: replace(wishes, index_bytes=_capped(wishes.index_bytes, bound)),
    "fewer_files": lambda wishes, bound: replace(wishes, kv_disk_bytes=_capped(wishes.kv_disk_bytes, bound)),
}


def _constrained(demand: Demand, rung: Rung) -> Demand:
    if (of_wishes := _WISHES.get(rung.kind)) is not None:
        return replace(demand, wishes=of_wishes(demand.wishes, rung.bound))
    if rung.kind == "fewer_cells":
        return replace(demand, parallel_answers=min(demand.parallel_answers, rung.bound))
    if rung.kind == "smaller_context":
        return replace(demand, context_tokens=min(demand.context_tokens, rung.bound))
    if rung.kind == "more_streamed":
        budgets = replace(demand.budgets, ram_bytes=_capped(demand.budgets.ram_bytes, rung.bound))
        return replace(demand, budgets=budgets)
    return demand


def _least(planned: int, used: int | None, bound: int) -> int:
    return min(planned, bound) if used is None else min(planned, used, bound)


def _lessened(num_bytes: int) -> int:
    return num_bytes // KEPT_SHARE if num_bytes // KEPT_SHARE >= LEAST_BYTES else 0


def _kv_bytes(state: LadderState, tier: Tier) -> int:
    """Returns what the cells of answers take in a tier."""
    placement = state.placement
    if not placement.kv_on_gpu:
        cells = state.demand.shape.kv_cell_bytes if tier == "ram" else ()
        return sum(cells) * placement.num_cells
    of_tier = (
        cell for layer, cell in enumerate(state.demand.shape.kv_cell_bytes) if placement.tier_of_layer(layer) == tier
    )
    return sum(of_tier) * placement.num_cells
