"""Tests for engine.memory.ladder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.config import GIB, MIB
from engine.core import ModelShape
from engine.memory.demand import Demand, Wishes
from engine.memory.ladder import LadderState, Rung, awaits_loss, constrained, next_loss, next_rung, rung_to_climb
from engine.memory.placement import Placement

SHAPE = ModelShape(
    "m", "llama", 8192, (100 * MIB,) * 16, 200 * MIB, 100 * MIB, (2 * 1024,) * 16, 32_000, 1900 * MIB, True
)
DEMAND = Demand(
    SHAPE,
    context_tokens=4096,
    parallel_answers=4,
    index_bytes=GIB,
    partition_bytes=200 * MIB,
    num_partitions=5,
    embedder_bytes=90 * MIB,
)
LOSSY_DEMAND = replace(DEMAND, wishes=Wishes(may_lose=True))
PLACEMENT = Placement(
    n_gpu_layers=9,
    num_layers=16,
    gpu_bytes=900 * MIB,
    ram_bytes=3 * GIB,
    sentence="Half and half.",
    num_slots=4,
    num_cells=4 * 4096,
    index_bytes=GIB,
    kv_ram_bytes=128 * MIB,
    kv_disk_bytes=400 * MIB,
    embedder_on_gpu=True,
)


def obeyed(placement: Placement, rung: Rung, demand: Demand) -> Placement:
    """What is left of a placement when the rung has been given up, as a planner would have it."""
    match rung.kind:
        case "embedder_to_ram":
            return replace(placement, embedder_on_gpu=False)
        case "kv_to_ram":
            return replace(placement, kv_on_gpu=False)
        case "kv_8bit":
            return replace(placement, kv_type="q8_0")
        case "fewer_cells":
            return replace(placement, num_slots=rung.bound, num_cells=rung.bound * demand.context_tokens)
        case "layers_off_gpu":
            return replace(placement, n_gpu_layers=rung.bound)
        case "tree_to_disk":
            return replace(placement, kv_ram_bytes=rung.bound)
        case "cold_partitions":
            return replace(placement, index_bytes=rung.bound)
        case "fewer_files":
            return replace(placement, kv_disk_bytes=rung.bound)
        case "more_streamed":
            num = min(7, len(placement.streamed_layers) + 2)
            return replace(placement, streamed_layers=tuple(range(1, num + 1)), ram_bytes=rung.bound)
    return placement


def walked_down(tier: str, state: LadderState) -> LadderState:
    """The state in which nothing more can be given up in a tier."""
    for _ in range(100):
        rung = next_rung(tier, state)
        if rung is None:
            return state
        state = replace(state, given_up=(*state.given_up, rung), placement=obeyed(state.placement, rung, state.demand))
    raise AssertionError("the ladder has no end")


def kinds(state: LadderState) -> list[str]:
    """What was given up, each kind once, in the order of the first time."""
    return list(dict.fromkeys(rung.kind for rung in state.given_up))


def test_a_card_loses_the_embedder_first_then_what_is_idle_then_keys_and_values_then_layers():
    state = walked_down("gpu", LadderState(DEMAND, PLACEMENT, is_idle=True, kept_cells_bytes=MIB))
    assert kinds(state) == ["embedder_to_ram", "idle_model", "tree_to_ram", "kv_to_ram", "layers_off_gpu"]
    assert state.placement.n_gpu_layers == 0


def test_keys_and_values_that_are_on_the_card_for_good_become_fewer_before_layers_leave():
    in_ram = replace(PLACEMENT, kv_on_gpu=True)
    moved = LadderState(DEMAND, in_ram, (Rung("gpu", "kv_to_ram", "s", "b"), Rung("gpu", "embedder_to_ram", "s", "b")))
    assert kinds(walked_down("gpu", moved))[2:] == ["fewer_cells", "layers_off_gpu"]


def test_memory_loses_what_is_on_the_disk_too_before_it_makes_anybody_wait():
    state = walked_down("ram", LadderState(DEMAND, PLACEMENT, is_idle=True, set_aside_bytes=5 * MIB))
    assert kinds(state) == [
        "tree_to_disk",
        "cold_partitions",
        "idle_model",
        "sequences_to_disk",
        "fewer_cells",
        "more_streamed",
    ]
    assert (state.placement.kv_ram_bytes, state.placement.index_bytes) == (0, DEMAND.partition_bytes)
    assert state.placement.num_slots == 1


@pytest.mark.parametrize("tier", ["gpu", "ram"])
def test_quality_is_given_up_last_and_only_where_it_may(tier: str):
    allowed = walked_down(tier, LadderState(LOSSY_DEMAND, replace(PLACEMENT, kv_on_gpu=False)))
    lossy = [rung.is_lossy for rung in allowed.given_up]
    assert lossy == sorted(lossy)
    forbidden = walked_down(tier, LadderState(DEMAND, replace(PLACEMENT, kv_on_gpu=False)))
    assert not any(rung.is_lossy for rung in forbidden.given_up)


def test_eight_bits_come_before_a_smaller_context_which_ends_at_a_usable_size():
    state = walked_down("ram", LadderState(LOSSY_DEMAND, PLACEMENT))
    assert [rung.kind for rung in state.given_up if rung.is_lossy] == ["kv_8bit", "smaller_context", "smaller_context"]
    assert constrained(LOSSY_DEMAND, state.given_up).context_tokens == 1024


def test_a_context_that_is_smaller_already_is_halved_from_there():
    small = replace(PLACEMENT, n_gpu_layers=0, num_cells=2048, kv_type="q8_0")
    rung = next_loss("ram", LadderState(LOSSY_DEMAND, small))
    assert (rung.kind, rung.bound) == ("smaller_context", 1024)


def test_eight_bits_that_a_plan_conceded_are_given_up_before_the_context_is_halved():
    conceded = replace(PLACEMENT, n_gpu_layers=0, num_cells=4096, kv_type="q8_0", num_concessions=2)
    state = LadderState(LOSSY_DEMAND, conceded)
    kinds = []
    while (rung := next_loss("ram", state)) is not None:
        kinds.append((rung.kind, rung.bound))
        state = replace(state, given_up=(*state.given_up, rung))
    assert kinds == [("kv_8bit", 0), ("smaller_context", 2048), ("smaller_context", 1024)]


def test_losses_can_be_asked_for_by_themselves():
    state = LadderState(LOSSY_DEMAND, PLACEMENT)
    assert (next_rung("ram", state).kind, next_loss("ram", state).kind) == ("tree_to_disk", "kv_8bit")
    assert next_loss("ram", LadderState(DEMAND, PLACEMENT)) is None


def test_a_model_that_somebody_uses_is_not_taken_away():
    busy = walked_down("ram", LadderState(DEMAND, PLACEMENT, is_idle=False))
    assert "idle_model" not in kinds(busy)


def test_an_idle_model_is_taken_once():
    state = walked_down("gpu", LadderState(DEMAND, PLACEMENT, is_idle=True))
    assert [rung.kind for rung in state.given_up].count("idle_model") == 1


def test_no_layers_are_streamed_for_want_of_memory_where_no_plan_fits_anyway():
    streaming = replace(PLACEMENT, n_gpu_layers=0, num_slots=1, num_cells=4096, index_bytes=0, kv_ram_bytes=0)
    state = LadderState(DEMAND, streaming)
    assert next_rung("ram", state).kind == "more_streamed"
    assert next_rung("ram", replace(state, placement=replace(streaming, fits=False))) is None


def test_what_is_hardly_used_is_bounded_by_its_use():
    rung = next_rung("ram", LadderState(DEMAND, PLACEMENT, tree_bytes=0, index_bytes=600 * MIB))
    assert (rung.kind, rung.bound, rung.num_bytes) == ("cold_partitions", 300 * MIB, 300 * MIB)


def test_the_disk_keeps_fewer_files_until_it_keeps_none():
    state = walked_down("disk", LadderState(DEMAND, PLACEMENT))
    assert [rung.bound for rung in state.given_up] == [25 * 4 * MIB, 0]


def test_what_was_given_up_last_in_a_tier_is_taken_back_first():
    first, other, last = (
        Rung("ram", "tree_to_disk", "a", "b"),
        Rung("gpu", "kv_to_ram", "c", "d"),
        Rung("ram", "cold_partitions", "e", "f"),
    )
    state = LadderState(DEMAND, PLACEMENT, (first, last, other))
    assert rung_to_climb("ram", state) is last
    assert rung_to_climb("gpu", state) is other
    assert rung_to_climb("disk", state) is None


def test_climbing_goes_the_way_back_rung_by_rung_to_the_whole_demand():
    state = walked_down("ram", LadderState(DEMAND, PLACEMENT))
    down, up = list(state.given_up), []
    while (rung := rung_to_climb("ram", state)) is not None:
        up.append(rung)
        state = replace(state, given_up=tuple(one for one in state.given_up if one is not rung))
    assert up == down[::-1]
    assert constrained(DEMAND, state.given_up) == DEMAND


def test_each_rung_binds_the_plan_and_says_so_in_whole_sentences():
    for tier in ("gpu", "ram", "disk"):
        state = walked_down(tier, LadderState(LOSSY_DEMAND, PLACEMENT))
        for rung in state.given_up:
            assert not rung.sentence[0].islower()
            assert rung.sentence.endswith(".")
            assert rung.way_back.endswith(".")
            assert constrained(LOSSY_DEMAND, (rung,)) != LOSSY_DEMAND


def test_each_step_frees_bytes_of_the_tier():
    for tier in ("gpu", "ram", "disk"):
        state = walked_down(tier, LadderState(LOSSY_DEMAND, PLACEMENT, is_idle=True))
        assert all(rung.num_bytes > 0 for rung in state.given_up), tier


def test_nothing_can_be_given_up_of_nothing():
    nothing = Placement(0, 0, 0, 0, "")
    bare = Demand(ModelShape("", "", 0, (), 0, 0, (), 0, 0, False), 0, 1)
    for tier in ("gpu", "ram", "disk"):
        assert next_rung(tier, LadderState(bare, nothing, is_idle=True, is_loaded=False)) is None


def test_a_wish_of_the_user_is_never_widened():
    wished = replace(DEMAND, wishes=Wishes(n_gpu_layers=2, kv_ram_bytes=MIB))
    rungs = (Rung("gpu", "layers_off_gpu", "s", "b", bound=6), Rung("ram", "tree_to_disk", "s", "b", bound=GIB))
    assert constrained(wished, rungs).wishes == wished.wishes


def test_cells_are_given_up_also_where_a_plan_writes_one_answer_at_a_time_in_them():
    one_by_one = replace(PLACEMENT, n_gpu_layers=0, num_slots=1, index_bytes=0, kv_ram_bytes=0)
    rung = next_rung("ram", LadderState(DEMAND, one_by_one))
    assert (rung.kind, rung.bound) == ("fewer_cells", 2)
    assert constrained(DEMAND, [rung]).parallel_answers == 2


def test_cells_for_one_long_prompt_stay_beside_layers_on_a_device_and_else_come_again_with_it():
    shared = replace(PLACEMENT, num_cells=4096, index_bytes=0, kv_ram_bytes=0)
    assert "fewer_cells" not in [rung.kind for rung in walked_down("gpu", LadderState(DEMAND, shared)).given_up]
    without = replace(shared, n_gpu_layers=0)
    assert next_rung("ram", LadderState(DEMAND, without)).kind == "fewer_cells"


def test_a_loss_is_awaited_until_a_placement_is_without_what_is_to_be_lost():
    exact, small = (
        Rung("ram", "kv_8bit", "Less.", "More."),
        Rung("ram", "smaller_context", "Less.", "More.", bound=2048),
    )
    lossless = Rung("ram", "more_streamed", "Less.", "More.", bound=1)
    assert not awaits_loss((lossless,), PLACEMENT)
    assert awaits_loss((lossless, exact), PLACEMENT)
    assert not awaits_loss((exact,), replace(PLACEMENT, kv_type="q8_0"))
    assert awaits_loss((small,), PLACEMENT)
    assert awaits_loss((small,), replace(PLACEMENT, context_tokens=4096))
    assert not awaits_loss((small,), replace(PLACEMENT, context_tokens=2048))
