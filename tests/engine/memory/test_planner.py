"""Tests for engine.memory.planner."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import engine
from engine.core import ModelShape, Span, Tier
from engine.memory.cost_model import decode_work
from engine.memory.demand import DECIDED_OWNERS, Backlog, Budgets, Demand, Wishes, undecided
from engine.memory.frames import answers_in, cells_for
from engine.memory.hardware import Hardware
from engine.memory.measured import Measured, Point, table_key
from engine.memory.placement import Placement
from engine.memory.planner import plan, predicted, renewed
from engine.memory.profile import Profile
from engine.memory.room import Room, room_of
from engine.memory.terms import Frame, Terms, homes_of, split_of
from engine.memory.wording import reworded
from tests.helpers import machines
from tests.helpers.machines import DESKTOP, GIB, MIB, MODELS, machine, sharing, wanted

THREE, EIGHT, THIRTY, SEVENTY = MODELS
TIERS: tuple[Tier, ...] = ("gpu", "ram", "disk")
ENGINE = Path(engine.__file__).parent
# Owners in the ledger whose bytes no decision changes.
FIXED_OWNERS = frozenset({"index", "embedder", "reranker", "retrieval", "runtime", "parsers", "pool"})


def held(placement: Placement, tier: Tier, owner: str | None = None) -> int:
    return sum(
        span.num_bytes for span in placement.spans if span.tier == tier and (owner is None or span.owner == owner)
    )


def room_in(room: Room, tier: Tier) -> int:
    return {"gpu": room.gpu_bytes, "ram": room.ram_bytes, "disk": room.disk_bytes}[tier]


def case(seed: int) -> tuple[Hardware, Profile, Backlog, Demand]:
    chance = random.Random(seed)
    shape = machines.random_shape(chance)
    demand = machines.random_demand(chance, shape)
    demand = replace(demand, budgets=machines.random_budgets(chance))
    hardware, profile, backlog = (
        machines.random_machine(chance),
        machines.random_profile(chance),
        machines.random_backlog(chance),
    )
    if chance.random() < 0.5:
        profile = profile.with_table(table_key(shape), machines.random_table(chance, shape, profile))
    return hardware, profile, backlog, demand


# --- the equations that planner.py opens with, on machines that chance made ---


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_what_all_owners_hold_never_exceeds_a_tier(start: int):
    fitting = 0
    for seed in range(start, start + 30):
        hardware, profile, backlog, demand = case(seed)
        placement, room = plan(hardware, profile, backlog, demand), room_of(hardware, demand)
        assert held(placement, "gpu") <= room.gpu_bytes, seed
        if placement.fits:
            fitting += 1
            assert held(placement, "ram") <= room.ram_bytes, seed
        if placement.kv_disk_bytes:
            assert held(placement, "disk") <= room.disk_bytes, seed
        assert (placement.gpu_bytes, placement.ram_bytes, placement.disk_bytes) == tuple(
            held(placement, tier) for tier in TIERS
        ), seed
    assert fitting > 5


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_every_layer_lives_in_exactly_one_place(start: int):
    for seed in range(start, start + 30):
        hardware, profile, backlog, demand = case(seed)
        placement = plan(hardware, profile, backlog, demand)
        layers = range(demand.shape.num_layers)
        on_device = {layer for layer in layers if placement.tier_of_layer(layer) == "gpu"}
        streamed = set(placement.streamed_layers)
        assert len(streamed) == len(placement.streamed_layers)
        assert not on_device & streamed, seed
        assert streamed <= set(layers), seed
        assert 0 not in streamed, seed
        if not placement.is_mapped:
            sizes = demand.shape.layer_bytes
            pinned = sum(sizes[layer] for layer in layers if layer not in on_device | streamed)
            ring = sum(span.num_bytes for span in placement.spans if "ring" in span.what)
            edges = sum(span.num_bytes for span in placement.spans if span.what == "embeddings and output head")
            assert held(placement, "ram", "weights") == pinned + ring + edges, seed
            assert bool(ring) == bool(streamed), seed


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_wishes_and_what_cannot_be_done_without_are_kept(start: int):
    for seed in range(start, start + 30):
        hardware, profile, backlog, demand = case(seed)
        placement, wishes = plan(hardware, profile, backlog, demand), demand.wishes
        usual = max(demand.least_cells, backlog.prompt_tokens + backlog.answer_tokens)
        least_cells = demand.context_tokens if hardware.devices else min(demand.context_tokens, usual)
        assert placement.num_cells >= least_cells, seed
        # At least three of the last four find room, in whatever memory.
        num_short = sum(min(length, demand.context_tokens) > placement.num_cells for length in backlog.lengths)
        assert 4 * num_short <= len(backlog.lengths), seed
        assert placement.context_tokens == demand.context_tokens, seed
        assert 1 <= placement.num_slots <= demand.parallel_answers, seed
        assert wishes.n_gpu_layers is None or placement.n_gpu_layers <= wishes.n_gpu_layers, seed
        assert wishes.n_ubatch is None or placement.n_ubatch == wishes.n_ubatch, seed
        assert wishes.kv_ram_bytes is None or placement.kv_ram_bytes <= wishes.kv_ram_bytes, seed
        assert wishes.kv_on_gpu is None or placement.kv_on_gpu == wishes.kv_on_gpu, seed
        assert wishes.kv_disk_bytes is None or placement.kv_disk_bytes <= wishes.kv_disk_bytes, seed
        least_index = min(demand.partition_bytes, demand.index_bytes)
        most_index = demand.index_bytes if wishes.index_bytes is None else max(least_index, wishes.index_bytes)
        assert placement.index_bytes <= most_index, seed
        assert demand.is_streamable or not placement.streamed_layers, seed
        assert demand.is_packable or not placement.is_packed, seed
        if not wishes.may_lose:
            assert placement.kv_type == (wishes.kv_type or "f16"), seed
        assert placement.sentence.endswith("."), seed


@pytest.mark.parametrize("tier", ["gpu_bytes", "ram_bytes"])
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_a_larger_budget_never_predicts_a_slower_answer(tier: str, start: int):
    for seed in range(start, start + 20):
        hardware, profile, backlog, demand = case(seed)
        most = room_in(room_of(hardware, replace(demand, budgets=Budgets())), "gpu" if tier == "gpu_bytes" else "ram")
        latencies = []
        for share in (0.1, 0.25, 0.4, 0.47, 0.55, 0.7, 0.72, 0.85, 1.0):
            budgets = replace(demand.budgets, **{tier: int(most * share)})
            placement = plan(hardware, profile, backlog, replace(demand, budgets=budgets))
            latencies.append(placement.prediction.latency_s if placement.fits else float("inf"))
        assert all(after <= before * (1 + 1e-9) for before, after in pairwise(latencies)), (seed, latencies)


@pytest.mark.parametrize("start", range(0, 90, 30))
def test_a_device_that_shares_our_memory_never_makes_an_answer_slower(start: int):
    num_shared = 0
    for seed in range(start, start + 30):
        hardware, profile, backlog, demand = case(seed)
        if not hardware.devices or demand.wishes.n_gpu_layers is not None:
            continue
        hardware = sharing(hardware)
        with_it = plan(hardware, profile, backlog, demand)
        without = plan(hardware, profile, backlog, replace(demand, budgets=replace(demand.budgets, gpu_bytes=0)))
        assert with_it.fits >= without.fits, seed
        if without.fits:
            assert with_it.prediction.latency_s <= without.prediction.latency_s * (1 + 1e-9), seed
            num_shared += 1
    assert num_shared


def test_as_many_layers_as_somebody_wishes_lie_on_a_device_that_shares_our_memory():
    for wish in (3, 5, 30):
        demand = wanted(MODELS[1], wishes=Wishes(n_gpu_layers=wish))
        assert plan(sharing(machine(12, 32)), DESKTOP, Backlog(), demand).n_gpu_layers == wish


def test_a_model_larger_than_memory_is_streamed_beside_a_device_that_shares_it():
    demand = wanted(MODELS[2])
    assert demand.shape.file_bytes > 16 * GIB
    placement = plan(sharing(machine(13, 16)), DESKTOP, Backlog(), demand)
    assert placement.fits
    assert placement.streamed_layers


def test_what_was_planned_is_predicted_alike_afterwards():
    num_alike = 0
    for seed in range(30):
        hardware, profile, backlog, demand = case(seed)
        backlog = replace(backlog, cached_share=0.0, waiting=backlog.waiting + backlog.running, running=0)
        placement = plan(hardware, profile, backlog, demand)
        again = predicted(placement, profile, backlog, demand)
        if placement.fits and not placement.is_mapped:
            # Room that was left over may hold more of the index, or other gangs, than the plan counted on.
            if again.at_once == placement.prediction.at_once:
                assert again.tokens_per_s == pytest.approx(placement.prediction.tokens_per_s, rel=1e-6), seed
                num_alike += 1
            assert again.latency_s <= placement.prediction.latency_s * (1 + 1e-6), seed
    assert num_alike


def test_what_is_expected_is_renewed_for_as_many_answers_as_were_planned_for():
    for seed in range(30):
        hardware, profile, backlog, demand = case(seed)
        backlog = replace(backlog, cached_share=0.0)
        placement = plan(hardware, profile, backlog, demand)
        # Meanwhile no question comes, and nothing is learnt.
        now = renewed(placement, profile, replace(backlog, waiting=0, running=0), demand)
        if placement.fits:
            assert now.tokens_per_s == pytest.approx(placement.prediction.tokens_per_s, rel=1e-6), seed
            assert reworded(placement.sentence, placement.prediction, now) == placement.sentence, seed


def test_what_was_measured_since_shows_in_figures_and_words():
    num_told = 0
    for seed in range(30):
        hardware, profile, backlog, demand = case(seed)
        profile = profile.with_table(table_key(demand.shape), Measured())
        placement = plan(hardware, profile, backlog, demand)
        planned, split = placement.prediction, split_of(placement)
        work = decode_work(homes_of(demand.shape, placement), planned.at_once, 0)
        point = Point(split, "write", planned.at_once, work, 2 * profile.seconds(work))
        now = renewed(placement, profile.with_table(table_key(demand.shape), Measured((point,))), backlog, demand)
        if placement.fits and not placement.is_mapped and not placement.streamed_layers:
            assert now.tokens_per_s < planned.tokens_per_s, seed
            told = reworded(placement.sentence, planned, now)
            num_told += told != placement.sentence
            assert reworded(told, now, planned) == placement.sentence, seed
    assert num_told


def test_answers_that_are_being_written_at_once_gain_nothing_by_room_for_as_many():
    waiting, running = Backlog(waiting=3, running=1), Backlog(running=4)
    num_different = 0
    for seed in range(30):
        hardware, profile, _, demand = case(seed)
        one = plan(hardware, profile, Backlog(running=1), demand)
        # No more cells than for one.
        one = replace(one, num_slots=1, num_cells=cells_for(1, demand, waiting))
        four = replace(one, num_slots=4)
        assert predicted(one, profile, running, demand) == predicted(four, profile, running, demand), seed
        num_different += predicted(one, profile, waiting, demand) != predicted(four, profile, waiting, demand)
    assert num_different


@pytest.mark.parametrize("seed", range(30))
def test_cells_for_so_many_answers_are_the_fewest_that_hold_as_many(seed: int):
    _, _, backlog, demand = case(seed)
    demand = replace(demand, parallel_answers=40)
    assert answers_in(cells_for(50, demand, backlog), demand, backlog) == 40
    for count in range(1, 40):
        num_cells = cells_for(count, demand, backlog)
        assert answers_in(num_cells, demand, backlog) == count
        assert answers_in(num_cells - 1, demand, backlog) == count - 1
    # One is whole and the others half written, and one may be longer where each makes up for another.
    usual = backlog.prompt_tokens + backlog.answer_tokens
    if usual * 2 < demand.context_tokens:
        assert cells_for(1, demand, backlog) == int(1.25 * usual)
        half = backlog.answer_tokens / 2
        assert cells_for(16, demand, backlog) == int(16 * (usual - half) + half + usual)


def test_answers_that_find_cells_gain_nothing_by_a_plan_for_as_many():
    backlog = Backlog(waiting=12)
    num_short = 0
    for seed in range(30):
        hardware, profile, _, demand = case(seed)
        demand = replace(demand, parallel_answers=8)
        four = replace(plan(hardware, profile, backlog, demand), num_slots=4)
        enough, short = (replace(four, num_cells=cells_for(count, demand, backlog)) for count in (8, 4))
        eight = replace(enough, num_slots=8)
        assert predicted(enough, profile, backlog, demand) == predicted(eight, profile, backlog, demand), seed
        assert predicted(short, profile, backlog, demand).at_once <= 4
        num_short += predicted(short, profile, backlog, demand) != predicted(eight, profile, backlog, demand)
    assert num_short


def test_what_is_expected_is_no_worse_where_one_more_has_begun():
    # Seven of eight under way are not two gangs of seven.
    for seed in range(30):
        hardware, profile, _, demand = case(seed)
        four = replace(plan(hardware, profile, Backlog(waiting=8), demand), num_slots=4)
        before, now = (
            predicted(four, profile, backlog, demand) for backlog in (Backlog(waiting=8), Backlog(waiting=1, running=7))
        )
        assert now.latency_s <= before.latency_s, seed


# --- every owner of the ledger is a term ---


def owners_in_sources() -> set[str]:
    """The owners that `ledger.take`, `reserve` and the like are called with, as they are written in the sources."""
    found = set()
    for file in ENGINE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _names_an_owner(node):
                found.add(node.args[0].value)  # type: ignore[attr-defined]
    return found


def _names_an_owner(call: ast.Call) -> bool:
    takes = isinstance(call.func, ast.Attribute) and call.func.attr in {
        "take",
        "_take",
        "measure",
        "growing",
    }
    spans = isinstance(call.func, ast.Name) and call.func.id == "Span"
    is_word = bool(call.args) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    return (takes or spans) and is_word and len(call.args) >= 2


def test_no_owner_in_the_sources_is_unknown_to_the_plan():
    owners = owners_in_sources()
    assert {"weights", "kv", "workspace", "index", "embedder"} <= owners
    assert owners <= DECIDED_OWNERS | FIXED_OWNERS


def test_whatever_the_ledger_holds_is_a_term():
    everybody = tuple(Span(owner, "something", "ram", 64 * MIB) for owner in sorted(FIXED_OWNERS))
    placement = plan(machine(8, 16), DESKTOP, Backlog(), wanted(EIGHT, fixed=everybody))
    assert {span.owner for span in placement.spans} == DECIDED_OWNERS | FIXED_OWNERS


def test_what_is_held_but_not_decided_comes_from_the_ledger():
    spans = (
        Span("weights", "layer 0", "ram", 5),
        Span("index", "partition 7", "ram", 5),
        Span("index", "search scratch", "ram", 3),
        Span("index", "partitions", "disk", 2),
        Span("somebody new", "something", "ram", 1),
    )
    assert [span.num_bytes for span in undecided(spans)] == [3, 2, 1]


def test_an_owner_that_nobody_decides_takes_its_room_from_the_layers():
    hardware = machine(0, 16)
    alone = plan(hardware, DESKTOP, Backlog(), wanted(THIRTY))
    beside = Span("somebody new", "something", "ram", 4 * GIB)
    crowded = plan(hardware, DESKTOP, Backlog(), wanted(THIRTY, fixed=(*wanted(THIRTY).fixed, beside)))
    assert len(crowded.streamed_layers) > len(alone.streamed_layers)
    assert held(crowded, "ram", "somebody new") == 4 * GIB


# --- decisions ---


def test_what_fits_stays_repacked_and_unstreamed():
    placement = plan(machine(0, 16), DESKTOP, Backlog(), wanted(EIGHT))
    assert placement.is_repacked
    assert not placement.streamed_layers
    assert placement.index_bytes == 600 * MIB
    assert placement.sentence.startswith("All 32 layers in memory (no GPU found): about ")


def test_a_device_takes_layers_before_memory_does():
    placement = plan(machine(12, 32), DESKTOP, Backlog(), wanted(THIRTY))
    assert 20 < placement.n_gpu_layers < 64
    assert not placement.streamed_layers
    assert "of 64 layers on the GPU" in placement.sentence
    assert plan(machine(24, 32), DESKTOP, Backlog(), wanted(EIGHT)).n_gpu_layers == 33


def test_a_model_larger_than_memory_is_streamed_with_its_first_layer_pinned():
    placement = plan(machine(0, 16), DESKTOP, Backlog(), wanted(THIRTY))
    assert placement.streamed_layers
    assert 0 not in placement.streamed_layers
    assert placement.ring_slots >= 2
    assert not placement.is_repacked
    assert "streamed" in placement.sentence
    assert any("read from the disk for each token" in reason for reason in placement.reasons)


def test_streamed_layers_are_read_in_the_processor_s_order_where_the_disk_has_room_for_a_copy():
    demand, hardware = wanted(THIRTY, is_packable=True), machine(0, 16)
    placement, in_file_order = (plan(hardware, DESKTOP, Backlog(), wanted(THIRTY, is_packable=is_)) for is_ in (1, 0))
    assert placement.is_packed
    assert placement.prediction.latency_s < in_file_order.prediction.latency_s
    [copy] = [span for span in placement.spans if span.what == "a copy in the processor's order"]
    assert (copy.tier, copy.num_bytes) == ("disk", sum(THIRTY.layer_bytes) + THIRTY.head_bytes)
    assert any("A copy of" in reason for reason in placement.reasons)
    expected = predicted(placement, DESKTOP, Backlog(), demand)
    assert expected.prefill_tokens_per_s == placement.prediction.prefill_tokens_per_s
    room = room_of(hardware, demand).disk_bytes
    needed = placement.disk_bytes - placement.kv_disk_bytes
    for spare, is_packed in ((0, True), (-1, False)):
        full = replace(hardware, disk_free_bytes=hardware.disk_free_bytes - room + needed + spare)
        placed = plan(full, DESKTOP, Backlog(), demand)
        assert (placed.is_packed, bool(placed.streamed_layers)) == (is_packed, True)
        assert placed.disk_bytes <= room_of(full, demand).disk_bytes


def test_beside_a_device_layers_are_streamed_as_they_lie_in_the_file():
    placement = plan(machine(6, 12), DESKTOP, Backlog(), wanted(THIRTY, is_packable=True))
    assert placement.n_gpu_layers
    assert placement.streamed_layers
    assert not placement.is_repacked


# A card, and less memory than what does not fit there.
SMALL = machine(12, 14, free_share=0.7)


def test_beside_a_device_prompts_are_read_there_also_by_layers_that_are_streamed():
    demand = wanted(THIRTY, context_tokens=4096)
    placement = plan(SMALL, DESKTOP, Backlog(running=1), demand)
    assert placement.streamed_layers
    assert placement.copies_streamed
    assert placement.computes_large_batches_on_device
    kept = plan(SMALL, DESKTOP, Backlog(running=1), replace(demand, can_copy_streamed=False))
    assert kept.streamed_layers
    assert not kept.computes_large_batches_on_device
    assert placement.prediction.prefill_tokens_per_s > 2 * kept.prediction.prefill_tokens_per_s
    assert placement.prediction.tokens_per_s == pytest.approx(kept.prediction.tokens_per_s, rel=0.1)
    again = predicted(placement, DESKTOP, Backlog(running=1), demand)
    assert again.latency_s == pytest.approx(placement.prediction.latency_s, rel=1e-3)


def test_layers_are_not_copied_where_that_would_make_answers_slower():
    # A disk as fast as memory hides nothing, and four tokens are computed sooner than all layers are copied.
    rates = replace(DESKTOP, disk_bytes_per_s=(40e9, 40e9, 40e9), offloads_from_tokens=4)
    backlog = Backlog(running=4, prompt_tokens=64, answer_tokens=512)
    demand = wanted(THIRTY, context_tokens=2048)
    placement = plan(SMALL, rates, backlog, demand)
    assert placement.streamed_layers
    assert placement.num_slots >= 4
    assert not placement.copies_streamed
    assert plan(SMALL, rates, replace(backlog, prompt_tokens=1500, answer_tokens=8), demand).copies_streamed


def test_streamed_layers_are_spread_evenly():
    placement = plan(machine(0, 20), DESKTOP, Backlog(), wanted(THIRTY))
    streamed = placement.streamed_layers
    gaps = [after - before for before, after in pairwise(streamed)]
    assert len(streamed) > 8
    assert max(gaps) <= 2 * -(-64 // len(streamed))


def test_with_a_little_less_memory_only_a_few_layers_move():
    more, less = (plan(machine(0, ram), DESKTOP, Backlog(), wanted(THIRTY)).streamed_layers for ram in (16, 15))
    assert set(more) < set(less)


def test_a_prompt_is_read_in_larger_passes_while_layers_are_streamed():
    slow_disk = replace(DESKTOP, disk_bytes_per_s=(0.5e9, 0.5e9, 0.5e9))
    streaming, resident = (plan(machine(0, ram), slow_disk, Backlog(), wanted(THIRTY)) for ram in (16, 64))
    assert streaming.n_ubatch > resident.n_ubatch


def test_without_a_ring_pages_are_mapped_and_that_is_called_slow():
    placement = plan(machine(0, 16), DESKTOP, Backlog(), wanted(THIRTY, is_streamable=False))
    assert placement.is_mapped
    assert not placement.streamed_layers
    assert "slow" in placement.sentence
    ring = plan(machine(0, 16), DESKTOP, Backlog(), wanted(THIRTY))
    assert ring.prediction.tokens_per_s > 1.5 * placement.prediction.tokens_per_s


def test_a_model_too_large_even_for_one_slot_says_so():
    placement = plan(machine(0, 2.8), DESKTOP, Backlog(), wanted(SEVENTY, context_tokens=1024, num_partitions=0))
    assert placement.is_mapped
    assert "too little even to stream it layer by layer" in placement.sentence


def test_where_nothing_fits_the_sentence_says_that_it_cannot_run():
    placement = plan(machine(0, 1), DESKTOP, Backlog(), wanted(SEVENTY))
    assert not placement.fits
    assert placement.sentence.startswith("There is too little memory for this model: it needs ")
    # For what is usual: no more than that is kept free where it would stand in the way.
    assert (placement.num_cells, placement.context_tokens) == (1792, 8192)


def test_where_layers_are_streamed_there_are_cells_for_the_longest_of_late_and_else_for_a_whole_context():
    def cells(hardware, **backlog):
        placement = plan(hardware, DESKTOP, Backlog(1, prompt_tokens=300, answer_tokens=60, **backlog), wanted(EIGHT))
        return len(placement.streamed_layers) > 0, placement.num_cells

    assert cells(machine(0, 4)) == (True, 512)
    assert cells(machine(0, 4), lengths=(900,)) == (True, 1024)
    assert cells(machine(0, 4), lengths=(9000,)) == (True, 8192)
    assert cells(machine(0, 4), overlaps=True) == (True, 1024)
    assert cells(machine(0, 32))[1] >= 8192
    # There, more cells may mean that the model has to be loaded again.
    assert cells(machine(4, 4))[1] >= 8192


def test_a_few_that_are_far_longer_than_the_others_get_more_cells_when_they_come():
    def cells(lengths, ram=4.0, profile=DESKTOP, **wishes):
        backlog = Backlog(1, prompt_tokens=500, answer_tokens=60, lengths=tuple(sorted(lengths)))
        placement = plan(machine(0, ram), profile, backlog, wanted(EIGHT, **wishes))
        return len(placement.streamed_layers) > 0, placement.num_cells

    usual, long = [650] * 14, [3000] * 2
    assert cells(usual + long) == (True, 768)
    # Few say nothing about others; and half of them are not few.
    assert cells([650, 3000]) == (True, 3072)
    assert cells(usual[:8] + long * 4) == (True, 3072)
    # Where a new context takes long, no request waits for one; nor where all have room anyway.
    assert cells(usual + long, profile=replace(DESKTOP, context_change_s=60.0)) == (True, 3072)
    assert cells(usual + long, ram=32.0)[1] >= 8192


def test_where_the_longest_would_leave_no_layer_room_there_are_cells_for_it_at_once():
    """Otherwise the model would be loaded again for each of them."""
    backlog = Backlog(1, prompt_tokens=500, answer_tokens=60, lengths=(650,) * 15 + (8000,))
    for ram, expected in ((2.1, 8192), (4.0, 768)):
        assert plan(machine(0, ram), DESKTOP, backlog, wanted(EIGHT)).num_cells == expected


def test_fewer_cells_than_a_context_has_are_told_and_why():
    for hardware, is_told in ((machine(0, 4), True), (machine(0, 32), False)):
        reasons = plan(hardware, DESKTOP, Backlog(), wanted(EIGHT)).reasons
        assert any("There are cells for 1,792 tokens" in reason and "8,192" in reason for reason in reasons) == is_told


def test_who_is_answered_has_the_cells_that_are_needed_by_now():
    short = Backlog(1, prompt_tokens=300, answer_tokens=60)
    demand = wanted(EIGHT, least_cells=3000)
    assert plan(machine(0, 4), DESKTOP, short, demand).num_cells == 3072
    assert plan(machine(0, 4), DESKTOP, short, replace(demand, least_cells=20_000)).num_cells == 8192


def test_many_waiting_questions_get_more_slots_than_one():
    one = plan(machine(0, 16), DESKTOP, Backlog(), wanted(THIRTY, parallel_answers=16))
    many = plan(machine(0, 16), DESKTOP, Backlog(waiting=15, answer_tokens=500), wanted(THIRTY, parallel_answers=16))
    assert many.num_slots > 1
    # Four answers of a step cost little more than one where the disk is what is waited for.
    assert many.prediction.tokens_per_s > 3 * one.prediction.tokens_per_s


def test_an_index_that_is_asked_a_lot_stays_where_it_saves_more_than_layers_would():
    demand = wanted(THIRTY, index_bytes=4 * GIB, num_partitions=100)
    slow_sweeps = replace(DESKTOP, retrieval_load_s=3.0)
    short = Backlog(prompt_tokens=64, answer_tokens=8)
    kept = plan(machine(0, 16), slow_sweeps, short, demand)
    given_up = plan(machine(0, 16), DESKTOP, Backlog(answer_tokens=1000), demand)
    assert kept.index_bytes > given_up.index_bytes
    assert any("parts of the index" in reason for reason in given_up.reasons)


def test_keys_and_values_lose_precision_only_where_that_was_allowed():
    tight = machine(0, 6.5)
    demand = wanted(EIGHT, context_tokens=32_768)
    assert plan(tight, DESKTOP, Backlog(), demand).kv_type == "f16"
    allowed = replace(demand, wishes=Wishes(may_lose=True))
    assert plan(tight, DESKTOP, Backlog(), allowed).kv_type == "q8_0"
    assert plan(machine(0, 64), DESKTOP, Backlog(), allowed).kv_type == "f16"


def test_a_wish_beyond_what_fits_is_cut_and_told():
    placement = plan(machine(8, 64), DESKTOP, Backlog(), wanted(THIRTY, wishes=Wishes(n_gpu_layers=60)))
    assert 0 < placement.n_gpu_layers < 60
    assert any("59 layers were wanted on the GPU" in reason for reason in placement.reasons)


def test_experts_that_are_not_in_memory_may_be_read_as_they_are_chosen():
    mixture = replace(THIRTY, expert_share=0.95, expert_use=0.06)
    dense, sparse = (plan(machine(0, 16), DESKTOP, Backlog(), wanted(shape)) for shape in (THIRTY, mixture))
    assert sparse.prediction.tokens_per_s > 5 * dense.prediction.tokens_per_s


def test_a_card_keeps_room_for_the_experts_that_are_copied_to_it():
    mixture = replace(THIRTY, expert_share=0.95, expert_use=0.06, stage_bytes=300 * MIB)
    wishes = Wishes(n_gpu_layers=10, n_ubatch=512)

    def buffer_bytes(shape: ModelShape, gpu_gib: float, wishes: Wishes) -> int:
        placement = plan(machine(gpu_gib, 64), DESKTOP, Backlog(), wanted(shape, wishes=wishes))
        return sum(span.num_bytes for span in placement.spans if (span.tier, span.what) == ("gpu", "compute buffer"))

    plain = replace(mixture, expert_share=0.0)
    assert buffer_bytes(mixture, 12, wishes) == buffer_bytes(plain, 12, wishes) + 300 * MIB
    whole = replace(wishes, n_gpu_layers=None)
    assert buffer_bytes(mixture, 48, whole) == buffer_bytes(plain, 48, whole)


def test_a_card_keeps_room_for_the_cells_of_a_layer_in_memory_whose_attention_is_computed_there():
    many_heads = replace(THIRTY, kv_cell_bytes=tuple(8 * num_bytes for num_bytes in THIRTY.kv_cell_bytes))

    def buffer_bytes(shape: ModelShape, n_gpu_layers: int) -> int:
        frame = Frame("f16", 1, 8192, 512, kv_on_gpu=True, embedder_on_gpu=False, n_gpu_layers=n_gpu_layers)
        return Terms(wanted(shape)).workspace_gpu_bytes(frame)

    more_bytes = 7 * THIRTY.kv_cell_bytes[0] * 8192
    assert buffer_bytes(many_heads, 10) - buffer_bytes(THIRTY, 10) == more_bytes
    assert buffer_bytes(many_heads, 65) == buffer_bytes(THIRTY, 65)


def test_a_tied_head_is_paid_for_on_the_device_too():
    placement = plan(machine(8, 16), DESKTOP, Backlog(), wanted(THREE))
    head = next(span for span in placement.spans if span.what == "output head")
    assert (placement.n_gpu_layers, head.num_bytes) == (29, THREE.other_bytes)


def test_states_of_sequences_are_kept_where_their_layers_are():
    hybrid = replace(EIGHT, state_bytes=(16 * MIB,) * EIGHT.num_layers)
    whole = plan(machine(24, 32), DESKTOP, Backlog(), wanted(hybrid))
    states = [span for span in whole.spans if span.what == "states of sequences"]
    # 512 MiB of each sequence, so as few as four answers get along with.
    assert [(span.owner, span.tier, span.num_bytes) for span in states] == [("kv", "gpu", 6 * 512 * MIB)]
    in_memory = plan(machine(0, 32), DESKTOP, Backlog(), wanted(hybrid))
    assert held(in_memory, "ram", "kv") - 6 * 512 * MIB >= hybrid.kv_bytes(in_memory.num_cells)
    pinned = Wishes(kv_on_gpu=True)
    small = [plan(machine(8, 32), DESKTOP, Backlog(), wanted(shape, wishes=pinned)) for shape in (hybrid, EIGHT)]
    assert small[0].n_gpu_layers < small[1].n_gpu_layers


def test_tables_of_which_a_token_reads_a_row_take_nothing_of_a_card():
    # As Gemma 3n has them.
    rows = 2 * GIB
    table = replace(THREE, other_bytes=THREE.other_bytes + rows, row_bytes=rows)
    assert table.ties_embeddings
    assert table.head_bytes == THREE.head_bytes
    with_table, without = (plan(machine(4, 32), DESKTOP, Backlog(), wanted(shape)) for shape in (table, THREE))
    assert with_table.n_gpu_layers == without.n_gpu_layers > 0
    assert held(with_table, "gpu", "weights") == held(without, "gpu", "weights")
    assert held(with_table, "ram", "weights") == held(without, "ram", "weights") + rows
    # Where layers are streamed it is left to the system, as embeddings are.
    scarce = [plan(machine(0, 2.5), DESKTOP, Backlog(), wanted(shape)) for shape in (table, THREE)]
    assert all(placement.streamed_layers for placement in scarce)
    assert scarce[0].streamed_layers == scarce[1].streamed_layers


def test_without_a_model_the_index_gets_what_it_needs():
    nothing = ModelShape("", "", 0, (), 0, 0, (), 0, 0)
    placement = plan(machine(8, 8), DESKTOP, Backlog(), wanted(nothing, context_tokens=0))
    assert placement.index_bytes == 600 * MIB
    assert held(placement, "ram", "weights") == 0


def test_the_search_looks_at_few_of_all_placements():
    most = 0
    for seed in range(30):
        hardware, profile, backlog, demand = case(seed)
        most = max(most, plan(hardware, profile, backlog, demand).num_evaluated)
    assert plan(machine(8, 16), DESKTOP, Backlog(), wanted(SEVENTY)).num_evaluated < 400
    assert most < 2000
